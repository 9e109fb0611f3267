"""torchvision's classifiers as .onnx files with random weights, and how far pipeall is from onnxruntime on them."""

from __future__ import annotations

import contextlib
import io
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from pipeall import Board, Engine, Graph, Pipeline, load

EXPORTERS = ("torchscript", "dynamo")


@dataclass(frozen=True)
class Export:
    """A network, the size of its pictures, the exporter of torch that writes it, and the opset."""

    network: str
    size: int = 224
    exporter: str = "torchscript"
    opset: int = 17


def write(export: Export, path: Path) -> np.ndarray:
    """Writes the network to ``path`` and returns a frame for it, (1, 3, size, size).

    BatchNorm gets random constants, so that all four count, and layer scales become 1. (With the statistics of random
    pictures a deep random network would be chaotic: normalized in every layer, roundings grow a hundredfold.)
    """
    import torch
    import torchvision

    torch.manual_seed(0)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        net = torchvision.models.get_model(export.network, weights=None)
        for name, parameter in net.named_parameters():
            if name.endswith("layer_scale"):
                torch.nn.init.ones_(parameter)
        for norm in (module for module in net.modules() if isinstance(module, torch.nn.BatchNorm2d)):
            for tensor, low, high in (
                (norm.weight, 0.5, 1.5), (norm.bias, -0.2, 0.2), (norm.running_mean, -0.2, 0.2),
                (norm.running_var, 0.5, 2),
            ):  # fmt: skip
                torch.nn.init.uniform_(tensor, low, high)
        net.eval()
        frame = torch.randn(1, 3, export.size, export.size)
        dynamo = export.exporter == "dynamo"
        extra = {"external_data": False, "verbose": False} if dynamo else {}
        torch.onnx.export(net, (frame,), str(path), opset_version=export.opset, dynamo=dynamo, **extra)
    return frame.numpy()


def expected(path: Path, frame: np.ndarray) -> np.ndarray:
    """The first output of the file's network, from onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: frame})[0]


def thirds(graph: Graph, order: str = "big-little-gpu") -> str:
    """A plan that gives each of three components about as many groups."""
    groups = len(graph.groups)
    return f"{order}:{max(1, groups // 3)},{max(2, 2 * groups // 3)}"


def errors(graph: Graph, frame: np.ndarray, reference: np.ndarray, board: Board) -> tuple[float, float]:
    """Largest errors of an engine and of a three-stage pipeline, relative to the largest output."""
    found = []
    with Engine(graph, "big", board=board) as engine:
        found.append(engine(frame))
    with Pipeline(graph, thirds(graph), board=board) as pipe:
        found += pipe.map([frame])
    scale = np.abs(reference).max()
    results = (next(iter(y.values())) if isinstance(y, dict) else y for y in found)
    return tuple(float(np.abs(y - reference).max() / scale) for y in results)


def loaded(path: Path) -> tuple[Graph, str]:
    """The graph, and the ONNX operators of the file."""
    return load(path), " ".join(sorted({node.op_type for node in onnx.load(path, load_external_data=False).graph.node}))
