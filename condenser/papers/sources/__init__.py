"""Sources of sentences."""
