"""What all lessons share: what a lesson is given, the order of the lessons, how they are run, their pages."""
