"""Memory systems, embedders, judges and language models: a folder or a file each."""
