"""Comparison of two arms on the same input, and tuning of recipes by it."""
