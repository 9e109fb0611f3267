"""Networks of timm, of torchvision and of the YOLO family as .onnx files, with seeded weights.

BatchNorm is calibrated: it has the statistics of a few random batches, as trained networks have those of theirs. Scales
of branches that begin near zero (LayerScale) are one, so that every branch counts.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
import yolo_nets
from edge_networks import Arrays
from torch import Tensor, nn

OPSET = 17
MOST_PARAMETERS = 30e6
BATCHES, PIXELS = 2, 2**17  # to calibrate with, and at least so many pixels in a batch

TIMM = (
    # those with names on boards
    "mobilenetv4_conv_small", "mobilenetv4_conv_medium", "mobilenetv4_hybrid_medium", "efficientvit_b0",
    "efficientvit_b1", "efficientvit_m0", "efficientvit_m5", "mobilevit_xxs", "mobilevit_xs", "mobilevit_s",
    "mobilevitv2_050", "mobilevitv2_100", "fastvit_t8", "fastvit_s12", "fastvit_sa12", "edgenext_xx_small",
    "edgenext_small", "ghostnet_100", "ghostnetv2_100", "ghostnetv3_100", "levit_128s", "levit_256", "levit_conv_128s",
    "tiny_vit_5m_224", "tiny_vit_11m_224", "convnextv2_atto", "convnextv2_nano", "convnextv2_tiny", "repvit_m0_9",
    "repvit_m1", "mobileone_s0", "mobileone_s1", "efficientformer_l1", "efficientformerv2_s0", "efficientformerv2_s1",
    # convolutions
    "resnet18", "resnet50", "efficientnet_b0", "efficientnet_lite0", "tf_efficientnetv2_b0", "mobilenetv2_100",
    "mobilenetv3_large_100", "mnasnet_100", "fbnetc_100", "hardcorenas_a", "lcnet_050", "tinynet_a", "mixnet_s",
    "rexnet_100", "regnety_004", "densenet121", "dla34", "hrnet_w18_small", "res2net50_26w_4s", "resnest14d",
    "ese_vovnet19b_dw", "cspdarknet53", "skresnet18", "eca_nfnet_l0", "repghostnet_100", "selecsls42b", "convnext_atto",
    "inception_next_atto", "starnet_s1", "fasternet_t0", "mambaout_femto", "convmixer_1024_20_ks9_p14", "rdnet_tiny",
    # attention, mixers, recurrent
    "vit_tiny_patch16_224", "vit_small_patch16_224", "deit_tiny_patch16_224", "swin_tiny_patch4_window7_224",
    "swiftformer_s", "shvit_s1", "pvt_v2_b0", "poolformerv2_s12", "coat_lite_tiny", "crossvit_tiny_240", "pit_ti_224",
    "cait_xxs24_224", "xcit_nano_12_p16_224", "mixer_s32_224", "gmlp_s16_224", "resmlp_12_224", "coatnet_nano_rw_224",
    "maxvit_pico_rw_256", "davit_tiny", "focalnet_tiny_srf", "nest_tiny", "visformer_tiny", "twins_svt_small",
    "eva02_tiny_patch14_224", "hiera_tiny_224", "sequencer2d_s", "convit_tiny",
)  # fmt: skip
SEGMENTERS = ("deeplabv3_mobilenet_v3_large", "deeplabv3_resnet50", "fcn_resnet50", "lraspp_mobilenet_v3_large")
DETECTORS = (
    "ssdlite320_mobilenet_v3_large",
    "retinanet_resnet50_fpn",
    "fcos_resnet50_fpn",
    "keypointrcnn_resnet50_fpn",
)
TRANSFORMERS = (
    "vit_b_16",
    "swin_t",
    "maxvit_t",
)  # of torchvision's classifiers; bench/engines/breadth.py has the others
SOURCES = {"timm": TIMM, "torchvision": SEGMENTERS + DETECTORS + TRANSFORMERS, "yolo": tuple(yolo_nets.NETWORKS)}


class Body(nn.Module):
    """A detector up to the raw outputs of its heads: what its user decodes in Python."""

    def __init__(self, detector: nn.Module):
        super().__init__()
        self.backbone, self.head = detector.backbone, detector.rpn.head if hasattr(detector, "rpn") else detector.head

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        found = self.head(list(self.backbone(x).values()))
        tensors = found.values() if isinstance(found, dict) else found
        return tuple(y for group in tensors for y in (group if isinstance(group, list | tuple) else (group,)))


class Only(nn.Module):
    """A segmenter's main output."""

    def __init__(self, segmenter: nn.Module):
        super().__init__()
        self.net = segmenter

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)["out"]


