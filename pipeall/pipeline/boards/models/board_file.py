"""A board model as a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from ....errors import ArgumentError
from ....files import JsonReader
from ...planning.operating_points import points_from, points_to_dict
from ...planning.profile import link_from, link_to_dict
from ...planning.units import Unit, traits_of
from . import regression
from .measured import measured_from
from .modelled import Modelled
from .price_list import PriceList
from .published import Published
from .regression import Regression
from .some_cores import Cores


def to_dict(model: Any) -> dict[str, Any]:
    """A ``BoardModel``, ready for JSON."""
    lists = {unit: known for unit, known in model.pricing.items() if isinstance(known, PriceList)}
    fitted = {unit: known for unit, known in model.pricing.items() if isinstance(known, Regression)}
    factors = {
        Unit(unit, None, precision): factor
        for unit, known in fitted.items()
        for precision, factor in known.factors.items()
    }
    modelled = {
        "step_prices": {unit: known.to_dict() for unit, known in lists.items()},
        "cores": {name: known.to_dict() for name, known in model.cores.items()},
        "published": {name: one.to_dict() for name, one in model.published.items()},
        "precision_factors": factors,
        "error": dict(model.error),
        "contention_error": model.contention_error,
    }
    return {
        "name": model.name,
        "about": dict(model.about),
        "components": {name: component.details() for name, component in model.components.items()},
        "idle_w": model.idle_w,
        "mean_power_w": {unit: round(watts, 4) for unit, watts in model.mean_power_w.items()},
        "half_iqr_share": model.half_iqr_share,
        "contention": {unit: dict(row) for unit, row in model.contention.items()},
        "links": [link_to_dict(ends, link) for ends, link in model.links.items()],
        "prices": {
            unit: dict(zip(regression.FEATURES, (float(f"{price:.6g}") for price in known.prices), strict=True))
            for unit, known in fitted.items()
        },
        **{key: value for key, value in modelled.items() if value},
        **({} if model.barrier_ms is None else {"barrier_ms": model.barrier_ms}),
        **({"operating_points": points_to_dict(model.points)} if model.points else {}),
        **({"report": dict(model.report)} if model.report else {}),
        "leave_one_out_errors": {
            unit: {network: round(error, 4) for network, error in row.items()} for unit, row in model.errors.items()
        },
        "networks": [
            {
                "fitted": network.fitted,
                "macs": network.macs,
                "spans": list(network.spans),
                "profile": {key: value for key, value in network.profile.to_dict().items() if value},
            }
            for network in model.networks
        ],
    }


def fields(content: Mapping[str, Any], source: str) -> dict[str, Any]:
    """What ``BoardModel`` is made of, of such a file; ``source`` is named in errors. Raises ArgumentError for what is
    wrong."""
    read = JsonReader(content, source)
    components = {name: Modelled.from_file(read.inside("components", name)) for name in read.keys("components")}
    if not components or any(_whole(name) != name or traits_of(name).all for name in components):
        raise read.fail("components", "names of components, such as big, little and gpu")
    units, own = read.keys("prices"), read.keys("step_prices")
    if not (units or own) or any(_whole(unit) not in components for unit in (*units, *own)):
        raise read.fail("prices", "units of the components")
    some = read.keys("cores")
    if any(name not in own for name in some):
        raise read.fail("cores", "components that have step_prices")
    shared = read.number("barrier_ms") if content.get("barrier_ms") is not None else None
    if shared is not None and len(some) < 2:
        raise read.fail("barrier_ms", "several clusters in cores")
    factors: dict[str, dict[str, float]] = {}
    told = read.inside("precision_factors") if content.get("precision_factors") is not None else None
    for word in told.content if told else ():
        unit = _whole(word)
        if unit != word or not unit.precision or unit.component not in units:
            raise read.fail("precision_factors", "components that have prices, in another precision: gpu@fp16")
        factors.setdefault(unit.component, {})[unit.precision] = told.number(word)
    rows = {unit: tuple(map(read.inside("prices", unit).number, regression.FEATURES)) for unit in units}
    error = read.inside("error") if content.get("error") is not None else JsonReader({}, source)
    contention = _table(read, "contention", low=0.1)
    parts = {*components, *read.keys("published")}
    if any(_whole(unit) not in parts for unit in chain(contention, *contention.values())):
        raise read.fail("contention", "units of the components")
    power = read.inside("mean_power_w") if content.get("mean_power_w") is not None else JsonReader({}, source)
    return dict(
        name=read.word("name"),
        components=components,
        networks=tuple(measured_from(row) for row in read.rows("networks")),
        pricing={unit: Regression(row, factors.get(unit, {})) for unit, row in rows.items()}
        | {unit: PriceList.from_file(read.inside("step_prices", unit)) for unit in own},
        error={unit: error.number(unit) for unit in error.content},
        contention_error=read.number("contention_error") if content.get("contention_error") is not None else 0.0,
        cores={name: Cores.from_file(read.inside("cores", name)) for name in some},
        published=_published(read, components, [*units, *own]),
        barrier_ms=shared,
        errors=_table(read, "leave_one_out_errors", low=-1.0),
        mean_power_w={unit: power.number(unit) for unit in power.content},
        contention=contention,
        links=dict(link_from(row) for row in read.rows("links")),
        idle_w=read.number("idle_w") if content.get("idle_w") is not None else None,
        half_iqr_share=read.number("half_iqr_share"),
        points=points_from(read),
        about=read.inside("about").content if content.get("about") is not None else {},
        report=read.inside("report").content if content.get("report") is not None else {},
    )


def _published(read: JsonReader, components: Mapping[str, Any], priced: Sequence[str]) -> dict[str, Published]:
    found = {name: Published.from_file(read.inside("published", name)) for name in read.keys("published")}
    if any(
        _whole(name) != name or name in components or one.divided.component not in priced for name, one in found.items()
    ):
        raise read.fail("published", "further components, divided_as one that has prices")
    return found


def _whole(unit: str) -> Unit | None:
    """The whole component of a unit that a file names, None where it is no unit."""
    try:
        return Unit.parse(unit).whole
    except ArgumentError:
        return None


def _table(read: JsonReader, key: str, low: float) -> dict[str, dict[str, float]]:
    rows = ((name, read.inside(key, name)) for name in read.keys(key))
    return {name: {entry: row.number(entry, low) for entry in row.content} for name, row in rows}
