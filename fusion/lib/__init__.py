"""Text and information retrieval: pure functions without state, which every other package may use."""
