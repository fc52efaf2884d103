"""Systems for sentences."""
