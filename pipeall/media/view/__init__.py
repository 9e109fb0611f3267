"""The live page of a run: the annotated picture, what was found, rates, times and each stage's use, in a browser."""

from .address import parse_view as parse_view
from .server import View as View
