"""What a workflow will cost, worked out before anything is spent."""
