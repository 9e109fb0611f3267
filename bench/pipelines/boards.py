"""The five networks on the models of boards with pipeall's own kernels: one component, all of them, and pipelines.

    python -m bench.pipelines.boards [NETWORK ...] [--boards rk3588,rpi5]

Then in half precision, of those components that have prices of it, and on integers. GPUs take no part in 8 bits: they
compute floats. Networks of integers are quantized on noise, which makes no difference to times.

Simulated, with the interval that holds four of five cases, beside the best time that anybody published of the board,
with any engine, processor and precision of floats.
"""

from collections.abc import Mapping, Sequence

from bench.common import NETWORKS, Record, frames, names, network, parser
from pipeall import Board, Graph, Plan, quantize
from pipeall.pipeline.boards.models.board_model import BoardModel
from pipeall.pipeline.boards.models.modelled import Modelled
from pipeall.pipeline.boards.models.price_list import PriceList
from pipeall.pipeline.measuring.comparison import baselines
from pipeall.pipeline.planning.plan_table import PredictedPlan
from pipeall.pipeline.planning.predict import predict
from pipeall.pipeline.planning.profile import Profile
from pipeall.pipeline.planning.simulate import simulate
from pipeall.pipeline.planning.uncertainty import interval

FRAMES = 500
# ncnn's benchmark/README.md: Vulkan in half precision, all big cores where the board has no Mali, in half precision on
# an A76. SqueezeNet 1.0: ARM Compute Library on the VIM3 (Khadas), ExecuTorch with XNNPACK on the Raspberry Pi 5 (Arm)
PUBLISHED_MS = {
    "a311d": {"alexnet": 60.7, "googlenet": 67.3, "mobilenet": 32.4, "resnet50": 159.8, "squeezenet": 59.7},
    "rk3399": {"alexnet": 77.1, "googlenet": 80.8, "mobilenet": 36.0, "resnet50": 176.2},
    "rk3588": {"alexnet": 12.5, "googlenet": 15.1, "mobilenet": 5.5, "resnet50": 27.5},
    "rpi4": {"alexnet": 76.4, "googlenet": 114.4, "mobilenet": 61.2, "resnet50": 262.8},
    "rpi5": {"alexnet": 21.4, "googlenet": 25.4, "mobilenet": 9.0, "resnet50": 46.2, "squeezenet": 20.2},
}
# The best in 8 bits: ncnn's benchmark/README.md, all big cores; ExecuTorch with XNNPACK on the Raspberry Pi 5 (Arm) for
# ResNet-50 and SqueezeNet 1.0
PUBLISHED_INT8_MS = {
    "a311d": {"googlenet": 64.8, "mobilenet": 22.4, "resnet50": 124.2},
    "rk3588": {"googlenet": 15.6, "mobilenet": 4.6, "resnet50": 33.1},
    "rpi5": {"googlenet": 24.1, "mobilenet": 8.7, "resnet50": 20.6, "squeezenet": 5.09},
}
COLUMNS = (
    "board", "network", "Peak [FPS] .1f", "Parallel [FPS] .1f", "Pipe-All [FPS] .1f", "in 4 of 5 cases [FPS]",
    "latency [ms] .1f", "plan", "floating [FPS] .1f", "best published [FPS] .1f",
)  # fmt: skip
PRECISE = (
    "board", "network", "precision", "Peak [FPS] .1f", "Parallel [FPS] .1f", "Pipe-All [FPS] .1f",
    "in 4 of 5 cases [FPS]", "latency [ms] .1f", "plan", "by Pipe-All in float32 [x] .2f", "best published [FPS] .1f",
)  # fmt: skip
SUMMED_UP = "resnet50"
SUMMARY = (
    "board", "precision", "Peak [FPS] .1f", "Parallel [FPS] .1f", "Pipe-All [FPS] .1f", "best published [FPS] .1f",
    "Peak [ms] .1f", "Parallel, slowest component [ms] .1f", "Pipe-All [ms] .1f", "Pipe-All",
)  # fmt: skip


def fps(profile: Profile, plan: Plan | None) -> float | None:
    return simulate(profile, plan, FRAMES, jitter=False).fps if plan else None


