"""Sizes of networks from modules and default exports, beside what torch and fvcore count and what torch keeps.

    pip install torch torchvision onnxscript fvcore onnxruntime
    python -m bench.sizing.cost_exports [NETWORK ...]

Torchvision's classifiers, YOLOv8n and the image encoder of Segment Anything (ViT-B's width, four blocks, 512 x 512) of
their published blocks, and ResNet-18 in 8 bits as onnxruntime's tool writes it (QDQ).

MACs are those of torch's own counter with attention taken apart (the backend MATH): what CPUs run instead it does not
count. fvcore's are those of its convolutions and products; it leaves scaled_dot_product_attention out: no figure
then. What is kept is what autograd's hooks see of each sample. A batch is the largest on 16 GB with momentum,
beside that of the module. Each network is exported in evaluation mode by both exporters, as they do unasked.
"""

import tempfile
import warnings
from pathlib import Path

import numpy as np
import onnx
import torch
import torchvision
from fvcore.nn import FlopCountAnalysis
from onnxruntime.quantization import CalibrationDataReader, quantize_static
from sam_nets import Encoder
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from yolo_nets import build as build_yolo

import pipeall
from bench.common import Record, parser

NETWORKS = (
    "alexnet", "vgg11", "squeezenet1_1", "googlenet", "resnet18", "resnet50", "densenet121", "mobilenet_v2",
    "mobilenet_v3_large", "mnasnet1_0", "shufflenet_v2_x1_0", "efficientnet_b0", "regnet_y_400mf", "convnext_tiny",
    "swin_t", "vit_b_16", "yolov8n", "sam",
)  # fmt: skip
QUANTIZED = ("resnet18",)
SIDES = {"yolov8n": 320, "sam": 512}  # of the picture; else 224
MEMORY = 16e9
PRODUCTS = ("conv", "linear", "matmul", "addmm", "bmm", "einsum")  # of fvcore
COLUMNS = (
    "network", "from", "MACs [M] .1f", "beside torch [%] .3f", "beside fvcore [%] .3f", "kept [MB] .2f",
    "beside torch's [%] .3f", "batch", "beside the module's [%] .1f", "notes",
)  # fmt: skip


def build(name: str) -> torch.nn.Module:
    """With random numbers in every parameter: exporters store equal ones once."""
    if name == "yolov8n":
        return build_yolo("yolov8n")
    if name == "sam":
        return Encoder(SIDES[name], 768, 4, 12, whole=(1, 3))
    options = {"aux_logits": False, "init_weights": False} if name == "googlenet" else {}
    net = torchvision.models.get_model(name, weights=None, **options)
    for module in net.modules():
        if isinstance(module, torchvision.ops.StochasticDepth):
            module.p = 0.0
    for parameter in net.parameters():
        torch.nn.init.uniform_(parameter, -0.1, 0.1)
    return net


def measured(net: torch.nn.Module, shape: tuple[int, ...]) -> tuple[int, int]:
    """MACs of a sample by torch's counter, and bytes that autograd keeps of each."""
    own = {t.untyped_storage().data_ptr() for t in (*net.parameters(), *net.buffers())}
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        net.train()(torch.randn(2, *shape))
    kept = []
    for batch in (2, 3):
        storages = {}

        def keep(tensor: torch.Tensor, storages: dict = storages) -> torch.Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in own:
                storages[storage.data_ptr()] = storage
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            result = net.train()(torch.randn(batch, *shape))
        kept.append(sum(storage.nbytes() for storage in storages.values()))
        del result
    return counter.get_total_flops() // 2 // 2, kept[1] - kept[0]


def by_fvcore(net: torch.nn.Module, shape: tuple[int, ...]) -> int | None:
    """MACs of convolutions and products; None where attention is one function, which fvcore leaves out."""
    analysis = FlopCountAnalysis(net.eval(), torch.randn(1, *shape))
    analysis.unsupported_ops_warnings(False).uncalled_modules_warnings(False)
    counted = analysis.by_operator()
    if any("scaled_dot_product" in name for name in analysis.unsupported_ops()):
        return None
    return int(sum(count for name, count in counted.items() if name in PRODUCTS))


class Noise(CalibrationDataReader):
    """Two pictures for onnxruntime's tool."""

    def __init__(self, path: Path, shape: tuple[int, ...]):
        (entry,) = onnx.load(path).graph.input
        self.frames = iter([{entry.name: np.random.rand(1, *shape).astype(np.float32)} for _ in range(2)])

    def get_next(self) -> dict | None:
        return next(self.frames, None)


def files(net: torch.nn.Module, name: str, shape: tuple[int, ...], folder: str) -> dict[str, Path]:
    """What exporters write, by their names."""
    found = {}
    for exporter, dynamo in (("TorchScript", False), ("torch.export", True)):
        found[exporter] = Path(folder, f"{name}-{dynamo}.onnx")
        torch.onnx.export(net.eval(), (torch.randn(1, *shape),), found[exporter], dynamo=dynamo, verbose=False)
    if name in QUANTIZED:
        found["QDQ"] = Path(folder, f"{name}-qdq.onnx")
        quantize_static(found["TorchScript"], found["QDQ"], Noise(found["TorchScript"], shape))
    return found


def main() -> None:
    options = parser(__doc__)
    options.add_argument("networks", nargs="*", default=NETWORKS)
    options = options.parse_args()
    warnings.filterwarnings("ignore")
    with Record(options, *COLUMNS) as record, tempfile.TemporaryDirectory() as folder:
        for name in options.networks:
            net, shape = build(name), (3, *2 * (SIDES.get(name, 224),))
            (macs, kept), theirs = measured(net, shape), by_fvcore(net, shape)
            sizes = {"module": pipeall.cost(net, (1, *shape))}
            sizes |= {source: pipeall.cost(path) for source, path in files(net, name, shape, folder).items()}
            batch = sizes["module"].largest_batch(MEMORY)
            for source, size in sizes.items():
                count, fits = size.total.macs, size.largest_batch(MEMORY)
                training = size.saved_bytes / 1e6, 100 * (size.saved_bytes / kept - 1), fits, 100 * (fits / batch - 1)
                record.add(
                    name, source, count / 1e6, 100 * (count / macs - 1), theirs and 100 * (count / theirs - 1),
                    *(training if source != "QDQ" else 4 * [None]), len(size.notes),
                )  # fmt: skip
        record.say("notes say what a file lacks; a file in 8 bits is not trained")


if __name__ == "__main__":
    main()
