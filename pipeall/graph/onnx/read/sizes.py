"""Sizes that depend on data: whole numbers as sums of counts, which are known while a frame is computed.

A count is a tensor of one int64 and a bound that is known at load time. While a model is read, arrays of sizes are
NumPy arrays of objects, integers and Size, so that what exporters compute of shapes folds as it does on integers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


class UndecidedError(Exception):
    """The answer depends on a count."""


@dataclass(frozen=True, slots=True)
class Count:
    """``name``: the canonical tensor, (1,) of int64, with a number from 0 to ``most``; ``whole`` where it is meant
    to be that, as of a slice that ends with its axis at the latest."""

    name: str
    most: int
    whole: bool = False


class Size:
    """``rest`` and so many times each count; of one count at least (``size`` makes integers of others)."""

    __slots__ = ("rest", "terms")

    def __init__(self, terms: Mapping[Count, int], rest: int = 0):
        self.terms, self.rest = dict(terms), rest

    def __repr__(self) -> str:
        parts = [f"{times} * {count.name}" if times != 1 else count.name for count, times in self.terms.items()]
        return " + ".join(parts + [str(self.rest)] * bool(self.rest))

    @property
    def low(self) -> int:
        return self.rest + sum(min(0, times * count.most) for count, times in self.terms.items())

    @property
    def high(self) -> int:
        return self.rest + sum(max(0, times * count.most) for count, times in self.terms.items())

    def __add__(self, other: Any) -> Size | int:
        if not isinstance(other, Size):
            return size(self.terms, self.rest + int(other))
        terms = dict(self.terms)
        for count, times in other.terms.items():
            terms[count] = terms.get(count, 0) + times
        return size(terms, self.rest + other.rest)

    def __mul__(self, other: Any) -> Size | int:
        if isinstance(other, Size):
            raise UndecidedError("a product of two counts")
        return size({count: times * int(other) for count, times in self.terms.items()}, self.rest * int(other))

    def __floordiv__(self, other: Any) -> Size | int:
        if isinstance(other, Size):
            if isinstance(self - other, int) and self.low > 0:
                return 1
            raise UndecidedError("a quotient of two counts")
        if any(number % int(other) for number in (self.rest, *self.terms.values())):
            raise UndecidedError("a quotient that is rounded")
        return size({count: times // int(other) for count, times in self.terms.items()}, self.rest // int(other))

    def __neg__(self) -> Size | int:
        return self * -1

    def __sub__(self, other: Any) -> Size | int:
        return self + -1 * other

    def __rsub__(self, other: Any) -> Size | int:
        return -self + other

    __radd__, __rmul__ = __add__, __mul__

    def __eq__(self, other: Any) -> bool:
        less = self - other
        if isinstance(less, int):
            return less == 0
        return _decided(False, less.low > 0 or less.high < 0)

    def __lt__(self, other: Any) -> bool:
        less = self - other
        if isinstance(less, int):
            return less < 0
        return _decided(less.high < 0, less.high < 0 or less.low >= 0)

    def __gt__(self, other: Any) -> bool:
        return -self < -1 * other

    def __ge__(self, other: Any) -> bool:
        return not self < other

    def __le__(self, other: Any) -> bool:
        return not self > other

    def __hash__(self) -> int:
        return hash((frozenset(self.terms.items()), self.rest))


def _decided(answer: bool, known: bool) -> bool:
    if not known:
        raise UndecidedError("a comparison with a count")
    return answer


def size(terms: Mapping[Count, int], rest: int) -> Size | int:
    """An integer where no count is left."""
    terms = {count: times for count, times in terms.items() if times}
    return Size(terms, rest) if terms else rest


def same(a: Size | int, b: Size | int) -> bool:
    """Whether two sizes are equal whatever the counts are."""
    less = a - b
    return not isinstance(less, Size) and less == 0


def high(dim: Size | int) -> int:
    return dim.high if isinstance(dim, Size) else dim


def whole(dim: Size | int) -> bool:
    """Whether a size is meant to be the largest that it can be."""
    return not isinstance(dim, Size) or all(count.whole for count in dim.terms)


def is_symbolic(value: Any) -> bool:
    """Whether a value of the builder is an array of sizes that depend on data."""
    return isinstance(value, np.ndarray) and value.dtype == object


def array_of(dims: Any) -> np.ndarray:
    """Sizes as an array: of integers where they all are."""
    dims = np.asarray(dims, object)
    if any(isinstance(dim, Size) for dim in dims.flat):
        return dims
    return dims.astype(np.int64)