def published(times: Mapping[str, Mapping[str, float]], name: str, net: str) -> float | None:
    """The best published FPS."""
    ms = times.get(name, {}).get(net)
    return 1000 / ms if ms else None


def short(part: Modelled) -> str:
    return part.core_type if part.core_type.startswith("Mali") else f"{part.count} {part.core_type}"


def precise(model: BoardModel, graph: Graph, quantized: Graph) -> dict[str, tuple[Graph, list[str]]]:
    """precision -> the network and the units, where a component has prices of halves, or all CPUs of integers."""
    cpus = [unit for unit, pricing in model.pricing.items() if isinstance(pricing, PriceList)]
    halves = {unit: f"{unit}@fp16" for unit in model.components if "fp16" in model.precisions(unit)}
    found = {"fp16": (graph, [halves.get(unit, unit) for unit in model.components])} if halves else {}
    whole = all("int8" in model.precisions(unit) for unit in cpus)
    return found | ({"int8": (quantized, cpus)} if whole else {})


def on_noise(graph: Graph) -> Graph:
    return quantize(graph, frames(graph, 2), method="minmax").graph


def rates_of(graph: Graph, profile: Profile, units: Sequence[str]) -> tuple[PredictedPlan, list[float | str | None]]:
    """Pipe-All's plan; FPS of Peak, Parallel and Pipe-All, and what holds the last in four cases of five."""
    found = baselines(graph, profile, units)
    best = found.pipelines[0]
    likely = interval(profile, best.plan)
    rates = [fps(profile, plan) for plan in (found.single[0], found.parallel, best.plan)]
    return best, [*rates, f"{likely.fps[0]:.0f} to {likely.fps[1]:.0f}" if likely else None]


def slowest(profile: Profile) -> float:
    """A frame of the slowest component, while all others compute frames of their own."""
    units = list(profile.units)
    plan = Plan.parallel(units) if len(units) > 1 else Plan.single(units[0])
    return predict(profile, plan).latency_ms


def main() -> None:
    options = parser(__doc__, networks=NETWORKS)
    options.add_argument("--boards", type=names, default=list(PUBLISHED_MS))
    options = options.parse_args()
    graphs = {net: network(net) for net in options.networks}
    quantized = {net: on_noise(graph) for net, graph in graphs.items()}
    with (
        Record(options, *COLUMNS, keys=2) as record,
        Record(options, *SUMMARY, part="summary") as summary,
        Record(options, *PRECISE, part="precisions", keys=3) as precisions,
    ):
        for name in options.boards:
            model = Board.load(name).model
            for net, graph in graphs.items():
                profile = model.profile(graph)
                floating = baselines(graph, profile, list(profile.units), floating=True).pipelines[0]
                best, rates = rates_of(graph, profile, list(profile.units))
                more = fps(profile, floating.plan), published(PUBLISHED_MS, name, net)
                record.add(name, net, *rates, best.prediction.latency_ms, str(best.plan), *more)
                ways = [("float32", best, rates[:3], slowest(profile))]
                for precision, (form, units) in precise(model, graph, quantized[net]).items():
                    own = model.profile(form, units)
                    better, figures = rates_of(form, own, list(own.units))
                    gain = better.prediction.fps / best.prediction.fps
                    known = published(PUBLISHED_INT8_MS if precision == "int8" else PUBLISHED_MS, name, net)
                    plan = str(better.plan)
                    precisions.add(name, net, precision, *figures, better.prediction.latency_ms, plan, gain, known)
                    ways.append((precision, better, figures[:3], slowest(own)))
                if net == SUMMED_UP:
                    precision, best, rates, late = max(ways, key=lambda way: way[1].prediction.fps)
                    known = [published(times, name, net) or 0 for times in (PUBLISHED_MS, PUBLISHED_INT8_MS)]
                    what = f"{name}: {', '.join(map(short, model.components.values()))}"
                    late = None if rates[1] is None else late
                    own = (1000 / rates[0], late, best.prediction.latency_ms, str(best.plan))
                    summary.add(what, precision, *rates, max(known), *own)


if __name__ == "__main__":
    main()
