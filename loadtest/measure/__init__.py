"""From the files of a point's programs to one result, with the gates that make it valid."""
