"""What a table will cost, worked out before anything runs: docs/using.md."""
