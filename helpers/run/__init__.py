"""Real processes: start them, measure them, read how they failed."""
