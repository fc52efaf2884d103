"""Measures of sentences."""
