"""The tables and figures of the paper: its own numbers, our runs beside them."""

from groc.paper.records import Results
from groc.paper.tables import TABLES

__all__ = ["TABLES", "Results"]
