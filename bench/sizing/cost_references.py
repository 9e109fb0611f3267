"""Writes what the cost tests compare with: `python -m bench.sizing.cost_references [FOLDER]`, by default tests/data.

Needs torch, torchvision, fvcore, thop, ptflops and torchinfo. cost_graphs.tar.xz holds torchvision's convolutional
classifiers and those of paper 001 that torchvision lacks as ONNX graphs without weights, in training mode, as torch
exports them; cost_references.json what torchvision publishes of them, what the six tools count at 224 x 224 in
evaluation mode, and the bytes that autograd saves for the backward pass.
"""

import argparse
import io
import json
import lzma
import sys
import tarfile
import warnings
from importlib.metadata import version
from pathlib import Path

import onnx
import torch
import torchvision
from torch import nn

from bench.common import REPOSITORY

MEASURED = (
    "alexnet", "googlenet", "resnet50", "squeezenet1_0", "squeezenet1_1", "mobilenet_v2", "vgg16", "densenet121",
)  # fmt: skip
TRANSFORMERS = ("maxvit_", "swin_", "vit_")
TOOLS = ("torch", "torchvision", "fvcore", "torchinfo", "thop", "ptflops")


class MobileNetV1(nn.Sequential):
    """MobileNet of width 1.0 with BatchNorm (Howard et al. 2017, Table 1)."""

    def __init__(self) -> None:
        units = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *5 * [(512, 1)], (1024, 2), (1024, 1)]
        layers, width = [self.unit(3, 32, 3, 2)], 32
        for channels, stride in units:
            layers += [self.unit(width, width, 3, stride, width), self.unit(width, channels, 1)]
            width = channels
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 1000))

    @staticmethod
    def unit(width: int, channels: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Module:
        conv = nn.Conv2d(width, channels, kernel, stride, kernel // 2, groups=groups, bias=False)
        return nn.Sequential(conv, nn.BatchNorm2d(channels), nn.ReLU6(inplace=True))


class GoogLeNet(nn.Module):
    """GoogLeNet as in Caffe, 5 x 5 branches, no BatchNorm, with its two auxiliary classifiers (Szegedy et al. 2014).

    Without its LRN, which has neither weights nor multiply-accumulates: torch's exporter knows no ONNX LRN.
    """

    BLOCKS = {
        "3a": (192, 64, 96, 128, 16, 32, 32), "3b": (256, 128, 128, 192, 32, 96, 64),
        "4a": (480, 192, 96, 208, 16, 48, 64), "4b": (512, 160, 112, 224, 24, 64, 64),
        "4c": (512, 128, 128, 256, 24, 64, 64), "4d": (512, 112, 144, 288, 32, 64, 64),
        "4e": (528, 256, 160, 320, 32, 128, 128), "5a": (832, 256, 160, 320, 32, 128, 128),
        "5b": (832, 384, 192, 384, 48, 128, 128),
    }  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.pool = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.conv1, self.conv2_reduce, self.conv2 = conv(3, 64, 7, 2), conv(64, 64, 1), conv(64, 192, 3)
        self.blocks = nn.ModuleDict({f"b{name}": Inception(*sizes) for name, sizes in self.BLOCKS.items()})
        self.aux1, self.aux2 = Auxiliary(512), Auxiliary(528)
        self.classifier = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1024, 1000))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = self.pool(self.conv2(self.conv2_reduce(self.pool(self.conv1(x)))))
        auxiliary = []
        for name, block in self.blocks.items():
            x = block(self.pool(x) if name in ("b4a", "b5a") else x)
            if name in ("b4a", "b4d"):
                auxiliary.append((self.aux1 if name == "b4a" else self.aux2)(x))
        return self.classifier(x), *auxiliary


class Inception(nn.Module):
    def __init__(self, width: int, one: int, three_in: int, three: int, five_in: int, five: int, pool: int) -> None:
        super().__init__()
        self.one = conv(width, one, 1)
        self.three = nn.Sequential(conv(width, three_in, 1), conv(three_in, three, 3))
        self.five = nn.Sequential(conv(width, five_in, 1), conv(five_in, five, 5))
        self.pooled = nn.Sequential(nn.MaxPool2d(3, 1, 1), conv(width, pool, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.one(x), self.three(x), self.five(x), self.pooled(x)], 1)


class Auxiliary(nn.Sequential):
    def __init__(self, width: int) -> None:
        dense = nn.Linear(2048, 1024), nn.ReLU(), nn.Dropout(0.7), nn.Linear(1024, 1000)
        super().__init__(nn.AvgPool2d(5, 3), conv(width, 128, 1), nn.Flatten(), *dense)


