"""Language models behind one call, for extraction."""
