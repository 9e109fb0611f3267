"""The best times that anybody published of networks on boards: of any engine and processor, and which it was.

ncnn's benchmark/README.md: Vulkan in half precision, all big cores where the board has no Mali or a slow one, in half
precision on an A55 and A76. SqueezeNet is 1.0: ARM Compute Library on the VIM3 (Khadas), ExecuTorch with XNNPACK on the
Raspberry Pi 5 (Arm's model cards). YOLO11n is of ultralytics' guide, YOLOv8n of Qengineering, YOLOX-Nano of
visionanalysis.org; inputs of 640 pixels, YOLOX-Nano and YOLOv4-tiny of 416, NanoDet-m of 320, FastestDet of 352.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Time(NamedTuple):
    """ms of a frame, and by which engine."""

    ms: float
    by: str = "ncnn"

    @property
    def fps(self) -> float:
        return 1000 / self.ms


VULKAN, HALVES = "ncnn, Vulkan", "ncnn, fp16"
FLOATS: Mapping[str, Mapping[str, Time]] = {
    "a311d": {
        "alexnet": Time(60.7), "googlenet": Time(67.3, VULKAN), "mobilenet": Time(32.4, VULKAN),
        "resnet50": Time(159.8, VULKAN), "squeezenet": Time(59.7, "ARM Compute Library"),
    },
    "rk3399": {
        "alexnet": Time(77.1, VULKAN), "googlenet": Time(80.8, VULKAN), "mobilenet": Time(36.0, VULKAN),
        "resnet50": Time(176.2, VULKAN),
    },
    "rk3588": {
        "alexnet": Time(12.5, HALVES), "googlenet": Time(15.1, HALVES), "mobilenet": Time(5.5, HALVES),
        "resnet50": Time(27.5, HALVES),
    },
    "rk3566": {
        "alexnet": Time(49.2, HALVES), "googlenet": Time(75.5, HALVES), "mobilenet": Time(30.7, HALVES),
        "resnet50": Time(135.8, HALVES),
    },
    "rk3576": {},
    "orion-o6": {
        "alexnet": Time(7.8, VULKAN), "googlenet": Time(9.0, VULKAN), "mobilenet": Time(3.5, VULKAN),
        "resnet50": Time(14.1, VULKAN),
    },
    "rpi4": {
        "alexnet": Time(75.8), "googlenet": Time(113.7), "mobilenet": Time(60.7), "resnet50": Time(261.9),
        "yolov8n": Time(322.6, "ncnn, at 1.95 GHz"), "yolov4-tiny": Time(206.0), "nanodet_m_320": Time(68.1),
        "fastestdet_352": Time(38.4),
    },
    "rpi5": {
        "alexnet": Time(21.2, HALVES), "googlenet": Time(25.1, HALVES), "mobilenet": Time(9.0, HALVES),
        "resnet50": Time(45.9, HALVES), "squeezenet": Time(20.2, "ExecuTorch, fp32"),
        "yolo11n": Time(81.2, "OpenVINO, fp32"), "yolov8n": Time(50.0, "ncnn, fp16, at 2.9 GHz"),
        "yolov4-tiny": Time(44.5, HALVES), "yolox_nano_416": Time(32.6, HALVES), "nanodet_m_320": Time(11.0, HALVES),
        "fastestdet_352": Time(4.8, HALVES),
    },
    "uno-q": {
        "alexnet": Time(56.8), "googlenet": Time(105.4), "mobilenet": Time(47.8), "resnet50": Time(219.9),
        "yolov4-tiny": Time(191.2), "nanodet_m_320": Time(57.7), "fastestdet_352": Time(28.1),
    },
}  # fmt: skip
INTEGERS: Mapping[str, Mapping[str, Time]] = {
    "a311d": {"googlenet": Time(64.8), "mobilenet": Time(22.4), "resnet50": Time(124.2)},
    "rk3588": {"googlenet": Time(15.6), "mobilenet": Time(4.6), "resnet50": Time(33.1)},
    "rk3566": {"googlenet": Time(74.4), "mobilenet": Time(27.9), "resnet50": Time(126.1)},
    "orion-o6": {"googlenet": Time(27.9), "mobilenet": Time(8.7), "resnet50": Time(40.0)},  # one core
    "rpi4": {"googlenet": Time(100.9), "mobilenet": Time(34.2), "resnet50": Time(195.6)},
    "rpi5": {
        "googlenet": Time(24.0), "mobilenet": Time(8.7), "resnet50": Time(20.6, "ExecuTorch"),
        "squeezenet": Time(5.1, "ExecuTorch"),
    },
    "uno-q": {"googlenet": Time(89.7), "mobilenet": Time(34.0), "resnet50": Time(177.1)},
}  # fmt: skip


def published(board: str, network: str, precision: str = "") -> Time | None:
    """The best of a network, in 8 bits for "int8", else in floats; None where there is none."""
    return (INTEGERS if precision == "int8" else FLOATS).get(board, {}).get(network)
