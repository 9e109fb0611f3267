"""The boards that have models: what they are, and the published time that each model is held against.

    python -m tools.board_models.board_table [--json FILE]

ResNet-50 by the fastest engine that anybody published of that processor, beside pipeall's own kernels as modelled in
the same precision on as many cores, with the interval that holds four of five cases. ncnn's is the original network,
with 3.9 G multiply-adds where ours has 4.1.
"""

from typing import NamedTuple

from bench.common import Record, parser
from bench.pipelines.boards import on_noise
from pipeall import Board, zoo
from pipeall.pipeline.boards.models.board_model import BoardModel
from pipeall.pipeline.planning.units import Unit

RAM = {
    "a311d": "2 or 4 GB LPDDR4", "rk3399": "4 GB LPDDR3", "rk3588": "4 to 32 GB LPDDR4X or 5",
    "rpi4": "1 to 8 GB LPDDR4", "rpi5": "1 to 16 GB LPDDR4X", "uno-q": "2 or 4 GB LPDDR4X",
    "rk3566": "1 to 8 GB LPDDR4", "rk3576": "4 to 16 GB LPDDR4X or 5", "orion-o6": "8 to 64 GB LPDDR5",
}  # fmt: skip


class Published(NamedTuple):
    """unit: as a board model has it, all cores if none are said; ms: of ResNet-50 there; by: the engine."""

    unit: str
    ms: float | None
    by: str = "ncnn"


# ncnn's benchmark/README.md; ExecuTorch: Arm's model card
PUBLISHED = {
    "a311d": (Published("big", 185.5), Published("big@int8", 123.4), Published("gpu@fp16", 158.9, "ncnn, Vulkan")),
    "rk3399": (
        Published("big", 291.5), Published("big@int8", 224.1), Published("little", 297.2),
        Published("little@int8", 244.0), Published("gpu@fp16", 176.0, "ncnn, Vulkan"),
    ),
    "rk3588": (
        Published("big@fp16", 27.4), Published("big@int8", 33.0), Published("little@fp16", 78.0),
        Published("little@int8", 89.1), Published("gpu@fp16", 37.8, "ncnn, Vulkan"),
    ),
    "rpi4": (Published("big", 261.9), Published("big@int8", 195.6)),
    "rpi5": (Published("big@fp16", 45.9), Published("big@int8", 20.6, "ExecuTorch")),
    "uno-q": (Published("big", 219.9), Published("big@int8", 177.1)),
    "rk3566": (
        Published("big@fp16", 135.8), Published("big@int8", 126.1), Published("gpu@fp16", 369.7, "ncnn, Vulkan"),
    ),
    "rk3576": (),
    "orion-o6": (
        Published("big@fp16x1", 68.1), Published("big@int8x1", 40.0), Published("gpu@fp16", 14.1, "ncnn, Vulkan"),
    ),
}  # fmt: skip
COLUMNS = (
    "board", "component", "cores", "precisions", "RAM", "published", "ResNet-50, published [ms] .1f",
    "ResNet-50, modelled [ms] .1f", "in 4 of 5 cases [ms]",
)  # fmt: skip


def precisions(model: BoardModel, component: str) -> str:
    """Those that it has prices of; a component of floats computes fp32 by default."""
    return ", ".join(["fp32", *(word for word in model.precisions(component) if word in ("fp16", "int8"))])


def main() -> None:
    options = parser(__doc__)
    options = options.parse_args()
    graph = zoo.resnet50()
    quantized = on_noise(graph)
    with Record(options, *COLUMNS, keys=2) as record:
        for name, rows in PUBLISHED.items():
            model = Board.load(name).model
            for component, part in model.components.items():
                known = [row for row in rows if Unit.parse(row.unit).component == component]
                about = name, component, part.description, precisions(model, component), RAM[name]
                fastest = f"{component}@fp16" if "fp16" in model.precisions(component) else component
                for unit, ms, by in known or [Published(fastest, None, "nobody")]:
                    asked = Unit.parse(unit)
                    profile = model.profile(quantized if asked.precision == "int8" else graph, [unit])
                    found, error = sum(profile.units[asked].ms), 1 + profile.error[asked]
                    what = f"{by}, {asked.precision or 'fp32'}" + (", one core" if asked.cores else "")
                    record.add(*about, what, ms, found, f"{found / error:.0f} to {found * error:.0f}")


if __name__ == "__main__":
    main()
