"""Comparison of two arms on the same input, and learning from feedback."""
