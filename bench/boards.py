"""The five networks on the models of boards with pipeall's own kernels: one component, all of them, and pipelines.

    python bench/boards.py [NETWORK ...] [--boards rk3588,rpi5]

Simulated, with the interval that holds four of five cases, beside the best time that anybody published of the board,
with any engine, processor and precision of floats.
"""

from common import NETWORKS, Record, names, network, parser

from pipeall import Board, Plan
from pipeall.pipeline.boards.modelled import Modelled
from pipeall.pipeline.planning.lineup import lineup
from pipeall.pipeline.planning.profile import Profile
from pipeall.pipeline.planning.simulate import simulate
from pipeall.pipeline.planning.uncertain import interval

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
COLUMNS = (
    "board", "network", "Peak [FPS] .1f", "Parallel [FPS] .1f", "Pipe-All [FPS] .1f", "in 4 of 5 cases [FPS]",
    "latency [ms] .1f", "plan", "floating [FPS] .1f", "best published [FPS] .1f",
)  # fmt: skip
SUMMED_UP = "resnet50"
SUMMARY = (
    "board", "Peak [FPS] .1f", "Parallel [FPS] .1f", "Pipe-All [FPS] .1f", "in 4 of 5 cases [FPS]",
    "floating [FPS] .1f", "best published [FPS] .1f",
)  # fmt: skip


def fps(profile: Profile, plan: Plan | None) -> float | None:
    return simulate(profile, plan, FRAMES, jitter=False).fps if plan else None


def short(part: Modelled) -> str:
    return part.core_type if part.core_type.startswith("Mali") else f"{part.count} {part.core_type}"


def main() -> None:
    options = parser(__doc__, networks=NETWORKS)
    options.add_argument("--boards", type=names, default=list(PUBLISHED_MS))
    options = options.parse_args()
    with Record(options, *COLUMNS, keys=2) as record, Record(options, *SUMMARY, part="summary") as summary:
        for name in options.boards:
            model = Board.load(name).model
            for net in options.networks:
                graph = network(net)
                profile = model.profile(graph)
                found = lineup(graph, profile, list(profile.units))
                floating = lineup(graph, profile, list(profile.units), floating=True).pipelines[0]
                best, published = found.pipelines[0], PUBLISHED_MS.get(name, {}).get(net)
                likely = interval(profile, best.plan)
                rates = [fps(profile, plan) for plan in (found.alone[0], found.parallel, best.plan)]
                rates += [f"{likely.fps[0]:.0f} to {likely.fps[1]:.0f}" if likely else None]
                more = fps(profile, floating.plan), 1000 / published if published else None
                record.add(name, net, *rates, best.prediction.latency_ms, str(best.plan), *more)
                if net == SUMMED_UP:
                    summary.add(f"{name}: {', '.join(map(short, model.parts.values()))}", *rates, *more)


if __name__ == "__main__":
    main()
