"""What runs have to say: pages, plots, tables, comparisons and the rows of the documentation."""
