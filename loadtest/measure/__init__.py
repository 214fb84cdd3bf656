"""Turn the files of a point's programs into one result, with the gates that make it valid."""
