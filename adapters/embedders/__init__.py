"""Embedders: the local model, and providers over HTTP."""
