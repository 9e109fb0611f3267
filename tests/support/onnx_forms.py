"""ONNX nodes of the canonical ops that index, sample and remember, for ``onnx_models.of_graph``."""

from collections.abc import Callable

import numpy as np

NAMES = {
    "gather": "Gather",
    "gather_elements": "GatherElements",
    "gather_nd": "GatherND",
    "scatter_elements": "ScatterElements",
    "scatter_nd": "ScatterND",
    "lstm": "LSTM",
    "gru": "GRU",
    "rnn": "RNN",
}
FUNCTIONS = "Sigmoid Tanh Relu Affine LeakyRelu ThresholdedRelu ScaledTanh HardSigmoid Elu Softsign Softplus"
ACTIVATIONS = {name.lower(): name for name in FUNCTIONS.split()}
ALPHAS = ("affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu")
BETAS = ("affine", "scaledtanh", "hardsigmoid")


def emit_form(node, constant: Callable, emit: Callable) -> bool:
    """Emits the ONNX nodes of ``node``; False where its op is none of these. Indices beyond an axis have no form."""
    a, op = dict(node.attrs), node.op
    if op in NAMES and op not in ("lstm", "gru", "rnn"):
        emit(NAMES[op], node.inputs, **a)
    elif op in ("lstm", "gru", "rnn"):
        _recurrent(node, a, constant, emit)
    elif op == "topk":
        k = constant([a.pop("k")], np.int64)
        which = a.pop("indices")
        emit("TopK", (*node.inputs, k), outputs=(not which, which), **a)
    elif op == "resize":
        _resize(node, a, constant, emit)
    elif op == "grid_sample":
        emit("GridSample", node.inputs, mode=a["mode"], padding_mode=a["padding"], align_corners=a["align_corners"])
    elif op == "roi_align":
        height, width = a.pop("size")
        mode = "half_pixel" if a.pop("half_pixel") else "output_half_pixel"
        emit(
            "RoiAlign", node.inputs, output_height=height, output_width=width, coordinate_transformation_mode=mode, **a
        )
    elif op == "nms":
        limits = (constant([a["max_output"]], np.int64), constant([a["iou"]], np.float32))
        score = constant([max(a["score"], -3e38)], np.float32)
        emit("NonMaxSuppression", (*node.inputs, *limits, score), center_point_box=a["center_box"])
    elif op == "maxpool_indices":
        a |= dict(kernel_shape=a.pop("kernel"), ceil_mode=a.pop("ceil"), storage_order=a.pop("column_major"))
        emit("MaxPool", node.inputs, outputs=(False, True), **a)
    elif op == "max_unpool":
        shape = constant(a["shape"], np.int64)
        emit("MaxUnpool", (*node.inputs, shape), kernel_shape=(1,) * (len(a["shape"]) - 2))
    elif op == "col2im":
        sizes = (constant(a.pop("image"), np.int64), constant(a.pop("block"), np.int64))
        emit("Col2Im", (*node.inputs, *sizes), **a)
    else:
        return False
    return True


def _resize(node, a: dict, constant: Callable, emit: Callable) -> None:
    scales = constant(a["scales"], np.float32)
    attrs = dict(mode=a["mode"], nearest_mode=a["rounding"], coordinate_transformation_mode=a["coordinates"])
    if a["mode"] == "cubic":
        attrs["cubic_coeff_a"] = a["cubic_a"]
    emit("Resize", (*node.inputs, "", scales), **attrs, exclude_outside=a["exclude_outside"], antialias=a["antialias"])


def _recurrent(node, a: dict, constant: Callable, emit: Callable) -> None:
    results = a.pop("result")
    names, alphas, betas = (a.pop(name) for name in ("activations", "alphas", "betas"))
    a["activations"] = [ACTIVATIONS[name] for name in names]
    for key, values, known in (("activation_alpha", alphas, ALPHAS), ("activation_beta", betas, BETAS)):
        if any(name in known for name in names):
            a[key] = [value for name, value in zip(names, values, strict=True) if name in known]
    if a["clip"] == np.inf:
        del a["clip"]
    x, *operands = node.inputs
    order = (x, *operands[:3], "", *operands[3:])
    outputs = [name == results[0] for name in ("yhc" if node.op == "lstm" else "yh")]
    first = emit(NAMES[node.op], order, len(results) == 1, outputs, hidden_size=a.pop("hidden"), **a)
    if results == "yc":
        cells = emit("Unsqueeze", (f"{first}/unread2", constant([0], np.int64)), False)
        emit("Concat", (first, cells), axis=0)
