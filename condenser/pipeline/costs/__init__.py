"""What a table will cost, worked out before anything runs: docs/using.md."""

WILDCARDS = ("dataset", "file", "model", "system", "expansion", "variant", "texts", "split")
"""What a row of a plan is called by."""
