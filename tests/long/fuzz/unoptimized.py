"""onnxruntime without its optimizations, a node at a time: so it uses no memory twice, and fuses nothing."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
import onnxruntime
from onnx import NodeProto, ValueInfoProto, helper


@cache
def _options() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return options


def _declared(name: str, value: np.ndarray) -> ValueInfoProto:
    """Sizes are open, as they may depend on values; those of a list of sizes are not."""
    shape = value.shape if value.ndim < 2 else [None] * value.ndim
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), shape)


class Alone:
    """One node as onnxruntime computes it."""

    def __init__(self, node: NodeProto, inputs: Mapping[str, np.ndarray], opset: int) -> None:
        self.node, self.opset = node, opset
        self.names = list(dict.fromkeys(name for name in node.input if name))
        declared = [_declared(name, inputs[name]) for name in self.names]
        outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        model = helper.make_model(
            helper.make_graph([node], "alone", declared, outputs), opset_imports=[helper.make_opsetid("", opset)]
        )
        model.ir_version = 8
        content, providers = model.SerializeToString(), ["CPUExecutionProvider"]
        self.session = onnxruntime.InferenceSession(content, _options(), providers=providers)

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        results = self.session.run(None, {name: inputs[name] for name in self.names})
        return dict(zip((name for name in self.node.output if name), results, strict=True))
