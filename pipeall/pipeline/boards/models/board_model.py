"""The model of a board that is not at hand: measured networks as they were measured, any other one by prices.

A measured network is a profile over the groups that were timed, which may be coarser than ours: ``spans`` says how many
of our groups each has. Its time is divided among them as the prices have it. Prices are of pipeall's own steps, where
they are known (``price_list.py``), else of operations, fitted to the times of another library (``regression.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ....arguments import path as path_of
from ....errors import ArgumentError
from ....files import naming, read_json, write_json
from ....graph.ir import Graph
from ...devices.device import Component
from ...planning.operating_points import Points
from ...planning.profile import Link, Profile, UnitTimes, crossing_bytes
from ...planning.uncertainty import four_of_five
from ...planning.units import Unit
from . import board_file, regression
from .all_cores import WHOLE, AllCores, Part
from .measured import Measured, mean_power, median_contention
from .modelled import Modelled, able
from .price_list import PriceList
from .pricing import Pricing
from .published import Published, whole_times
from .regression import Regression
from .some_cores import Cores, Traffic, between, side_by_side

FOLDER = Path(__file__).parent
HALF_IQR_SHARE = 0.02  # half the distance of the quartiles by the median, where nobody measured it


@dataclass(frozen=True)
class BoardModel:
    """Speed and power of a board's components.

    components     name -> what it is
    networks       those that were measured
    pricing        unit -> its times of networks that nobody measured
    errors         unit -> network -> (predicted - measured) / measured of its whole time, fitted without it
    mean_power_w   unit -> what the board draws while it runs, mean over the measured networks; empty: not known
    contention     unit -> other unit -> how many times as long it takes while the other one runs too
    links, idle_w  as in a profile
    half_iqr_share half_iqr_ms by ms of a predicted group
    error          unit -> how far off its times may be, of a network that was not measured; as in a profile. "big@int8"
                   is also what "big" computes a quantized network in
    contention_error  of the factors, likewise
    cores          component -> what is known of one core of it; such a component has times of some of its cores, too
    published      component -> the whole networks that were timed on it, and no more: a profile has times of it where
                   it is asked for, of these networks
    barrier_ms     what a step takes longer for being shared among clusters: all of ``cores`` as one team, "cpu", then
                   have times; None: nothing is known of that
    points         component -> clocks that it may have, as in a profile
    about          where the figures come from
    report         what ``pipeall profile board`` measured beside them; not part of profiles
    """

    name: str
    components: Mapping[str, Modelled]
    networks: tuple[Measured, ...]
    pricing: Mapping[Unit, Pricing]
    errors: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    mean_power_w: Mapping[str, float] = field(default_factory=dict)
    contention: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    links: Mapping[tuple[str, str], Link] = field(default_factory=dict)
    idle_w: float | None = None
    half_iqr_share: float = HALF_IQR_SHARE
    error: Mapping[str, float] = field(default_factory=dict)
    contention_error: float = 0.0
    cores: Mapping[str, Cores] = field(default_factory=dict)
    published: Mapping[str, Published] = field(default_factory=dict)
    barrier_ms: float | None = None
    points: Points = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    report: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def fit(
        cls,
        name: str,
        components: Mapping[str, Modelled],
        networks: Iterable[tuple[Graph, Measured]],
        floors: Mapping[str, float] = regression.NO_FLOORS,
        **rest: Any,
    ) -> BoardModel:
        """The model with prices, their errors and mean powers computed; ``rest`` are further fields.

        floors: unit -> the least ms that starting an op costs.

        Raises ArgumentError where there is nothing to fit on, a network comes twice, or a unit is of no component.
        """
        networks = list(networks)
        samples = {}
        for graph, measured in networks:
            if measured.profile.network in samples:
                raise ArgumentError(f"network {measured.profile.network!r}: expected one profile of it, got several")
            if measured.fitted:
                samples[measured.profile.network] = measured.sample(graph)
        prices = regression.fit(list(samples.values()), floors)
        if absent := [unit for unit in prices if Unit.parse(unit).whole not in components]:
            raise ArgumentError(f"unit {absent[0]!r}: expected one of the board's components, {', '.join(components)}")
        known = tuple(measured for _, measured in networks)
        return cls(
            name,
            components,
            known,
            {unit: Regression(tuple(map(float, row))) for unit, row in prices.items()},
            errors=regression.leave_one_out(samples, floors),
            mean_power_w=mean_power([measured.profile for measured in known if measured.fitted], prices),
            **rest,
        )

    @classmethod
    def from_profiles(
        cls, name: str, there: Mapping[str, Component], profiles: Iterable[tuple[Graph, Profile]]
    ) -> BoardModel:
        """The model of a board with the components ``there``, whose networks were profiled on it.

        Units are those that all profiles have.

        Contention is the median over groups and networks, and a measured network keeps its own; a link is that of the
        last network that has it. How far off it may be for others follows from networks left out of the fit.
        Its components are those that were profiled. Raises ArgumentError where there is no profile, one is not of its
        graph, or one has a unit that the board lacks or that a stand-in ran.
        """
        profiles = list(profiles)
        timed = {unit.whole for _, profile in profiles for unit in profile.units}
        devices = {name: component.device for name, component in there.items() if name in timed}
        if stand_ins := [name for name, device in devices.items() if device.stand_in]:
            raise ArgumentError(f"component {stand_ins[0]!r}: expected no stand-in; its times are a CPU's")
        components = {name: Modelled.of(device) for name, device in devices.items()}
        idle = [profile.idle_w for _, profile in profiles if profile.idle_w is not None]
        model = cls.fit(
            name,
            components,
            [(graph, Measured.of(graph, profile)) for graph, profile in profiles],
            contention=median_contention([profile for _, profile in profiles]),
            links={ends: link for _, profile in profiles for ends, link in profile.links.items()},
            idle_w=min(idle, default=None),
            about={"profiles": {profile.network: dict(profile.about) for _, profile in profiles}},
        )
        return replace(model, error={unit: four_of_five(row.values()) for unit, row in model.errors.items() if row})

    def __post_init__(self) -> None:
        pricing = {Unit.parse(unit): known for unit, known in self.pricing.items() if unit != WHOLE}
        if self.barrier_ms is not None:
            pricing[Unit.parse(WHOLE)] = self._all_cores(pricing)
        object.__setattr__(self, "pricing", pricing)
        object.__setattr__(self, "_whole", whole_times(self.published, pricing))

    def _all_cores(self, pricing: Mapping[str, Pricing]) -> AllCores:
        names = [name for name in self.components if name in self.cores]
        parts = {}
        for name in names:
            slower = prod(self.contention.get(name, {}).get(other, 1.0) for other in names if other != name)
            parts[name] = Part(pricing[name], self.components[name].count, slower)
        return AllCores(parts, self.barrier_ms, max(self.cores[name].shared_gb_s for name in names))

    @property
    def team(self) -> AllCores | None:
        """All clusters as one; None where nothing is known of that."""
        return self.pricing.get(WHOLE)

    def units(self, graph: Graph) -> list[Unit]:
        """All units that ``profile`` can tell of a network: its default, other precisions, and some cores of each."""
        every = [*self.components, *([WHOLE] if self.team else [])]
        precise = [Unit(name, None, precision) for name in every for precision in self.precisions(name)]
        whole = [*self.default_units(), *(unit for unit in precise if graph.quantized or unit.precision != "int8")]
        some = (
            Unit(unit.component, count, unit.precision)
            for unit in whole
            if unit.component in self.cores and unit.cores is None
            for count in range(1, self.components[unit.component].count + 1)
        )
        return [*whole, *some, *(Unit.parse(name) for name, one in self.published.items() if one.known(graph))]

    def precisions(self, component: str) -> list[str]:
        """Those beside the default that a component has prices in; int8 is for quantized networks."""
        return self.pricing[component].precisions if component in self.pricing else []

    def profile(self, graph: Graph, units: Sequence[str] | None = None) -> Profile:
        """Times of every group of a network on units: measured where it is one of ``networks``, else predicted.

        units: such as ["big@fp16", "little", "bigx1"]; default all components in their default precision. One that
        takes frames together, such as "bigx1*2", has the time of the same unit a frame at a time, which is told too,
        less what weights cost that are read once. Raises ArgumentError for one that has no prices.

        A measured group that spans several of ours is divided so that they add up to it. Network inputs and outputs
        are free but for the links. Groups that a unit's kind of device has no kernels for are marked,
        unless they were measured.
        """
        asked, known = [Unit.parse(unit) for unit in units or self.default_units()], self.units(graph)
        names = list(dict.fromkeys(unit.single for unit in asked))
        for name in names:
            if name not in known:
                part = name.precision and self.components.get(name.component)
                lacks = f" (nothing known of its {part.core_type} in {name.precision})" if part else ""
                if name.component in self.published:
                    there = ", ".join(network.name for network in self.published[name.component].networks)
                    raise ArgumentError(
                        f"unit {name!r}: expected a network whose time on it was published ({there}), got {graph.name}"
                    )
                if name.cores and name.component not in self.cores:
                    lacks = " (whole components alone have times)"
                raise ArgumentError(f"unit {name!r}: expected one of the model {self.name}{lacks}: {', '.join(known)}")
        measured = next((network for network in self.networks if network.fits(graph)), None)
        predicted, traffic = self._predicted(graph, names)
        times = {unit: self._times(unit, ms, measured) for unit, ms in predicted.items()}
        timed = measured.profile.units if measured else ()
        times = {unit: row if unit in timed else able(graph, unit, row) for unit, row in times.items()}
        times |= {unit: self._together(graph, unit, times[unit.single]) for unit in asked if unit.batch > 1}
        count = len(graph.groups)
        return Profile(
            network=graph.name,
            groups=tuple(group.name for group in graph.groups),
            crossing_bytes=crossing_bytes(graph),
            units=times,
            contention=self._contention(count, traffic) | (dict(measured.profile.contention) if measured else {}),
            same_pipeline=measured.profile.same_pipeline if measured else {},
            links=self.team.handing_over(self.links) if self.team else self.links,
            idle_w=self.idle_w,
            error=self._errors(graph, times, measured),
            contention_error=max(
                measured.profile.contention_error if measured else self.contention_error,
                *(self.cores[unit.component].error for unit in traffic),
                0.0,
            ),
            points=self.points,
            about={
                "board": self.name,
                "times": self._source(measured),
                **self._told(graph, times),
                "components": {name: part.description for name, part in self.components.items()},
                "sources": dict(self.about),
            },
            modelled=True,
        )

    def _source(self, measured: Measured | None) -> str:
        if measured:
            return measured.profile.about.get("source", "measured on this board")
        by_steps = any(isinstance(pricing, PriceList) for pricing in self.pricing.values())
        return (PriceList if by_steps else Regression).source

    def _told(self, graph: Graph, units: Iterable[Unit]) -> dict[str, Any]:
        """What is to be said of units that have no more than a published time of the whole network."""
        found = {unit: self.published[unit].known(graph).name for unit in units if unit in self.published}
        return {"whole_network_published": found} if found else {}

    def default_units(self) -> list[Unit]:
        """In the order of the components, then all cores."""
        order = [*self.components, WHOLE]
        return sorted(self.pricing, key=lambda unit: order.index(unit.whole))

    def _pricing(self, unit: Unit) -> tuple[Pricing, str]:
        """What prices a unit, and the precision that it is asked for."""
        if unit in self._whole:
            return self._whole[unit], ""
        for name in (unit, unit.whole):
            if name in self.pricing:
                return self.pricing[name], ""
        return self.pricing[unit.component], unit.precision

    def _predicted(self, graph: Graph, units: Iterable[Unit]) -> tuple[dict[Unit, np.ndarray], dict[Unit, Traffic]]:
        """unit -> the time of each group by the prices; and the traffic of units of some cores."""
        works, predicted, traffic = {}, {}, {}
        for unit in units:
            pricing, precision = self._pricing(unit)
            key = pricing.work_key(precision)
            if key not in works:
                works[key] = pricing.work(graph, precision)
            predicted[unit] = pricing.group_ms(works[key], precision)
            if unit.cores is not None and unit not in self.pricing:
                cores, count = self.cores[unit.component], self.components[unit.component].count
                one = cores.one.group_ms(works[key], precision)
                predicted[unit] = between(one, predicted[unit], unit.cores, count)
                traffic[unit] = cores.traffic(works[key], predicted[unit], unit.cores)
        return predicted, traffic

    def _together(self, graph: Graph, unit: Unit, times: UnitTimes) -> UnitTimes:
        """The times of a unit a frame at a time as those of one that takes frames together."""
        pricing, precision = self._pricing(unit.single)
        if unit.cores is not None and unit.single not in self.pricing:
            pricing = self.cores[unit.component].one
        work = pricing.work(graph, precision)
        one, some = (pricing.group_ms(work, precision, frames) for frames in (1, unit.batch))
        shares = np.divide(some, one, out=np.ones_like(one), where=one > 0)
        ms, spread = (tuple((np.array(row) * shares).tolist()) for row in (times.ms, times.half_iqr_ms))
        return replace(times, ms=ms, half_iqr_ms=spread)

    def _contention(self, count: int, traffic: Mapping[Unit, Traffic]) -> dict[str, dict[str, tuple[float, ...]]]:
        """The factors of ``count`` groups: between components the board's, between cores of one by their traffic."""
        known = self.team.beside(self.contention) if self.team else self.contention
        table = {unit: {other: (factor,) * count for other, factor in row.items()} for unit, row in known.items()}
        for unit, row in side_by_side(traffic, {name: part.count for name, part in self.components.items()}).items():
            table[unit] = {**table.get(unit.whole, table.get(unit.component, {})), **row}
        return table

    def _errors(self, graph: Graph, units: Iterable[Unit], measured: Measured | None) -> dict[str, float]:
        """unit -> its error, where it is known; of one without its own that of its component."""
        errors = dict(measured.profile.error) if measured else {}
        for unit in units:
            pricing, precision = self._pricing(unit.single)
            if measured and pricing.factor(precision) is None:
                continue
            default = "" if unit.precision else pricing.default_precision(graph)
            exact = Unit(unit.component, unit.cores, default) if default else unit
            names = (exact, exact.whole, unit.component)
            if known := [self.error[name] for name in names if name in self.error]:
                errors[unit] = known[0]
        return errors

    def _times(self, unit: Unit, predicted: np.ndarray, measured: Measured | None) -> UnitTimes:
        power_w = self.team.power_w(self.mean_power_w, self.idle_w) if self.team else self.mean_power_w
        mean_power = (power_w[unit],) * len(predicted) if unit in power_w else None
        timed = measured.profile.units if measured else ()
        pricing, precision = self._pricing(unit)
        factor = None if unit in timed else pricing.factor(precision)
        source = unit if factor is None else unit.component
        if source not in timed:
            return UnitTimes(tuple(predicted.tolist()), tuple((self.half_iqr_share * predicted).tolist()), mean_power)
        times = measured.times(source, predicted)
        if factor is not None:  # whose power nobody measured
            ms, half_iqr_ms = (tuple(factor * value for value in row) for row in (times.ms, times.half_iqr_ms))
            times = replace(times, ms=ms, half_iqr_ms=half_iqr_ms, power_w=None)
        return times if times.power_w else replace(times, power_w=mean_power)

    def save(self, path: str | Path) -> None:
        """Writes it as JSON. Raises ArgumentError where the file cannot be written."""
        write_json(path, "board", self.to_dict())

    @classmethod
    def load(cls, name: str | Path) -> BoardModel:
        """One that comes with the package, by name, or that of a file ending in .json.

        Raises ArgumentError for an unknown name, with the known ones, or naming the file and the entry that is wrong.
        """
        known = sorted(path.stem for path in FOLDER.glob("*.json"))
        name = path_of("name", name)
        if str(name) in known:
            return cls.from_dict(read_json(FOLDER / f"{name}.json", "board"), str(name))
        if Path(name).suffix != ".json":
            raise ArgumentError(f"board {str(name)!r}: expected one of {', '.join(known)}, or a file ending in .json")
        with naming(name):
            return cls.from_dict(read_json(name, "board"), str(name))

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return board_file.to_dict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], source: str) -> BoardModel:
        """The inverse of ``to_dict``; ``source`` is named in errors. Raises ArgumentError for what is wrong."""
        return cls(**board_file.fields(content, source))
