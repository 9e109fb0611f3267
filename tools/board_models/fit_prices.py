"""Generates models of boards that run pipeall's own kernels, pipeall/pipeline/boards/models/*.json, of priced steps.

    python -m tools.board_models.fit_prices [PRICES] [--data DATA]

PRICES is the table that price.py writes; default prices.csv.gz here. DATA is the folder with the published timings that
fit_boards.py reads: the GPUs' times and the boards' power come from there. Shows the error of each network on each
core where it is left out of the fit, and the published speed-ups of several threads beside the modelled ones.
"""

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.common import DATA, Record, mean_line, parser
from bench.kernels.core_errors import ARMCOST, ARMCOST_INT8, deviation, interval_of
from bench.kernels.gpu_halves import faster
from bench.kernels.gpu_times import gpu_halves, gpu_spread, halves_error
from pipeall.pipeline.boards.models import price_list
from pipeall.pipeline.boards.models.board_model import FOLDER, BoardModel
from pipeall.pipeline.boards.models.price_list import Sample
from pipeall.pipeline.boards.models.regression import Regression
from pipeall.pipeline.boards.models.some_cores import Cores
from pipeall.pipeline.boards.models.step_work import Work
from pipeall.pipeline.planning.uncertainty import DEVIATIONS, four_of_five
from tools.board_models import price_table, shared_steps
from tools.board_models.fit_boards import RK_PIPELINES, build, contention, links, pipelines
from tools.board_models.modelled_boards import BOARDS, BoardParts
from tools.board_models.npus import with_npu
from tools.board_models.price_grid import GRIDS
from tools.board_models.price_table import PRICES, Row
from tools.board_models.priced_cores import CORES, Core, steps

SOME_CORES = [
    "side by side: their bytes by the memory's rate; error: all that several threads do not divide may be shared",
    "some cores: between one core, by its prices, and all cores, by Amdahl's law for each group",
    "memory of one core: sbc-bench; of all: STREAM on a Raspberry Pi 4, else 0.72 of its wires' rate, as STREAM "
    "reaches on other boards",
]
PRECISIONS = ("", "fp16", "bf16", "int8")  # of the table; "" is single


