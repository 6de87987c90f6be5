"""Triples: a knowledge graph in one SQLite file, subject → relation → object, each edge with its provenance."""

from adapters.triples.parse import Parsed, parse
from adapters.triples.triples import Options, Triples

__all__ = ["Options", "Parsed", "Triples", "parse"]
