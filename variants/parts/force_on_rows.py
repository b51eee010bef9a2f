"""Accelerate some bodies by all in float64: ``force`` checks a sample by it."""
