"""Which attributes each rewrite rule asks about. A rule that an attribute escapes computes something else in silence,
so every rule lists those of all operators that it takes apart, and other values of each are tried."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from graphs import INF, Net, inputs_of

from pipeall.errors import ModelError
from pipeall.graph.ir import Graph, Node, Tensor
from pipeall.graph.ops import OPS, infer_shape, infer_type, run_graph
from pipeall.graph.passes import rewrite as rewriting
from pipeall.graph.passes.rewrite_division import multiplied

IMAGE = (1, 6, 5, 5)
H, K = "heeds", "keeps"  # asks about it, or leaves it as it is on a node that means the same
SAME = "both orders give the same"
ONE = "of a single operand any axis"
NOTHING = "nothing is added"
IMPORTED = "of a quantize the importer makes the same"
CLAMP = {"lo": H, "hi": H}
SYMMETRIC, ORDERED = {**CLAMP, "swapped": SAME}, {**CLAMP, "swapped": H}
WINDOW = {"strides": K, "pads": H, "dilations": K, "groups": K, "lo": K, "hi": K}
CONV = {"strides": H, "pads": H, "dilations": H, "groups": H, **CLAMP}
LINEAR = {"strides": K, "pads": K, "dilations": K, "groups": K, **CLAMP}
SLICE = {"axis": H, "start": H, "stop": H, "step": H}
PAD = {"pads_begin": H, "pads_end": H, "mode": "refuses all but constant", "value": "refuses all but 0"}
RESIZE = dict.fromkeys(OPS["resize"].attrs, K) | {"mode": H}
MOVES = {
    "reshape": {"shape": K}, "transpose": {"perm": K}, "slice": dict.fromkeys(SLICE, K), "shuffle": {"groups": K},
    "expand": {"shape": K}, "concat": {"axis": K}, "resize": RESIZE,
}  # fmt: skip
MAXIMA = {"maxpool": dict.fromkeys(OPS["maxpool"].attrs, K)}  # of floats
LEVELS = {"scale": H, "zero": H}
GATES = {
    "mul": SYMMETRIC, "add": SYMMETRIC, "div": ORDERED, "pow": ORDERED, "hardsigmoid": {"alpha": H, "beta": H},
    "sigmoid": {}, "tanh": {}, "softplus": {}, "erf": {},
}  # fmt: skip

RULES = {
    "drop_idle": {
        "reshape": {"shape": H}, "transpose": {"perm": H}, "slice": SLICE, "expand": {"shape": H},
        "pad": {"pads_begin": H, "pads_end": H, "mode": NOTHING, "value": NOTHING}, "shuffle": {"groups": H},
        "concat": {"axis": ONE}, "clip": CLAMP, "mul": SYMMETRIC, "add": SYMMETRIC,
    },
    "merge_moves": {"reshape": {"shape": H}, "transpose": {"perm": H}},
    "make_shuffle": {"reshape": {"shape": H}, "transpose": {"perm": H}},
    "flatten_in_fc": {"reshape": {"shape": H}, "fc": {"axis": H, "lo": K, "hi": K}},
    "fold_pad": {
        "pad": PAD, "conv": WINDOW,
        "avgpool": {"kernel": H, "ceil": "refuses True", "strides": K, "pads": H, "count_include_pad": H},
    },
    "crop_kernel": {"conv": {**WINDOW, "strides": H, "dilations": H}},
    "fold_constant": {
        "conv": LINEAR, "deconv": {**LINEAR, "output_padding": K, "groups": H}, "fc": {"axis": K, **CLAMP},
        "mul": SYMMETRIC, "add": SYMMETRIC, "sub": ORDERED,
    },
    "merge_branches": {"conv": CONV, "mul": SYMMETRIC, "add": SYMMETRIC, "sub": ORDERED},
    "fold_normalization": {
        "conv": {**WINDOW, "groups": H}, "mul": SYMMETRIC, "add": SYMMETRIC, "sub": ORDERED,
    },
    "make_activation": GATES,
    "add_to_gate": {"mul": SYMMETRIC, "add": {"lo": K, "hi": K, "swapped": SAME}, "sigmoid": {}},
    "join_slices": {"slice": SLICE, "concat": {"axis": H}},
    "nest_concat": {"concat": {"axis": H}},
    "fuse_clamp": {"clip": CLAMP, "conv": WINDOW | CLAMP, "div": {**CLAMP, "swapped": K}},
    "fuse_residual": {"conv": WINDOW | CLAMP, "add": SYMMETRIC},
    "turn_attention": {"matmul": {"alpha": K}, "softmax": {"axis": H}, "transpose": {"perm": H}},
    "fuse_attention": {
        "matmul": {"alpha": H}, "softmax": {"axis": H}, "mul": SYMMETRIC, "div": ORDERED, "add": SYMMETRIC,
        "reshape": {"shape": H}, "attention": {"scale": H, "causal": K},
    },
    "read_what_was_stored": {
        "quantize": LEVELS | {"to": IMPORTED}, "dequantize": LEVELS,
        "fakequant": {"scale": IMPORTED, "low": IMPORTED},
    },
    "store_later": {"quantize": LEVELS | {"to": IMPORTED}, **MOVES},
    "take_maxima_of_floats": {
        "quantize": {"scale": K, "zero": K, "to": H}, "cast": {"to": H}, **MAXIMA,
    },
    "drop_fakequant": {"fakequant": {"scale": H, "low": H}, "clip": CLAMP, **MOVES, **MAXIMA},
    "normalize_as_it_is": {
        "reshape": {"shape": H}, "layernorm": {"axes": H, "epsilon": K, "center": K},
    },
    "multiplied": {"div": ORDERED | {"lo": K, "hi": K}, "floor": {}, "cast": {"to": H}, "conv": dict.fromkeys(CONV, K)},
}  # fmt: skip

VALUES = {  # other values of attributes, wherever they fit
    "lo": (-0.25,), "hi": (0.25,), "swapped": (True,), "strides": ((1, 2), (2, 2)), "dilations": ((1, 2), (2, 1)),
    "pads": ((0, 0, 0, 0), (0, 1, 2, 1), (1, 0, 1, 2), (2, 2, 2, 2)), "groups": (1, 2, 3, 6), "axis": (0, 1, 2, 3),
    "output_padding": ((0, 1),), "kernel": ((2, 2), (1, 3)), "ceil": (True, False), "count_include_pad": (True, False),
    "mode": ("reflect", "edge", "wrap", "linear", "cubic", "nearest"), "value": (0.5,),
    "to": ("uint8", "int32", "bool"),
    "pads_begin": ((0, 1, 0, 0), (0, 0, 2, 0)), "pads_end": ((0, 1, 0, 0), (0, 0, 0, 3)), "perm": "permuted",
    "shape": "permuted", "start": (0, 1, 2), "stop": (2, 3, 5), "step": (2,), "scale": (0.125, 0.3), "zero": (-7, 3),
    "low": (-100.0, 0.0), "alpha": (0.5, 2.0), "beta": (0.1,), "causal": (True,), "axes": ((1,), (2,), (1, 2)),
    "epsilon": (0.5,), "center": (False,), "sizes": ((1, 6, 10, 10),), "scales": ((1.0, 1.0, 1.5, 2.0),),
    "coordinates": ("asymmetric", "align_corners"), "rounding": ("floor", "ceil"), "cubic_a": (-0.5,),
    "exclude_outside": (True,), "antialias": (True,),
}  # fmt: skip


class Sketch(Net):
    """A net of which nodes make other types too."""

    def op(self, op: str, *inputs: str, **attrs) -> str:
        name = super().op(op, *inputs, **attrs)
        types = [str(self.constants[x].dtype) if x in self.constants else self.tensors[x].dtype for x in inputs]
        self.tensors[name] = replace(self.tensors[name], dtype=infer_type(op, self.nodes[-1].attrs, types, name))
        return name

    def number(self, value: float, rank: int = 4) -> str:
        name = f"k{len(self.constants)}"
        self.constants[name] = np.full((1,) * rank, value, np.float32)
        return name

    def put(self, x: str, **levels) -> str:
        """On levels, and then as integers."""
        return self.op("quantize", self.op("fakequant", x, scale=0.25, low=-128.0), scale=0.25, zero=0, to="int8")


# ---- an example of each rule: every node that it takes apart ----


def idle() -> list[Graph]:
    graphs = []
    for op, attrs in (
        ("reshape", {"shape": IMAGE}), ("transpose", {"perm": (0, 1, 2, 3)}), ("concat", {"axis": 1}), ("clip", {}),
        ("slice", {"axis": 1, "start": 0, "stop": 6}), ("expand", {"shape": IMAGE}), ("shuffle", {"groups": 1}),
        ("pad", {"pads_begin": (0,) * 4, "pads_end": (0,) * 4}), ("mul", {}), ("add", {}),
    ):  # fmt: skip
        net = Sketch(IMAGE)
        more = [net.number(op == "mul")] if op in ("mul", "add") else []
        attrs |= {"lo": -INF, "hi": INF} if op == "clip" else {}
        graphs.append(net.graph(net.op("sigmoid", net.op(op, "x0", *more, **attrs))))
    return graphs


def moves() -> list[Graph]:
    net = Sketch((1, 2, 3, 4))
    x = net.op("reshape", net.op("reshape", "x0", shape=(2, 3, 4)), shape=(4, 3, 2))
    other = net.op("transpose", net.op("transpose", "x0", perm=(0, 2, 3, 1)), perm=(0, 2, 1, 3))
    return [net.graph(x, other)]


def shuffled() -> list[Graph]:
    net = Sketch((1, 6, 2, 2))
    x = net.op("transpose", net.op("reshape", "x0", shape=(1, 2, 3, 2, 2)), perm=(0, 2, 1, 3, 4))
    return [net.graph(net.op("reshape", x, shape=(1, 6, 2, 2)))]


def flat() -> list[Graph]:
    net = Sketch((1, 2, 3))
    return [net.graph(net.fc(net.op("reshape", "x0", shape=(1, 6)), 6))]


def padded() -> list[Graph]:
    graphs = []
    for op in ("conv", "avgpool"):
        net = Sketch(IMAGE)
        x = net.op("pad", "x0", pads_begin=(0, 0, 1, 1), pads_end=(0, 0, 1, 1))
        y = net.conv(x, 6, 3) if op == "conv" else net.op("avgpool", x, kernel=(3, 3), strides=(1, 1))
        graphs.append(net.graph(y))
    return graphs


def dilated() -> list[Graph]:
    net = Sketch((1, 2, 3, 3))
    weight, bias = net.constant((2, 2, 3, 3)), net.constant((2,))
    return [net.graph(net.op("conv", "x0", weight, bias, pads=(4, 4, 4, 4), dilations=(4, 4)))]


def scaled_after() -> list[Graph]:
    graphs = []
    for main, op in product(("conv", "deconv", "fc"), ("mul", "add", "sub")):
        net = Sketch((1, 6) if main == "fc" else IMAGE)
        if main == "deconv":
            x = net.op("deconv", "x0", net.constant((6, 6, 2, 2)), net.constant((6,)), strides=(2, 2))
        else:
            x = net.fc("x0", 6) if main == "fc" else net.conv("x0", 6, 3)
        graphs.append(net.graph(net.op(op, x, net.constant((1, 6) if main == "fc" else (1, 6, 1, 1)))))
    return graphs


def branches() -> list[Graph]:
    graphs = []
    for op in ("add", "sub"):
        net = Sketch(IMAGE)
        normed = net.op(op, net.op("mul", "x0", net.constant((1, 6, 1, 1))), net.constant((1, 6, 1, 1)))
        graphs.append(net.graph(net.op(op, net.conv("x0", 6, 3), normed)))
        net = Sketch(IMAGE)
        graphs.append(net.graph(net.op(op, net.conv("x0", 6, 3), net.conv("x0", 6, 1))))
    return graphs


def scaled_before() -> list[Graph]:
    graphs = []
    for op in ("add", "sub"):
        net = Sketch(IMAGE)
        normed = net.op(op, net.op("mul", "x0", net.constant((1, 6, 1, 1))), net.constant((1, 6, 1, 1)))
        graphs.append(net.graph(net.conv(normed, 6, 3)))
    return graphs


def gated() -> list[Graph]:
    def product_of(make, *numbers: float) -> Graph:
        net = Sketch(IMAGE)
        x = net.op("mul", "x0", make(net))
        for number in numbers:
            x = net.op("mul", x, net.number(number))
        return net.graph(x)

    def cubed(net: Sketch, op: str) -> str:
        cube = net.op("pow", "x0", net.number(3)) if op == "pow" else net.op("mul", net.op("mul", "x0", "x0"), "x0")
        total = net.op("add", "x0", net.op("mul", cube, net.number(0.044715)))
        inner = net.op("tanh", net.op("mul", total, net.number((2 / np.pi) ** 0.5)))
        return net.op("add", inner, net.number(1))

    def erf(net: Sketch) -> str:
        return net.op("add", net.op("erf", net.op("div", "x0", net.number(2**0.5))), net.number(1))

    return [
        product_of(lambda net: net.op("sigmoid", "x0")),
        product_of(lambda net: net.op("tanh", net.op("softplus", "x0"))),
        product_of(lambda net: net.op("hardsigmoid", "x0", alpha=1 / 6, beta=0.5)),
        product_of(lambda net: net.op("add", "x0", net.number(3), lo=0.0, hi=6.0), 1 / 6),
        product_of(erf, 0.5),
        product_of(lambda net: cubed(net, "pow"), 0.5),
        product_of(lambda net: cubed(net, "mul"), 0.5),
    ]


def added_to_gate() -> list[Graph]:
    net = Sketch(IMAGE, (1, 6, 1, 1))
    return [net.graph(net.op("add", "x0", net.op("mul", "x0", net.op("sigmoid", "x1"))))]


def sliced() -> list[Graph]:
    net = Sketch(IMAGE)
    parts = [net.op("slice", "x0", axis=1, start=start, stop=stop) for start, stop in ((0, 2), (2, 3), (3, 5))]
    return [net.graph(net.op("concat", *parts, axis=1))]


def nested() -> list[Graph]:
    net = Sketch((1, 2, 2, 2), (1, 2, 2, 2), (1, 2, 2, 2))
    return [net.graph(net.op("concat", "x0", "x1", axis=1), net.op("concat", "x0", "x1", "x2", axis=1))]


def clamped() -> list[Graph]:
    net = Sketch(IMAGE)
    x = net.op("clip", net.conv("x0", 6, 3), lo=-1.0, hi=1.0)
    y = net.op("clip", net.op("div", "x0", net.number(3)), lo=-1.0, hi=1.0)
    return [net.graph(net.op("clip", x, lo=0.0, hi=6.0), y)]


def residual() -> list[Graph]:
    net = Sketch(IMAGE, IMAGE)
    return [net.graph(net.op("add", net.conv("x0", 6, 3), "x1"))]


def attending() -> list[Graph]:
    graphs = []
    for factor in ("mul", "div"):
        net = Sketch((1, 2, 4, 4), (1, 2, 4, 4), (1, 2, 4, 4), (1, 2, 4, 4))
        scores = net.op(factor, net.op("matmul", net.op("mul", "x0", net.number(0.5)), "x1"), net.number(2.0))
        scores = net.op("reshape", net.op("add", scores, "x3"), shape=(1, 2, 4, 4))
        graphs.append(net.graph(net.op("matmul", net.op("softmax", scores, axis=3), "x2")))
    net = Sketch((1, 2, 4, 4), (1, 2, 4, 4), (1, 2, 4, 4))
    graphs.append(net.graph(net.op("attention", net.op("mul", "x0", net.number(0.5)), "x1", "x2", scale=0.3)))
    return graphs


def turned() -> list[Graph]:
    net = Sketch((1, 2, 4, 4), (1, 2, 4, 4))
    scores = net.op("matmul", "x0", "x1")
    weights = net.op("transpose", net.op("softmax", scores, axis=3), perm=(0, 1, 3, 2))
    return [net.graph(net.op("matmul", "x1", weights, alpha=0.5))]


def stored() -> list[Graph]:
    net = Sketch(IMAGE)
    return [net.graph(net.op("dequantize", net.put("x0"), scale=0.25, zero=0))]


MADE = (
    ("reshape", {"shape": (1, 150)}), ("transpose", {"perm": (0, 2, 3, 1)}), ("shuffle", {"groups": 2}),
    ("slice", {"axis": 1, "start": 0, "stop": 4}), ("concat", {"axis": 1}),
    ("expand", {"shape": (2, 6, 5, 5)}),
    ("resize", {"sizes": (1, 6, 10, 10), "scales": (1.0, 1.0, 2.0, 2.0), "mode": "nearest"}),
)  # fmt: skip


def stored_and_moved() -> list[Graph]:
    graphs = []
    for op, attrs in MADE:
        net = Sketch(IMAGE)
        operands = [net.put("x0")] * (2 if op == "concat" else 1)
        graphs.append(net.graph(net.op("dequantize", net.op(op, *operands, **attrs), scale=0.25, zero=0)))
    return graphs


def maxima() -> list[Graph]:
    net = Sketch(IMAGE)
    x = net.op("maxpool", net.op("cast", net.put("x0"), to="float32"), kernel=(2, 2), strides=(1, 1))
    return [net.graph(net.op("dequantize", net.op("cast", x, to="int8"), scale=0.25, zero=0))]


def on_levels_again() -> list[Graph]:
    graphs = []
    for op, attrs in (*MADE, ("clip", {"lo": 0.0, "hi": INF}), ("maxpool", {"kernel": (2, 2)})):
        net = Sketch(IMAGE)
        x = net.op("fakequant", "x0", scale=0.25, low=-128.0)
        x = net.op(op, *([x] * (2 if op == "concat" else 1)), **attrs)
        graphs.append(net.graph(net.op("sigmoid", net.op("fakequant", x, scale=0.25, low=-128.0))))
    return graphs


def normalized() -> list[Graph]:
    net = Sketch((1, 2, 3, 4))
    x = net.op("layernorm", net.op("reshape", "x0", shape=(1, 24)), axes=(1,))
    return [net.graph(net.op("reshape", x, shape=(1, 2, 3, 4)))]


def divided() -> list[Graph]:
    nets = [Sketch(IMAGE) for _ in range(3)]
    x, y, z = (net.op("div", "x0", net.number(41.0)) for net in nets)
    last = nets[0].op("floor", x), nets[1].op("cast", y, to="float32"), nets[2].op("floor", nets[2].conv(z, 6, 3))
    return [net.graph(name) for net, name in zip(nets, last, strict=True)]


EXAMPLES = {
    "drop_idle": idle, "merge_moves": moves, "make_shuffle": shuffled, "flatten_in_fc": flat, "fold_pad": padded,
    "crop_kernel": dilated, "fold_constant": scaled_after, "merge_branches": branches,
    "fold_normalization": scaled_before, "make_activation": gated, "add_to_gate": added_to_gate,
    "join_slices": sliced, "nest_concat": nested, "fuse_clamp": clamped, "fuse_residual": residual,
    "turn_attention": turned, "fuse_attention": attending, "read_what_was_stored": stored,
    "store_later": stored_and_moved, "take_maxima_of_floats": maxima, "drop_fakequant": on_levels_again,
    "normalize_as_it_is": normalized, "multiplied": divided,
}  # fmt: skip


def changed(graph: Graph, at: int, name: str, value) -> Graph | None:
    """The graph with one attribute of one node changed, its shapes and types anew; None where that does not fit."""
    nodes, tensors = list(graph.nodes), {tensor.name: tensor for tensor in graph.inputs}
    nodes[at] = replace(nodes[at], attrs={**nodes[at].attrs, name: value})
    operands = tensors | {x: Tensor(x, made.shape, str(made.dtype)) for x, made in graph.constants.items()}
    for node in nodes:
        read = [operands[x] for x in node.inputs]
        try:
            shape = infer_shape(node.op, node.attrs, [x.shape for x in read], node.name)
            dtype = infer_type(node.op, node.attrs, [x.dtype for x in read], node.name)
        except ModelError:
            return None
        operands[node.output] = tensors[node.output] = Tensor(node.output, shape, dtype)
    outputs = tuple(tensors[tensor.name] for tensor in graph.outputs)
    return replace(graph, nodes=tuple(nodes), tensors=tensors, outputs=outputs)


def others(node: Node, name: str) -> list:
    if VALUES[name] == "permuted":
        value = node.attrs[name]
        return [value[::-1], (*value[:-2], *value[:-3:-1]), (*value[:1], *value[:0:-1])]
    return list(VALUES[name])


def same(graph: Graph) -> None:
    given = {name: 4 * array for name, array in inputs_of(graph).items()}
    expected, got = run_graph(graph, given), run_graph(rewriting.rewrite(graph), given)
    for name, wanted in expected.items():
        assert np.abs(got[name] * 1.0 - wanted).max() <= 1e-6 * max(1, np.abs(wanted * 1.0).max())


def test_every_rule_lists_the_attributes_of_its_operators():
    assert RULES.keys() == {rule.__name__ for rule in (*rewriting.RULES, multiplied)} == EXAMPLES.keys()
    for rule, ops in RULES.items():
        for op, listed in ops.items():
            assert listed.keys() == OPS[op].attrs.keys(), f"{rule}: what does it do about an attribute of {op}?"


@pytest.mark.parametrize("rule", RULES)
def test_no_attribute_escapes_a_rule(rule, monkeypatch):
    graphs = EXAMPLES[rule]()
    named = {found.__name__: found for found in rewriting.RULES}
    with monkeypatch.context() as patch:
        patch.setattr(rewriting, "RULES", (named[rule],) if rule in named else ())
        for graph in graphs:
            assert rewriting.rewrite(graph).nodes != graph.nodes or rule == "multiplied", "an example of nothing"
    met = set()
    for graph in graphs:
        same(graph)
        for at, node in enumerate(graph.nodes):
            for name in node.attrs if node.op in RULES[rule] else ():
                met.add(node.op)
                for value in others(node, name) if RULES[rule][node.op][name] != IMPORTED else ():
                    if (other := changed(graph, at, name, value)) is not None:
                        same(other)
    assert met == {op for op, listed in RULES[rule].items() if listed}, "every operator is in an example"