class Cluster:
    """The steps priced on one core, as times of its whole cluster.

    A step takes its arithmetic's time divided by the threads at some efficiency, and the time of its bytes divided by
    what several cores read more than one: the two numbers that come nearest to ncnn's published speed-ups. Where other
    engines tell their efficiency there, pipeall's is the geometric mean of all engines': each has losses of its own.
    """

    def __init__(self, core: Core, rows: Sequence[Row], like: "Cluster | None" = None):
        self.core, self.like = core, like
        self.networks: dict[str, list[Row]] = {}
        self._known: dict[str, tuple[float, float]] | None = None
        for row in rows:
            self.networks.setdefault(sample_name(row.network, row.unit), []).append(row)
        if like:
            self.efficiency, self.bandwidth = like.efficiency, min(like.bandwidth, core.threads)
        else:
            self.efficiency, self.bandwidth = self._fitted(set(self._totals()))

    def samples(self) -> dict[str, Sample]:
        return {
            name: Sample([Work(row.node, row.kernel, 0, row.features) for row in rows], self.ms(rows).tolist())
            for name, rows in self.networks.items()
        }

    def one_core(self) -> dict[str, Sample]:
        """The samples of one core."""
        return {
            name: Sample([Work(row.node, row.kernel, 0, row.features) for row in rows], [row.ms for row in rows])
            for name, rows in self.networks.items()
        }

    def rate(self, precision: str) -> float:
        """Networks a millisecond, all that are priced in a precision, "" for floats, independently."""
        samples = self.samples().items()
        return sum(1 / sum(sample.ms) for name, sample in samples if name.partition("@")[2] == precision)

    def prices(self, samples: Mapping[str, Sample]) -> price_list.PriceList:
        whole = any(name.endswith("@int8") for name in samples)
        return price_list.PriceList.fit(samples.values(), self.core.cache_mb, self.core.integers if whole else None)

    def left_out_networks(self, samples: Mapping[str, Sample], precision: str) -> dict[str, float]:
        """Sample's name -> error of its price by all other networks, of those in a precision, "" for floats.

        Without those that were made to have every kernel.
        """
        names = [name for name in samples if base(name) not in GRIDS and name.partition("@")[2] == precision]
        return price_list.leave_one_out(samples, self.core.cache_mb, names, base)

    def ms(self, rows: Sequence[Row]) -> np.ndarray:
        rest, memory = self._parts(rows)
        return rest / (self.core.threads * self.efficiency) + memory / self.bandwidth

    def speedups(self) -> dict[str, float]:
        """network -> modelled speed-up of the whole cluster, of those that are published."""
        return {name: self._speedup(name, self.efficiency, self.bandwidth) for name in self._totals()}

    def left_out(self) -> dict[str, float]:
        """network -> the same, by what the other networks' published speed-ups say."""
        names = set(self._totals())
        return {name: self._speedup(name, *self._fitted(names - {name})) for name in names}

    def efficiencies(self, names: Set[str] | None = None) -> dict[str, float]:
        """engine -> its efficiency, or at least; ncnn's by some networks, default all."""
        own, bandwidth = self._nearest(set(self._totals()) if names is None else names)
        found = {"ncnn": own}
        for engine in self.core.engines:
            found[engine.name] = engine.least
            if engine.speedups:
                rest, memory = (float(part.sum()) for part in self._parts(self.networks[engine.network]))
                speedup = np.exp(np.mean(np.log(engine.speedups)))
                found[engine.name] = rest / self.core.threads / ((rest + memory) / speedup - memory / bandwidth)
        return found

    def _fitted(self, names: Set[str]) -> tuple[float, float]:
        """The efficiency and bandwidth, by these networks' published speed-ups and by other engines."""
        return float(np.exp(np.mean(np.log(list(self.efficiencies(names).values()))))), self._nearest(names)[1]

    def side_by_side(self) -> float:
        """The most that a core may be slowed down by each of the others, if all that does not scale is shared."""
        if self.like:
            return self.like.side_by_side()
        count = self.core.threads
        fixed = [(count / x - 1) / (count - 1) for x in self.core.speedups.values()]  # of one core's time, by Amdahl
        return max(1.0, count * max(fixed)) ** (1 / (count - 1)) - 1

    def spread(self) -> float:
        """Standard deviation of the logarithm of modelled by published speed-ups, of networks left out of the fit.

        Of efficiencies where several engines tell them, each left out: speed-ups are off by less.
        """
        if self.like:
            return self.like.spread()
        if self.core.engines:
            known = np.log(list(self.efficiencies().values()))
            return deviation(np.expm1((known.sum() - known) / (len(known) - 1) - known))
        return deviation(found / self.core.speedups[name] - 1 for name, found in self.left_out().items())

    def _off(self, found: Mapping[str, float]) -> float:
        return float(np.sqrt(np.mean([np.log(found[name] / self.core.speedups[name]) ** 2 for name in found])))

    def _totals(self) -> dict[str, tuple[float, float]]:
        """network -> milliseconds on one core, without those of memory, and these."""
        if self._known is None:
            self._known = self.totals(self.core.unit)
        return self._known

    def totals(self, unit: str) -> dict[str, tuple[float, float]]:
        """network -> the same of those with published speed-ups, in a precision.

        In float32 where that was not priced: half of the arithmetic and half of the bytes make the same speed-up.
        """
        known = self.networks
        rows = {name: known.get(sample_name(name, unit)) or known.get(name) for name in self.core.speedups}
        return {name: tuple(float(part.sum()) for part in self._parts(own)) for name, own in rows.items() if own}

    def _speedup(self, name: str, efficiency: float, bandwidth: float) -> float:
        rest, memory = self._totals()[name]
        return (rest + memory) / (rest / (self.core.threads * efficiency) + memory / bandwidth)

    def _parts(self, rows: Sequence[Row]) -> tuple[np.ndarray, np.ndarray]:
        """Milliseconds of each step on one core: without those of memory, and these."""
        ms = np.array([row.ms for row in rows])
        memory = np.minimum(ms, self.core.memory_ms(rows))
        return ms - memory, memory

    def _nearest(self, names: Set[str]) -> tuple[float, float]:
        """The efficiency and bandwidth that come nearest to these networks' published speed-ups."""
        best = (np.inf, 1.0, 1.0)
        for efficiency in np.arange(0.30, 1.001, 0.01).tolist():
            for bandwidth in np.arange(1.0, self.core.threads + 0.001, 0.05).tolist():
                off = self._off({name: self._speedup(name, efficiency, bandwidth) for name in names})
                best = min(best, (round(off, 9), efficiency, bandwidth))
        return best[1:]


def sample_name(network: str, unit: str) -> str:
    """ "mobilenet", "mobilenet@int8": a network in a precision."""
    return network + unit.removeprefix("big")


def base(name: str) -> str:
    """What a network is called in all precisions, and pruned."""
    return re.sub("(_float|_int8.*|-sparse)?(@.*)?$", "", name)


