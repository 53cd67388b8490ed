"""Plain data and its names; standard library only."""
