"""What is published of the NPUs of boards: times of whole networks, of one core.

A search has such a core only where it is asked for. Of a stage nothing is published: the time of the whole is divided
as the price list divides int8 on the big cores, hand-overs are as the GPU's, and other units slow it down as they do
each other.
"""

from dataclasses import dataclass, replace

from pipeall.pipeline.boards.models.board_model import BoardModel
from pipeall.pipeline.boards.models.modelled import Modelled
from pipeall.pipeline.boards.models.published import Published, WholeNetwork
from pipeall.pipeline.planning.units import Unit

PICTURE, YOLO = (224, 224), (640, 640)
# name, 1e9 multiply-adds, size, frames per second of one core of the RK3588, the RK3576
ROCKCHIP = (
    ("MobileNetV2", 0.3008, PICTURE, 451, 467),
    ("ResNet-50", 4.0892, PICTURE, 110, 99),
    ("YOLOv5n", 2.2341, YOLO, 83, 113),
    ("YOLOv8n", 4.3720, YOLO, 74, 90),
    ("YOLOv10n", 3.3442, YOLO, 61, 80),
    ("YOLO11n", 3.2408, YOLO, 60, 78),
    ("YOLOv8n-pose", 4.9195, YOLO, 56, 67),
    ("YOLOv8n-seg", 6.0014, YOLO, 61, 71),
)
TEFLON = (
    WholeNetwork("MobileNetV1", 0.5687, PICTURE, 15.0),
    WholeNetwork("MobileNetV2", 0.3008, PICTURE, 15.5),
)
RKNN_ABOUT = (
    "FPS of one core in int8, by the table of airockchip/rknn_model_zoo, whose networks have less behind the boxes"
)
ERROR = 0.5  # assumed: how much of the whole a part takes is not known


@dataclass(frozen=True)
class Npu:
    """So many equal cores, each a component."""

    cores: int
    part: Modelled
    networks: tuple[WholeNetwork, ...]
    source: str


def _rockchip(column: int) -> tuple[WholeNetwork, ...]:
    return tuple(WholeNetwork(*row[:3], round(1000 / row[3 + column], 3)) for row in ROCKCHIP)


NPUS = {
    "rk3588": Npu(3, Modelled("Rockchip NPU", 1), _rockchip(0), RKNN_ABOUT),
    "rk3576": Npu(2, Modelled("Rockchip NPU", 1), _rockchip(1), RKNN_ABOUT),
    "a311d": Npu(1, Modelled("VIPNano-QI", 1), TEFLON, "uint8 by Mesa Teflon, docs.mesa3d.org/teflon.html"),
}


def with_npu(name: str, model: BoardModel) -> BoardModel:
    """The model of a board, with its NPU where it has one that something is published of."""
    if name not in NPUS:
        return model
    npu = NPUS[name]
    names = ["npu", *(f"npu{number}" for number in range(1, npu.cores))]
    published = {unit: Published(npu.part, npu.networks, Unit.parse("big@int8")) for unit in names}
    slower = model.contention["gpu"]["big"]
    contention = {unit: {**row, **dict.fromkeys(names, slower)} for unit, row in model.contention.items()}
    contention |= {unit: {other: slower for other in (*model.components, *names) if other != unit} for unit in names}
    links = dict(model.links)
    for unit in names:
        for (one, other), link in model.links.items():
            if "gpu" in (one, other):
                links[tuple(unit if end == "gpu" else end for end in (one, other))] = link
    told = [
        npu.source,
        "whole networks alone: divided as big@int8, which says little of a part; hand-overs as the GPU's",
    ]
    return replace(
        model,
        published=published,
        contention=contention,
        links=links,
        error={**model.error, **dict.fromkeys(names, ERROR)},
        about={**model.about, "published": told},
    )
