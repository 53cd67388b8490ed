"""What the notebooks import."""
