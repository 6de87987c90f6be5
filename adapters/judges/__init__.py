"""Judges: models that score candidates from 0 to 10."""
