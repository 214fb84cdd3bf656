"""Report on runs: pages, plots, tables, comparisons and the rows of docs/performance.md."""