def conv(width: int, channels: int, kernel: int, stride: int = 1) -> nn.Module:
    return nn.Sequential(nn.Conv2d(width, channels, kernel, stride, kernel // 2), nn.ReLU(inplace=True))


def resnet50_v1(bias: bool) -> nn.Module:
    """The ResNet-50 of the paper and of Keras: stride 2 in the first 1 x 1 convolution of a block."""
    net = torchvision.models.resnet50(weights=None)
    for block in (net.layer2, net.layer3, net.layer4):
        block[0].conv1.stride, block[0].conv2.stride = (2, 2), (1, 1)
    for module in list(net.modules()):
        if bias and isinstance(module, nn.Conv2d):
            module.bias = nn.Parameter(torch.empty(module.out_channels))
    return net


OTHERS = {
    "mobilenet_v1": MobileNetV1,
    "googlenet_caffe": GoogLeNet,
    "resnet50_v1": lambda: resnet50_v1(False),
    "resnet50_v1_bias": lambda: resnet50_v1(True),
}


def build(name: str) -> nn.Module:
    """In training mode, weights zero: no number of them is looked at."""
    options = {}
    if name in ("googlenet", "inception_v3"):
        options = {"aux_logits": name == "inception_v3", "init_weights": False}
    # RegNet computes its widths with tensors, which must have values
    with torch.device("cpu" if name.startswith("regnet") else "meta"):
        net = OTHERS[name]() if name in OTHERS else torchvision.models.get_model(name, weights=None, **options)
    net.to_empty(device="cpu")
    with torch.no_grad():
        for tensor in (*net.parameters(), *net.buffers()):
            tensor.zero_()
    for module in net.modules():
        if isinstance(module, torchvision.ops.StochasticDepth):
            module.p = 0.0  # adds random numbers and no layer
    return net.train()


def published(name: str) -> list[dict]:
    """Of all weights of a network, smallest input first: input size, parameters, 10^9 operations and MB of the file."""
    rows = [
        {
            "weights": weights.name,
            "size": weights.transforms.keywords["crop_size"],
            "parameters": weights.meta["num_params"],
            "gops": weights.meta["_ops"],
            "file_mb": weights.meta["_file_size"],
        }
        for weights in torchvision.models.get_model_weights(name)
    ]
    return sorted(rows, key=lambda row: row["size"])


def graph(name: str, size: int) -> bytes:
    """The ONNX graph with initializers that have a shape and no data."""
    batch = 2 if name == "inception_v3" else 1  # its auxiliary head normalizes a single pixel
    file = io.BytesIO()
    options = dict(training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, export_params=False)
    net, x = build(name), torch.zeros(batch, 3, size, size)
    with torch.no_grad():
        torch.onnx.export(net, (x,), file, dynamo=False, opset_version=17, input_names=["input"], **options)
    model = onnx.load_from_string(file.getvalue())
    image, *weights = model.graph.input
    for value in weights:
        dims = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        tensor = model.graph.initializer.add(name=value.name, data_type=value.type.tensor_type.elem_type)
        tensor.dims.extend(dims)
    del model.graph.input[1:]
    del model.graph.value_info[:]
    image.type.tensor_type.shape.dim[0].dim_param = "batch"
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    for node in model.graph.node:
        node.ClearField("doc_string")
    return model.SerializeToString()


def counted(name: str) -> dict[str, int]:
    """What each tool makes of a network."""
    import fvcore.nn
    import ptflops
    import thop
    import torchinfo
    from torch.utils.flop_counter import FlopCounterMode

    x = torch.zeros(1, 3, 224, 224)
    with torch.no_grad():
        with FlopCounterMode(display=False) as mode:
            build(name).eval()(x)
        found = {"torch": mode.get_total_flops()}
        analysis = fvcore.nn.FlopCountAnalysis(build(name).eval(), x).unsupported_ops_warnings(False)
        found["fvcore"] = analysis.total()
        found["torchinfo"] = torchinfo.summary(build(name).eval(), input_data=x, verbose=0).total_mult_adds
        found["thop"] = int(thop.profile(build(name).eval(), (x,), verbose=False)[0])
        options = dict(as_strings=False, print_per_layer_stat=False, verbose=False)
        for key, backend in (("ptflops", "pytorch"), ("ptflops-aten", "aten")):
            net = build(name).eval()
            found[key] = int(ptflops.get_model_complexity_info(net, (3, 224, 224), backend=backend, **options)[0])
    return found


def saved(name: str) -> dict[str, int]:
    """Bytes of the storages that autograd keeps for the backward pass: for each sample, and whatever the batch is."""
    totals = {}
    for batch in (2, 4):
        net, storages = build(name), {}
        own = {tensor.untyped_storage().data_ptr() for tensor in (*net.parameters(), *net.buffers())}

        def keep(tensor: torch.Tensor, own: set = own, storages: dict = storages) -> torch.Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in own:
                storages[storage.data_ptr()] = storage
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            result = net(torch.zeros(batch, 3, 224, 224))
        totals[batch] = sum(storage.nbytes() for storage in storages.values())
        del result
    per_sample = (totals[4] - totals[2]) // 2
    return {"per_sample": per_sample, "fixed": totals[2] - 2 * per_sample}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=REPOSITORY / "tests" / "data")
    folder = parser.parse_args().folder
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    names = [n for n in torchvision.models.list_models(module=torchvision.models) if not n.startswith(TRANSFORMERS)]
    meta = {name: published(name) for name in names}
    packed, left_out = io.BytesIO(), {}
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in (*names, *OTHERS):
            try:
                content = graph(name, meta[name][0]["size"] if name in meta else 224)
            except (RuntimeError, torch.onnx.errors.OnnxExporterError) as error:
                left_out[name] = str(error).strip().splitlines()[0]
                continue
            entry = tarfile.TarInfo(f"{name}.onnx")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
            print(name, len(content), file=sys.stderr, flush=True)
    (folder / "cost_graphs.tar.xz").write_bytes(lzma.compress(packed.getvalue(), preset=9))
    content = {
        "versions": {tool: version(tool) for tool in TOOLS},
        "not_exported": left_out,
        "published": meta,
        "counted": {name: counted(name) for name in MEASURED},
        "saved": {name: saved(name) for name in MEASURED},
    }
    (folder / "cost_references.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
