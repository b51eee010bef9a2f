"""Accelerate some bodies by all in float64, beside what a variant computed of them: ``force`` checks a sample by it."""
