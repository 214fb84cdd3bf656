"""What all lessons share: their order, the context they run in, the runner and the pages."""