def left_out_pipelines(model: BoardModel, data: Path) -> list[float]:
    """The periods of the measured pipelines, ms, each by the factor that the others ask for."""
    factors = np.arange(0.9, 1.4, 0.01)
    found = [[p.period_ms for p in pipelines(replace(model, contention=contention(f)), data)] for f in factors]
    table, measured = np.array(found), np.array([ms for _, _, ms in RK_PIPELINES])
    off = np.log(table / measured) ** 2
    return [float(table[np.argmin(np.delete(off, i, axis=1).sum(axis=1)), i]) for i in range(len(measured))]


def contention_error(model: BoardModel, data: Path) -> float:
    """How far the factor may be off: as far as the pipelines left out of its fit are, which have two neighbours."""
    found = left_out_pipelines(model, data)
    off = [ms / measured - 1 for ms, (_, _, measured) in zip(found, RK_PIPELINES, strict=True)]
    return four_of_five(off)


def board(
    name: str, clusters: Mapping[str, Cluster], published: Mapping[str, BoardModel], wide: float, data: Path
) -> BoardModel:
    entry = BOARDS[name]
    pricing, errors, error, cores = {}, {}, {}, {}
    known = [cluster.efficiency for cluster in clusters.values() if not (cluster.like or cluster.core.alike)]
    inferred = np.std(np.log(known), ddof=1)
    for component, soc in entry.socs.items():
        cluster, samples = clusters[soc], clusters[soc].samples()
        pricing[component] = cluster.prices(samples)
        one, rates = cluster.prices(cluster.one_core()), (cluster.core.read, round(entry.shared_gb_s, 1))
        cores[component] = Cores(one, *rates, round(cluster.side_by_side(), 3))
        for precision in PRECISIONS:
            left_out = cluster.left_out_networks(samples, precision)
            if left_out:
                unit = f"{component}@{precision}" if precision else component
                errors[unit] = {base(name): off for name, off in left_out.items()}
                model = ARMCOST_INT8 if precision == "int8" else ARMCOST
                one_core = model, deviation(left_out.values()), cluster.core.alike.unsure if cluster.core.alike else 0.0
                error[unit] = interval_of(*one_core, cluster.spread(), inferred if cluster.like else 0.0)
                error[f"{unit}x1"] = interval_of(*one_core)
    if gpu := entry.gpu:
        prices = faster(published[gpu.source].pricing["gpu"].prices, gpu.factor)
        misses = deviation(published[gpu.source].errors["gpu"].values())
        error["gpu"] = interval_of(misses, gpu_spread(published[gpu.source]), gpu.deviation)
        same = 1.0 if gpu.halves else gpu.factor
        halved, errors["gpu@fp16"] = gpu_halves(gpu.halves or name, published[gpu.source], same, data)
        pricing = {"gpu": Regression(prices, {"fp16": round(halved, 4)}), **pricing}
        lent = gpu.deviation if gpu.halves else 0.0
        error["gpu@fp16"] = halves_error(errors["gpu@fp16"].values(), published[gpu.source], lent)
    source = published.get(gpu.source) if gpu and gpu.ratios is None else None
    several, known_factor = len(entry.components) > 1, published["rk3399pro"].contention["big"]["little"]
    return BoardModel(
        name,
        entry.components,
        (),
        pricing,
        errors,
        mean_power_w=source.mean_power_w if source else {},
        contention=contention(known_factor, tuple(entry.components)) if several else {},
        links=links(tuple(entry.components)) if several else {},
        idle_w=source.idle_w if source else None,
        error={unit: round(value, 3) for unit, value in error.items()},
        contention_error=round(wide, 3) if several else 0.0,
        cores=cores,
        points=source.points if source else {},
        about=_about(entry, clusters) | _about_points(source),
    )


def _about_points(source: BoardModel | None) -> dict[str, list[str]]:
    if source is None or not source.points:
        return {}
    lines = source.about["operating_points"]
    return {"operating_points": [f"as the {source.name} model has them, of ARM Compute Library's times", *lines]}


def _about_threads(entry: BoardParts, clusters: Mapping[str, Cluster]) -> list[str]:
    by_unit = {unit: clusters[soc] for unit, soc in entry.socs.items()}
    return [
        *(
            f"{unit}: {cluster.core.threads} threads at {cluster.efficiency:.2f} of their arithmetic, reading "
            f"{cluster.bandwidth:.2f} times as fast as one"
            for unit, cluster in by_unit.items()
        ),
        *(
            f"{unit}: the mean of "
            + ", ".join(f"{engine} {share:.2f}" for engine, share in cluster.efficiencies().items())
            for unit, cluster in by_unit.items()
            if cluster.core.engines
        ),
        *(f"{unit}: inferred, as those of {cluster.core.like}" for unit, cluster in by_unit.items() if cluster.like),
        "fitted to published times of one thread and of all, ncnn's where no engine is named",
    ]


