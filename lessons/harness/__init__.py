"""Define what all lessons share: their order, their context, the runner and the pages."""
