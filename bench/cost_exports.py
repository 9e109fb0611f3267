"""Sizes of torchvision's networks from modules and default exports, beside what torch counts and keeps.

    pip install torch torchvision onnxscript
    python bench/cost_exports.py [NETWORK ...]

MACs are those of torch's own counter in training mode, so that no fused operator hides any. What is kept is what
autograd's hooks see of each sample. Each network is exported in evaluation mode by both exporters, as they do unasked.
"""

import tempfile
import warnings
from pathlib import Path

import torch
import torchvision
from common import Record, parser
from torch.utils.flop_counter import FlopCounterMode

import pipeall

NETWORKS = (
    "alexnet", "vgg11", "squeezenet1_1", "googlenet", "resnet18", "resnet50", "densenet121", "mobilenet_v2",
    "mobilenet_v3_large", "mnasnet1_0", "shufflenet_v2_x1_0", "efficientnet_b0", "regnet_y_400mf", "convnext_tiny",
    "swin_t", "vit_b_16",
)  # fmt: skip
SHAPE = (3, 224, 224)
COLUMNS = ("network", "from", "MACs [%] .3f", "kept [%] .3f", "kept [MB] .2f", "notes")


def build(name: str) -> torch.nn.Module:
    """With random numbers in every parameter: exporters store equal ones once."""
    options = {"aux_logits": False, "init_weights": False} if name == "googlenet" else {}
    net = torchvision.models.get_model(name, weights=None, **options)
    for module in net.modules():
        if isinstance(module, torchvision.ops.StochasticDepth):
            module.p = 0.0
    for parameter in net.parameters():
        torch.nn.init.uniform_(parameter, -0.1, 0.1)
    return net


def measured(net: torch.nn.Module) -> tuple[int, int]:
    """MACs of a sample by torch's counter, and bytes that autograd keeps of each."""
    own = {t.untyped_storage().data_ptr() for t in (*net.parameters(), *net.buffers())}
    totals = []
    for batch in (2, 3):
        storages = {}

        def keep(tensor: torch.Tensor, storages: dict = storages) -> torch.Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in own:
                storages[storage.data_ptr()] = storage
            return tensor

        hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
        with FlopCounterMode(display=False) as counter, hooks:
            result = net.train()(torch.randn(batch, *SHAPE))
        totals.append(sum(storage.nbytes() for storage in storages.values()))
        del result
    return counter.get_total_flops() // 2 // 3, totals[1] - totals[0]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("networks", nargs="*", default=NETWORKS)
    options = options.parse_args()
    warnings.filterwarnings("ignore")
    with Record(options, *COLUMNS) as record, tempfile.TemporaryDirectory() as folder:
        for name in options.networks:
            net = build(name)
            macs, kept = measured(net)
            sizes = {"module": pipeall.cost(net, (1, *SHAPE))}
            for exporter, dynamo in (("TorchScript", False), ("torch.export", True)):
                path = Path(folder, f"{name}.onnx")
                torch.onnx.export(net.eval(), (torch.randn(1, *SHAPE),), path, dynamo=dynamo, verbose=False)
                sizes[exporter] = pipeall.cost(path)
            for source, size in sizes.items():
                beside = 100 * (size.total.macs / macs - 1), 100 * (size.saved_bytes / kept - 1)
                record.add(name, source, *beside, size.saved_bytes / 1e6, len(size.notes))
        record.say("beside torch's counter and hooks, in percent; notes say what a file lacks")


if __name__ == "__main__":
    main()
