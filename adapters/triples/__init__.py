"""Triples: a knowledge graph in one SQLite file, subject → relation → object, each edge with its provenance."""

from adapters.triples.options import Options
from adapters.triples.parse import Parsed, parse
from adapters.triples.triples import Triples

__all__ = ["Options", "Parsed", "Triples", "parse"]