def _about(entry: BoardParts, clusters: Mapping[str, Cluster]) -> dict[str, list[str]]:
    alike = [
        f"{unit}: inferred of {how.soc}'s steps, floats {how.floats:.2f} and integers {how.integers:.2f} times as "
        f"fast, with its own memory; in four of five cases within {100 * np.expm1(DEVIATIONS * how.unsure):.0f} %"
        + ("; bfloat16 by float32 as llvm prices both on a Neoverse N2" if how.bfloats else "")
        for unit, soc in entry.socs.items()
        if (how := clusters[soc].core.alike)
    ]
    about = {
        "components": [entry.about, "clocks and memory as ThomasKaiser/sbc-bench measured them"],
        "step_prices": [
            "pipeall's own steps: their instructions, executed under emulation, priced on a model of the core that was "
            "fitted to 42 published times of ncnn",
            *alike,
        ],
        "threads": _about_threads(entry, clusters),
        "error": [
            "in four cases of five: the core's model on networks it has not seen (nine of ten within 16 %), the prices "
            "on networks they have not seen, and so the threads' speed-up; GPU: its prices' errors, "
            "two libraries' distance on it",
        ],
        "half_iqr_share": ["assumed, nobody published the spread"],
        "cores": SOME_CORES,
    }
    if entry.gpu:
        what = "of ARM Compute Library's published times, another library's than pipeall's kernels"
        scaled = [f"inferred: {entry.gpu.factor:.3f} of the Mali-G52's prices, {entry.gpu.why}"]
        by = "ARM Compute Library's" if entry.gpu.source == "rk3399pro" else "ncnn's (Vulkan)"
        about["precision_factors"] = [
            f"gpu@fp16: the geometric mean of {by} published times in half precision by the prices",
        ]
        about["prices"] = [
            what,
            *(scaled if entry.gpu.why else []),
            "ms_per_op is that of the GPU they are taken from",
        ]
        about["links"] = ["as the a311d-armcl model has them, whose sizes are inferred"]
        about["contention"] = [
            "one factor, calibrated on three measured pipelines of the RK3399Pro; its error is that of each left out"
        ]
    return about


def clusters_of(rows: Sequence[Row]) -> dict[str, Cluster]:
    """The clusters by core."""
    found: dict[str, Cluster] = {}
    for soc, core in sorted(CORES.items(), key=lambda item: item[1].like is not None):
        found[soc] = Cluster(core, list(steps(soc, rows)), found.get(core.like or ""))
    return found


def boards(clusters: Mapping[str, Cluster], data: Path, names: Iterable[str] = tuple(BOARDS)) -> dict[str, BoardModel]:
    """The models by name."""
    published = build(data)
    wide = contention_error(published["rk3399pro"], data)
    rows = [row for cluster in clusters.values() for network in cluster.networks.values() for row in network]
    together = shared_steps.pairs(rows, published["rk3399pro"])
    found = {}
    for name in names:
        entry, found[name] = BOARDS[name], board(name, clusters, published, wide, data)
        if len(entry.socs) > 1:
            rates = {of: [clusters[soc].rate(of) for soc in entry.socs.values()] for of in PRECISIONS}
            found[name] = shared_steps.with_all_cores(found[name], rates, together)
        found[name] = with_npu(name, found[name])
    return found


def main() -> None:
    options = parser(__doc__)
    options.add_argument("prices", nargs="?", type=Path, default=PRICES, metavar="PRICES")
    options.add_argument("--data", type=Path, default=DATA)
    options = options.parse_args()
    clusters = clusters_of(price_table.load(options.prices))
    models = boards(clusters, options.data)
    with Record(options, "board", "component", "network", "left out [%] +.1f", keys=3) as record:
        for name, model in models.items():
            model.save(FOLDER / f"{name}.json")
            for unit, errors in model.errors.items():
                for network, error in errors.items():
                    record.add(name, unit, network, 100 * error)
                record.say(mean_line(f"{name} {unit}", [1 + abs(error) for error in errors.values()]))
    with Record(options, "core", "network", "modelled [x] .2f", "published [x] .2f", part="threads", keys=2) as record:
        for soc, cluster in clusters.items():
            for network, found in cluster.speedups().items():
                record.add(soc, network, found, cluster.core.speedups[network])


if __name__ == "__main__":
    main()
