"""What authors edit, and the tools that build the rest from it."""
