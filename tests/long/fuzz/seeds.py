"""What fuzzing starts from: valid inputs of every kind, made here so that they follow the code."""

from __future__ import annotations

import io
import json
import sys
from math import prod
from pathlib import Path

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))

from pipeall.graph.cases.case import Case  # noqa: E402


def of(target: str) -> list[bytes]:
    """The seeds of one target of ``run.py``."""
    return {"onnx": _models, "json": _json, "samples": _samples, "windows": _windows, "steps": _steps}[target]()


def _models() -> list[bytes]:
    """Every op of the table in small random networks, and nodes that exporters compute shapes with."""
    import onnx_models
    from graphs import random_graph

    models = [onnx_models.of_graph(random_graph(seed, steps=4)) for seed in range(30)]
    texts = (
        "s = Shape(x) g = Gather(s, zero) u = Unsqueeze(g, zeros) t = Concat<axis=0>(u, rest) y = Reshape(x, t)",
        "c = Conv<pads=[1,1,1,1], strides=[2,1]>(x, w) p = MaxPool<kernel_shape=[2,2], ceil_mode=1>(c) y = Flatten(p)",
        "a, b = Split<axis=1, num_outputs=2>(x) y = Concat<axis=1>(b, a)",
        'c = Conv<auto_pad="SAME_UPPER">(x, w) r = Relu(c) m = ReduceMean<keepdims=1>(r, axes) y = Squeeze(m, axes)',
        "k = ConstantOfShape<value: tensor = float[1] {2}>(one) m = Mul(x, k) z = Range(zero, three, unit) "
        "f = Cast<to=1>(z) y = Add(m, f)",
        "m = ReduceMax<keepdims=0>(x, axes) t = Transpose(m) a = MatMul(m, t) s = Softmax(a) y = MatMul(s, m)",
        "f = Reshape(x, rows) v, i = TopK<axis=1>(f, two) g = GatherElements<axis=1>(f, i) y = Sub(v, g)",
        'r = Resize<mode="linear">(x, , scales) d = DepthToSpace<blocksize=1>(r) c = CumSum(d, three2) y = Erf(c)',
        'f = Reshape(x, rows) e = Einsum<equation="ij,kj->ik">(f, f) p = Greater(e, half) y = Where(p, e, half)',
        "f = Reshape(x, rows) h = Cast<to=10>(f) b = Cast<to=1>(h) i = ArgMax<axis=1,keepdims=1>(b) "
        'k = Cast<to=1>(i) y = ScatterElements<axis=1,reduction="add">(b, i, k)',
        "t = Squeeze(x, zeros) q = LayerNormalization(t, k9) l = LogSoftmax<axis=1>(q) n = Neg(l) y = Pow(n, half)",
        "q = QuantizeLinear(x, sq, zq) d = DequantizeLinear(q, sq, zq) v = DequantizeLinear(wi, sq) "
        "c = Conv<pads=[1,1,1,1]>(d, v) r = Relu(c) e = QuantizeLinear(r, sq, zq) y = DequantizeLinear(e, sq, zq)",
        "q = QuantizeLinear(x, sq, zq) d = DequantizeLinear(q, sq, zq) g = Sigmoid(d) h = QuantizeLinear(g, sq, zq) "
        "i = DequantizeLinear(h, sq, zq) m = Mul(d, i) a = Add(m, d) y = QuantizeLinear(a, sq, zq)",
        "q = QuantizeLinear(x, sq, zq) c = QLinearConv<group=6, strides=[2,1]>(q, sq, zq, wd, sq, zs, sq, zq) "
        "t = Transpose(c) y = DequantizeLinear(t, sq, zq)",
        "a, b = Split<axis=1, num_outputs=2>(x) p = Max(a, b) q = InstanceNormalization(p, k3, k3) y = Gelu(q)",
    )
    constants = {
        "w": onnx_models.rand(2, 6, 2, 2), "zero": np.array(0), "zeros": onnx_models.ints(0),
        "axes": onnx_models.ints(2, 3), "rest": onnx_models.ints(-1), "one": onnx_models.ints(1),
        "three": np.array(9), "unit": np.array(1), "rows": onnx_models.ints(6, 72), "two": onnx_models.ints(2),
        "scales": np.float32([1, 1, 2, 1.5]), "three2": np.array(2), "half": np.float32(0.5),
        "k9": onnx_models.rand(9), "k3": onnx_models.rand(3), "sq": np.float32(0.03), "zq": np.uint8(120),
        "zs": np.int8(0), "wi": np.arange(-48, 48, dtype=np.int8).reshape(4, 6, 2, 2),
        "wd": np.arange(54, dtype=np.int8).reshape(6, 1, 3, 3),
    }  # fmt: skip
    for text in texts:
        models.append(onnx_models.parsed(text, "float[1,6,8,9] x", "y", constants, 20))
    return [model.SerializeToString() for model in (*models, *_nodes())]


def _nodes() -> list[onnx.ModelProto]:
    """The smallest case of every op of the table, and of its variants one more."""
    import onnx_models

    from pipeall.graph.cases.op_cases import CASES, case_graph

    def elements(case: Case) -> int:
        return sum(map(prod, (*case.shapes, *case.constants)))

    models = []
    for op, cases in CASES.items():
        if op == "picture":  # no ONNX node
            continue
        small = [case for case in cases if elements(case) < 1000]
        for case in {str(case): case for case in (min(cases, key=elements), *small[-1:])}.values():
            models.append(onnx_models.of_graph(case_graph(case)[0]))
    return models


def _json() -> list[bytes]:
    import targets

    whole = [bytes([2 * i]) + text for i, text in enumerate(targets.json_seeds())]
    return whole + [bytes([2 * i + 1, 0, 3, 5, 0]) for i in range(len(whole))]


def _samples() -> list[bytes]:
    def npz(**arrays: np.ndarray) -> bytes:
        made = io.BytesIO()
        np.savez(made, **arrays)
        return made.getvalue()

    x, y = np.arange(16, dtype=np.float32).reshape(4, 4), np.array([0, 1, 0, 1])
    entry = io.BytesIO()
    np.save(entry, x)
    meta = {"format": "pipeall.mlp/2", "sizes": [4, 3, 2], "activations": ["sigmoid", "sigmoid"], "loss": "squared"}
    meta |= {"dtype": "float32", "seed": 0, "rule": "sgd"}
    meta |= {"epoch": 1, "best": None, "best_epoch": 0, "steps": 5, "kept": []}
    layers = {"w0": np.zeros((3, 4)), "b0": np.zeros(3), "w1": np.zeros((2, 3)), "b1": np.zeros(2)}
    return [
        b"\0a,b,label\n1,2,0\n3,4,1\n5,6,1\n",
        b"\1" + npz(x=x, y=y),
        b"\1" + npz(x_train=x, y_train=y, x_test=x, y_test=y),
        b"\2" + entry.getvalue(),
        b"\3" + npz(meta=np.array(json.dumps(meta)), **layers),
    ]


def _steps() -> list[bytes]:
    """Every fourth step in two layouts, and damaged once."""
    import steps

    return [
        bytes([*divmod(number, 256), number % 3, how, *number.to_bytes(4, "big")])
        for number in range(0, len(steps.steps()), 4)
        for how in (0, 2, 1 + 2 * (number // 4 % len(steps.DAMAGE)))
    ]


def _windows() -> list[bytes]:
    random = np.random.default_rng(0)
    return [
        bytes([kind]) + random.integers(0, 256, 40, dtype=np.uint8).tobytes() for kind in range(3) for _ in range(20)
    ]
