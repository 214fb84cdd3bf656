"""Make the world that the streams are drawn from: sites and racks, users, ads and pages."""
