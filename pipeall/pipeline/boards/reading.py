"""What a board model's file has, entry by entry: components, prices, tables."""

from __future__ import annotations

from ..._kernels.cpu import algorithms
from ...errors import ArgumentError
from ...files import JsonReader
from ..planning.units import Unit
from . import price_list
from .modelled import Modelled


def component_of(unit: str) -> Unit | None:
    """The whole component of a unit that a file names, None where it is no unit."""
    try:
        return Unit.parse(unit).whole
    except ArgumentError:
        return None


def component_from(read: JsonReader) -> Modelled:
    count = read.number("count", low=1)
    if count != int(count):
        raise read.fail("count", "a whole number")
    mhz = read.number("max_mhz") if read.content.get("max_mhz") is not None else None
    return Modelled(read.word("core_type"), int(count), mhz)


def step_prices_from(read: JsonReader) -> price_list.PriceList:
    kernels = read.inside("kernels")
    for name in (price_list.CONV, price_list.OTHER):
        if name not in kernels.content:
            raise read.fail("kernels", f"prices of {name}, which stands for others")
    prices = {
        kernel: tuple(kernels.inside(kernel).number(feature) for feature in price_list.FEATURES)
        for kernel in kernels.content
    }
    integers = read.word("integers") if read.content.get("integers") is not None else None
    if integers not in (None, *algorithms.INTEGERS):
        raise read.fail("integers", f"one of {', '.join(algorithms.INTEGERS)}, or none")
    return price_list.PriceList(read.number("cache_mb"), prices, integers)


def table(read: JsonReader, key: str, low: float) -> dict[str, dict[str, float]]:
    rows = ((name, read.inside(key, name)) for name in read.keys(key))
    return {name: {entry: row.number(entry, low) for entry in row.content} for name, row in rows}