@dataclass(frozen=True)
class Written:
    """A network in a file: its input (1, 3, size, size), float32, and how many parameters it has."""

    frame: Tensor
    parameters: int


def write(source: str, name: str, path: Path, size: int | None = None, fused: bool = False) -> Written:
    """Writes a network of SOURCES to ``path``.

    size   of the pictures; None for the network's own
    fused  branches that timm can merge are merged
    """
    torch.manual_seed(0)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.backends.mha.set_fastpath_enabled(False)  # ONNX has no operator for it
        net, own = BUILDERS[source](name)
        frame = torch.randn(1, 3, size or own, size or own)
        calibrate(net, frame.shape[1:])
        if fused:
            from timm.utils.model import reparameterize_model

            net = reparameterize_model(net)
        torch.onnx.export(net, (frame,), str(path), opset_version=OPSET, dynamo=False)
    return Written(frame, sum(parameter.numel() for parameter in net.parameters()))


def before_ranking(path: Path) -> list[str] | None:
    """The scores that a file ranks (yolov10n); None where it ranks nothing. Scores of random weights are often equal to
    the last bits, so that a rounding changes what comes first."""
    nodes = onnx.load(path).graph.node
    ranking = next((node for node in nodes if node.op_type == "TopK"), None)
    maxima = next((node for node in nodes if ranking is not None and node.output[0] == ranking.input[0]), None)
    return None if maxima is None else [maxima.input[0]]


def reference(path: Path, frame: np.ndarray, outputs: list[str] | None) -> Arrays:
    """What onnxruntime computes of a file: these tensors, by default its outputs."""
    model = onnx.load(path)
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs or ())
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = outputs or [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {session.get_inputs()[0].name: frame}), strict=True))


def calibrate(net: nn.Module, shape: Sequence[int]) -> None:
    """Gives BatchNorm the mean statistics of random batches, and leaves the network in evaluation."""
    for name, parameter in net.named_parameters():
        if name.endswith(("gamma", "layer_scale", "gamma_1", "gamma_2", "gamma_3")):
            nn.init.ones_(parameter)
    net.eval()
    norms = [module for module in net.modules() if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d))]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean of all batches
        norm.train()
    for _ in range(BATCHES if norms else 0):
        net(torch.randn(max(2, PIXELS // (shape[1] * shape[2])), *shape))
    net.eval()


def _timm(name: str) -> tuple[nn.Module, int]:
    import timm

    net = timm.create_model(name, pretrained=False, exportable=True)
    return net, net.pretrained_cfg["input_size"][-1]


def _torchvision(name: str) -> tuple[nn.Module, int]:
    from torchvision import models

    if name in TRANSFORMERS:
        return models.get_model(name, weights=None), 224
    net = models.get_model(name, weights=None, weights_backbone=None)
    return (Only(net), 224) if name in SEGMENTERS else (Body(net), 320)


def _yolo(name: str) -> tuple[nn.Module, int]:
    return yolo_nets.build(name), 320


BUILDERS: dict[str, Callable[[str], tuple[nn.Module, int]]] = {
    "timm": _timm, "torchvision": _torchvision, "yolo": _yolo,
}  # fmt: skip
