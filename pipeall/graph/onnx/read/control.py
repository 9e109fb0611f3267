"""Operators with subgraphs: those whose course is known before the network runs become the nodes that they would run.

A subgraph is converted in the place of its node, once for each time that it runs. Its names hide those around it while
that lasts; the canonical names of what it makes begin with the node's name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from ....errors import ModelError
from .build import Builder, OnnxNode, Value, operator
from .element_types import WIDER
from .narrow import type_in_file
from .reader import Subgraph

MAX_TURNS = 1000  # of one loop


def run(g: Builder, n: OnnxNode, body: Subgraph, feeds: Mapping[str, Value], turn: str = "") -> list[Value]:
    """Convert a subgraph whose inputs have the values ``feeds``; the values of its outputs."""
    constants, nodes = body.content
    inside = {*feeds, *constants, *(name for node in nodes for name in node.outputs)} - {""}
    with g.inside(n, inside, len(nodes), turn):
        g.values.update({**constants, **feeds})
        for node in nodes:
            for name in node.inputs:
                if name and name not in g.values:
                    node.fail(f"reads {name!r} that nothing makes")
            g.convert(node)
        for name in body.outputs:
            if name not in g.values:
                n.fail(f"output {name!r} of its subgraph is made by no node")
        return [g.values[name] for name in body.outputs]


def _known(n: OnnxNode, value: Value, what: str, way: str = "") -> int:
    """A condition or a number of turns."""
    if isinstance(value, str):
        n.fail(f"only a {what} that is known before the network runs is supported, {value!r} is computed{way}")
    if value.size != 1 or value.dtype.kind not in "iub":
        n.fail(f"the {what} must be one integer or bool, got {value.dtype} {value.shape}")
    return int(value.item())


def _bind(g: Builder, n: OnnxNode, values: Sequence[Value], first: int = 0) -> None:
    for i, value in enumerate(values, first):
        if i in n.made:
            g.bind(n, value, i)


def branch(n: OnnxNode, condition: np.ndarray) -> Subgraph:
    """The one that an If takes."""
    return _branch(n, "then_branch" if _known(n, condition, "condition") else "else_branch")


def _branch(n: OnnxNode, which: str) -> Subgraph:
    body = n.get(which, Subgraph)
    if body.inputs or len(body.outputs) != len(n.outputs):
        n.fail(f"expected a branch without inputs and with {len(n.outputs)} outputs")
    return body


@operator("If", "else_branch then_branch", "where the condition is computed, branches that make tensors of one shape")
def _if(g: Builder, n: OnnxNode) -> None:
    condition = g.value(n, 0)
    if isinstance(condition, np.ndarray):
        _bind(g, n, run(g, n, branch(n, condition), {}))
        return
    try:
        taken, other = (run(g, n, _branch(n, f"{which}_branch"), {}, f"{which}/") for which in ("then", "else"))
    except ModelError as error:
        n.fail(f"its condition is computed, so both branches are, and one cannot be{g.way_on(condition)}: {error}")
    _bind(g, n, [chosen(g, n, condition, *pair, f"{i}") for i, pair in enumerate(zip(taken, other, strict=True))])


def chosen(g: Builder, n: OnnxNode, condition: str, a: Value, b: Value, part: str) -> Value:
    """``a`` where the condition holds, else ``b``: both are computed."""
    if a is b or (isinstance(a, str) and a == b):
        return a
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return tuple(chosen(g, n, condition, *pair, f"{part}/{i}") for i, pair in enumerate(zip(a, b, strict=True)))
    if not all(isinstance(value, Value) for value in (a, b)):
        n.fail("expected branches that make tensors, or sequences of one length")
    shapes, types = [g.shape_of(value) for value in (a, b)], [type_in_file(g, value) for value in (a, b)]
    if shapes[0] != shapes[1] or types[0] != types[1]:
        shown = " and ".join(f"{kind} {shape}" for kind, shape in zip(types, shapes, strict=True))
        n.fail(
            f"{condition!r} is computed, so tensors of one shape are expected whether it holds or not, got {shown}"
            f"{g.way_on(condition)}"
        )
    lengths = [g.extents.get(value) if isinstance(value, str) else None for value in (a, b)]
    if lengths[0] != lengths[1]:
        n.fail(f"{condition!r} is computed, and the sizes of what its branches make depend on the data")
    if prod(g.shape(condition)) != 1:
        n.fail(f"the condition must be one bool, got {g.shape(condition)}")
    if 0 in shapes[0]:
        return a
    rank = len(shapes[0])
    condition = g.reshape(n, condition, (1,) * rank, part=f"{part}/condition")
    operands = [
        value if isinstance(value, str) else g.keep(value, g.fresh(f"{n.outputs[0]}/{part}/constant"), infinite=True)
        for value in (a, b)
    ]
    made = g.emit(n, "where", [condition, *operands], part=f"{part}/chosen", output=n.made[0])
    if types[0] in WIDER:
        g.narrow[made] = types[0]
    if lengths[0]:
        g.extents[made] = lengths[0]
    return made


@operator("Loop", "body", f"number of turns, or the most of them, known before the network runs, at most {MAX_TURNS}")
def _loop(g: Builder, n: OnnxNode) -> None:
    """Turn after turn. Where the condition is computed, all turns are, and what they make is kept while it holds."""
    body = n.get("body", Subgraph)
    state = [g.value(n, i) for i in range(2, len(n.inputs))]
    if len(body.inputs) != len(state) + 2 or len(body.outputs) <= len(state):
        n.fail(f"expected a body with {len(state) + 2} inputs and more than {len(state)} outputs")
    most = _turns(g, n)
    going: Value = g.value(n, 1) if g.has(n, 1) else np.array(True)
    scanned: list[Sequence[Value]] = []  # of every turn
    turn = 0
    while turn < most and (isinstance(going, str) or _known(n, going, "condition")):
        if isinstance(going, str) and (len(body.outputs) > len(state) + 1 or most > MAX_TURNS):
            _known(n, going, "condition", g.way_on(going))
        if turn == MAX_TURNS:
            n.fail(f"more than {MAX_TURNS} turns")
        values = (np.array(turn), going, *state)
        on, *results = run(g, n, body, dict(zip(body.inputs, values, strict=True)), f"{turn}/")
        if isinstance(going, str):
            parts = [f"{turn}/{i}" for i in range(len(state))]
            made = zip(results, state, parts, strict=True)
            results = [chosen(g, n, going, new, old, part) for new, old, part in made]
            going = chosen(g, n, going, on, np.zeros(g.shape_of(on), bool), f"{turn}/on")
        else:
            going = on
        scanned.append(results[len(state) :])
        state, turn = results[: len(state)], turn + 1
    _bind(g, n, state)
    for i, values in enumerate(zip(*scanned, strict=True), len(state)):
        if i in n.made:
            stacked(g, n, values, 0, i)


def _turns(g: Builder, n: OnnxNode) -> float:
    """The most of them; infinite where the node does not say."""
    if not g.has(n, 0):
        return np.inf
    count = g.value(n, 0)
    return _known(n, count, "number of turns", g.way_on(count))


_SCAN = "body num_scan_inputs scan_input_axes scan_input_directions scan_output_axes scan_output_directions"


@operator("Scan", _SCAN, f"from opset 9 on; at most {MAX_TURNS} turns")
def _scan(g: Builder, n: OnnxNode) -> None:
    if n.opset < 9:
        n.fail("the form of opset 8 is not supported")
    body, count = n.get("body", Subgraph), n.get("num_scan_inputs", int)
    values = [g.value(n, i) for i in range(len(n.inputs))]
    if not 1 <= count <= len(values) or len(body.inputs) != len(values):
        n.fail(f"expected a body with {len(values)} inputs, {count} of them scanned, got {len(body.inputs)}")
    state, scanned = values[: len(values) - count], values[len(values) - count :]
    results = len(body.outputs) - len(state)
    if results < 0:
        n.fail(f"expected a body with at least {len(state)} outputs")
    zeros = (0,) * max(count, results)
    shapes = [g.shape_of(value) for value in scanned]
    axes = [
        n.axis(axis, len(shape))
        for axis, shape in zip(n.ints("scan_input_axes", count, zeros[:count]), shapes, strict=True)
    ]
    turns = {shape[axis] for shape, axis in zip(shapes, axes, strict=True)}
    if len(turns) != 1 or max(turns) > MAX_TURNS:
        n.fail(f"expected one number of turns, at most {MAX_TURNS}, got {', '.join(map(str, sorted(turns)))}")
    backward = n.ints("scan_input_directions", count, zeros[:count])
    made: list[Sequence[Value]] = []  # of every turn
    for turn in range(last := turns.pop()):
        slices = [
            at_index(g, n, value, axis, last - 1 - turn if back else turn)
            for value, axis, back in zip(scanned, axes, backward, strict=True)
        ]
        out = run(g, n, body, dict(zip(body.inputs, (*state, *slices), strict=True)), f"{turn}/")
        made.append(out[len(state) :])
        state = out[: len(state)]
    _bind(g, n, state)
    out_axes, out_back = (n.ints(f"scan_output_{name}", results, zeros[:results]) for name in ("axes", "directions"))
    for i, values in enumerate(zip(*made, strict=True)):
        if len(state) + i in n.made:
            stacked(g, n, values[::-1] if out_back[i] else values, out_axes[i], len(state) + i)


def at_index(g: Builder, n: OnnxNode, value: Value, axis: int, index: int) -> Value:
    """One element along an axis, which goes."""
    if isinstance(value, np.ndarray):
        return np.asarray(np.take(value, index, axis))  # of a vector it is a number
    shape = g.shape(value)
    cut = g.emit(n, "slice", [value], part=f"turn{index}", axis=axis, start=index, stop=index + 1)
    return g.reshape(n, cut, shape[:axis] + shape[axis + 1 :], part=f"element{index}")


def stacked(g: Builder, n: OnnxNode, values: Sequence[Value], axis: int, output: int) -> None:
    """The values along a new axis, as an output of the node."""
    if any(isinstance(value, str) and value in g.extents for value in values):
        n.fail(f"output {output} collects tensors whose sizes depend on the data")
    shapes = {g.shape_of(value) for value in values}
    if len(shapes) != 1:
        n.fail(f"output {output} collects tensors of different shapes: {', '.join(map(str, sorted(shapes)))}")
    shape = shapes.pop()
    axis = n.axis(axis, len(shape) + 1)
    one = (*shape[:axis], 1, *shape[axis:])
    if all(isinstance(value, np.ndarray) for value in values):
        g.afford(n, len(values) * values[0].size)
        g.bind(n, np.stack(values, axis), output)
        return
    parts = []
    for i, value in enumerate(values):
        if isinstance(value, np.ndarray):
            parts.append(g.keep(value.reshape(one), g.fresh(f"{n.outputs[output]}/part{i}"), infinite=True))
        elif len(values) > 1:
            parts.append(g.reshape(n, value, one, part=f"part{i}"))
        else:
            g.emit(n, "reshape", [value], output=output, shape=one)
            return
    g.emit(n, "concat", parts, output=output, axis=axis)
