"""Figures of one paper alone."""
