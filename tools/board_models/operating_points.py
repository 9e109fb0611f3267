"""Operating points of boards: of the RK3399Pro as published, of the A311D by a law that is tried on it.

Published for the RK3399Pro: time and board power of five networks' layers at every clock (Ehsan-aghapour, LW-GA). A
point is the geometric mean of the networks' whole times and of what the board draws beyond its idle power, relative to
the highest clock. The law: power goes as the clock times the square of the voltage (C V^2 f) that the kernel's device
tree has for it; times grow as they do on the RK3399Pro's component of the same kind at the same share of its highest
clock.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import geometric_mean

import numpy as np

from pipeall.pipeline.planning.operating_points import OperatingPoint, Points
from pipeall.pipeline.planning.profile import Profile
from pipeall.pipeline.planning.uncertainty import four_of_five

Volts = Mapping[str, Mapping[float, float]]  # component -> MHz -> V

# Rockchip's kernel, rk3399-opp.dtsi: the first bin
RK_VOLTS: Volts = {
    "big": {408: 0.8, 600: 0.8, 816: 0.825, 1008: 0.875, 1200: 0.95, 1416: 1.025, 1608: 1.1, 1800: 1.2},
    "little": {408: 0.8, 600: 0.8, 816: 0.85, 1008: 0.925, 1200: 1.0, 1416: 1.125},
    "gpu": {200: 0.8, 297: 0.8, 400: 0.825, 600: 0.925, 800: 1.1},
}
# Linux, meson-g12b-a311d.dtsi and meson-g12-common.dtsi
A311D_VOLTS: Volts = {
    "big": {
        **{1000: 0.731, 1200: 0.751, 1398: 0.771, 1512: 0.771, 1608: 0.781, 1704: 0.791, 1800: 0.831, 1908: 0.861},
        **{2016: 0.911, 2108: 0.951, 2208: 1.011},
    },
    "little": {1000: 0.761, 1200: 0.781, 1398: 0.811, 1512: 0.861, 1608: 0.901, 1704: 0.951, 1800: 1.001},
    "gpu": {250: 0.8, 286: 0.8, 400: 0.8, 500: 0.8, 667: 0.8, 800: 0.8},
}
SOURCES = {
    "rk3399pro": [
        "time and board power of five networks at every clock (Ehsan-aghapour, LW-GA); GPU: its host at 1800 MHz",
        "geometric means relative to the highest clock; errors: networks left out of them",
    ],
    "a311d-armcl": [
        "power: clock times the square of the voltage of Linux' device tree; error: this law on the RK3399Pro",
        "time: as on the RK3399Pro at the same share of the highest clock; error: its components and networks",
    ],
}
Row = Mapping[float, Sequence[float]]  # MHz -> of each network


def published(profiles: Mapping[tuple[str, float], Iterable[Profile]], idle_w: float) -> dict[str, tuple[Row, Row]]:
    """Component -> (times, power) of the networks at each clock, relative to the highest."""
    found: dict[str, tuple[dict, dict]] = {}
    for (component, mhz), of_networks in profiles.items():
        rows = found.setdefault(component, ({}, {}))
        totals = [_total(profile, component) for profile in of_networks]
        rows[0][mhz] = [ms for ms, _ in totals]
        rows[1][mhz] = [mj / ms - idle_w for ms, mj in totals]
    return {component: tuple(map(_relative, rows)) for component, rows in found.items()}


def _total(profile: Profile, component: str) -> tuple[float, float]:
    times = profile.units[component]
    return sum(times.ms), float(np.dot(times.ms, times.power_w))


def _relative(row: Row) -> Row:
    return {mhz: [value / top for value, top in zip(values, row[max(row)], strict=True)] for mhz, values in row.items()}


def as_published(found: Mapping[str, tuple[Row, Row]]) -> Points:
    """The points of a board whose times and power were published."""
    return {
        component: tuple(
            OperatingPoint(float(mhz), *map(_rounded, map(geometric_mean, at)), *map(_rounded, map(left_out, at)))
            for mhz in sorted(times)
            for at in [(times[mhz], power[mhz])]
        )
        for component, (times, power) in found.items()
    }


def left_out(values: Sequence[float]) -> float:
    """How far a mean may be off for a network that is not among those it is of."""
    others = [[*values[:index], *values[index + 1 :]] for index in range(len(values))]
    return four_of_five(geometric_mean(row) / value - 1 for row, value in zip(others, values, strict=True))


def by_law(volts: Volts, known: Mapping[str, tuple[Row, Row]]) -> Points:
    """The points of a board whose voltages are known alone; ``known``: of another, as ``published``."""
    return {component: tuple(_by_law(component, row, known)) for component, row in volts.items()}


def _by_law(component: str, volts: Mapping[float, float], known: Mapping[str, tuple[Row, Row]]) -> list[OperatingPoint]:
    top, networks = max(volts), range(len(known[component][0][max(known[component][0])]))
    points = []
    for mhz in sorted(volts):
        share = mhz / top
        slower = _curve(known[component][0], share)
        others = [_curve(times, share, network) / slower - 1 for times, _ in known.values() for network in networks]
        power = share * (volts[mhz] / volts[top]) ** 2
        errors = (four_of_five(others, effective=len(networks)), law_error(known)) if mhz < top else (0.0, 0.0)
        points.append(OperatingPoint(float(mhz), _rounded(slower), _rounded(power), *map(_rounded, errors)))
    return points


def _curve(times: Row, share: float, network: int | None = None) -> float:
    """How many times as long a network, or their mean, takes at a share of the highest clock; straight lines in its
    period."""
    clocks = sorted(times, reverse=True)
    longer = [geometric_mean(times[mhz]) if network is None else times[mhz][network] for mhz in clocks]
    return float(np.interp(1 / share, [max(times) / mhz for mhz in clocks], longer))


def law_error(known: Mapping[str, tuple[Row, Row]], volts: Volts = RK_VOLTS, least: float = 0.4) -> float:
    """How far off the law of power is, from clocks of at least such a share of the highest: the A311D's are."""
    misses = []
    for component, (_, power) in known.items():
        top = max(power)
        for mhz, values in power.items():
            law = mhz / top * (volts[component][mhz] / volts[component][top]) ** 2
            misses += [law / value - 1 for value in values] if least * top <= mhz < top else []
    return four_of_five(misses, effective=len(next(iter(known["big"][1].values()))))


def _rounded(value: float) -> float:
    return round(value, 4)
