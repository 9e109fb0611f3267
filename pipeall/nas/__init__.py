"""The search for networks that suit a data set and a board."""

from .architecture_search import Search, run

__all__ = ["Search", "run"]
