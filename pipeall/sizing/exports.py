"""What exporters change that matters for training: BatchNorm folded into convolutions, attention taken apart.

A file for inference has no BatchNorm, so that what training keeps of it is missing: half of the activations of a
ResNet. It is put back where the file shows it. Where only its absence shows, a note says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .size_network import Layer, Network
from .training import saved_bytes

FOLDABLE = ("Conv", "ConvTranspose", "Gemm")
NORMALIZERS = (
    "BatchNormalization", "LayerNormalization", "InstanceNormalization", "GroupNormalization", "RMSNormalization",
    "LRN", "Sqrt",  # of one that the exporter took apart
)  # fmt: skip
SMALL = 0.05  # share of what is kept that is not worth a note
RIGHT_WAY = "the torch module itself is sized by pipeall.cost(module, input_shape)"


def folded_bias(node: Any) -> bool | None:
    """Whether torch's exporter folded BatchNorm into a node (NodeProto), and whether the bias is then its own.

    None where nothing was folded, True where the convolution had a bias before. The exporter of torch.export notes its
    rewriting at the node; the older one gives weights that it computed names such as onnx::Conv_67, and does not tell
    of a bias.
    """
    if node.op_type not in FOLDABLE or len(node.input) < 2:
        return None
    rules = [entry.value for entry in node.metadata_props if entry.key.endswith("rewriter.rule_name")]
    if any("FuseBatchNorm" in rule for rule in rules):
        return len(node.input) > 2 and node.input[2] not in ("", f"{node.input[1]}_bias")
    computed = [re.fullmatch(rf"onnx::{node.op_type}_\d+", name) is not None for name in node.input[1:]]
    return False if node.op_type != "Gemm" and len(computed) == 2 and all(computed) else None


def with_batch_norm(network: Network, folded: Mapping[str, bool]) -> Network:
    """The network with BatchNorm behind layers, which go by their output; the value: whether they keep their bias."""
    layers, shapes, learnt, statistics = [], dict(network.shapes), [], []
    for layer in network.layers:
        output = layer.outputs[0]
        if output not in folded:
            layers.append(layer)
            continue
        norm = f"{output}/BatchNormalization"
        own = [f"{norm}/{part}" for part in ("weight", "bias", "mean", "variance")]
        shapes |= {norm: shapes[output], **dict.fromkeys(own, shapes[output][1:2])}
        inputs = layer.inputs if folded[output] else layer.inputs[:2]
        layers.append(replace(layer, inputs=inputs, outputs=(norm,)))
        layers.append(Layer(norm, "BatchNormalization", (norm, *own), (output,)))
        learnt += own[:2]
        statistics += own[2:]
    read = {name for layer in layers for name in layer.inputs}
    parameters = (*(name for name in network.parameters if name in read), *learnt)
    return replace(
        network,
        layers=tuple(layers),
        shapes=shapes,
        parameters=parameters,
        statistics=(*network.statistics, *statistics),
    )


def put_back(network: Network, folded: Mapping[str, bool]) -> Network:
    """``with_batch_norm``, and a note that says so and by how much it matters."""
    if not folded:
        return network
    whole = with_batch_norm(network, folded)
    note = (
        f"BatchNorm was folded into {len(folded)} layers by torch's exporter; it is put back here, as training has it: "
        f"{_kept(whole)} MB of each sample are kept for the backward pass, {_kept(network)} MB without it. "
        f"--folded counts the network as it runs; {RIGHT_WAY}"
    )
    return replace(whole, notes=(*whole.notes, note))


def with_doubts(network: Network) -> Network:
    """The network with notes of what the file may hide: folded BatchNorm, attention that was one function."""
    doubts = (_hidden_norms(network), _attention_apart(network))
    return with_batch(replace(network, notes=(*network.notes, *filter(None, doubts))))


def with_batch(network: Network) -> Network:
    """The network with a note where its pictures come several at a time, which is then what counts as a sample."""
    for name in network.inputs:
        count, *rest = network.shapes[name] or (1,)
        if count > 1 and len(rest) == 3:
            one = "x".join(map(str, (1, *rest)))
            note = (
                f"input {name} has {count} pictures: sizes of a sample are those of {count}, and so are batches; "
                f"--input-shape {one} (input_shape) sizes one"
            )
            return replace(network, notes=(*network.notes, note))
    return network


def _hidden_norms(network: Network) -> str:
    """Whether BatchNorm may have been folded, and nothing in the file proves it.

    Every convolution has a bias and nothing normalizes, in a network with depthwise convolutions or residual sums:
    these came with BatchNorm.
    """
    if network.integers:
        return ""  # nobody trains a quantized network
    convolutions = [layer for layer in network.layers if layer.op == "Conv"]
    biased = [layer for layer in convolutions if len(layer.inputs) > 2 and layer.inputs[2]]
    normalized = any(layer.op in NORMALIZERS for layer in network.layers)
    if not convolutions or len(biased) < len(convolutions) or normalized:
        return ""
    if not any(_is_depthwise(network, layer) or _is_residual(network, layer) for layer in network.layers):
        return ""
    whole = with_batch_norm(network, {layer.outputs[0]: False for layer in convolutions})
    return (
        f"all {len(convolutions)} convolutions have a bias and nothing normalizes: if BatchNorm was folded into them, "
        f"training keeps {_kept(whole)} MB of each sample, not {_kept(network)} MB; {RIGHT_WAY}"
    )


def _attention_apart(network: Network) -> str:
    """Whether products around a softmax make much of what is kept, which torch's fused attention does not keep."""
    weights = {layer.outputs[0] for layer in network.layers if layer.op == "Softmax"}
    read = {layer.inputs[0] for layer in network.layers if layer.op == "MatMul"} & weights
    size, kept = network.nbytes(read), saved_bytes(network)[0]
    if size < SMALL * kept:
        return ""
    return (
        f"attention is {len(read)} products with a softmax here, of which {size / 1e6:.1f} of {kept / 1e6:.1f} MB of "
        f"each sample are kept; torch's scaled_dot_product_attention keeps none of it; {RIGHT_WAY}"
    )


def _is_depthwise(network: Network, layer: Layer) -> bool:
    return layer.op == "Conv" and layer.attrs.get("group", 1) > 1 and network.shapes[layer.inputs[1]][1] == 1


def _is_residual(network: Network, layer: Layer) -> bool:
    read = network.activations(layer)
    return layer.op == "Add" and len(read) == 2 and all(len(network.shapes[name]) == 4 for name in read)


def _kept(network: Network) -> str:
    return f"{saved_bytes(network)[0] / 1e6:.1f}"
