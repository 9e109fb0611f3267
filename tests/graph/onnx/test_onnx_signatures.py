"""The table that nodes are checked by, beside the schemas of the onnx package and its checker."""

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, helper

from pipeall.graph.onnx.read.prepare import checker_context, misfit
from pipeall.graph.onnx.read.signatures import TABLE, VALUES, fits
from tools.onnx_signatures import signatures

LAST, *LINES = TABLE.read_text().splitlines()
SAMPLES = {1: 0.5, 2: 0, 3: "a", 4: helper.make_tensor("t", 1, [1], [0.5]), 6: [], 7: [1, 2], 8: ["a"]}


def test_the_table_is_that_of_the_schemas():
    """Of a newer package as far as the table goes."""
    last = int(LAST.removeprefix("opset "))
    theirs = [line for line in signatures() if "\t" in line and int(line.split("\t")[1]) <= last]
    assert theirs and not set(theirs) - set(LINES)
    if onnx.defs.onnx_opset_version() == last:
        assert [LAST, *LINES] == list(signatures())


def attribute(name: str, type: int) -> AttributeProto:
    made = AttributeProto(name=name, type=type)
    value = SAMPLES[type]
    if type == 4:
        made.t.CopyFrom(value)
    elif isinstance(value, list):
        getattr(made, VALUES[type]).extend(v.encode() if isinstance(v, str) else v for v in value)
    else:
        setattr(made, VALUES[type], value.encode() if isinstance(value, str) else value)
    return made


def names(text: str) -> list[str]:
    """As few as may be, but for the last of a row of variable length, which stands twice."""
    counts, _, kinds = text.partition(":")
    return [f"x{i}" for i in range(int(counts.split(",")[0]) + kinds.endswith("v"))]


def whole(line: str) -> tuple[onnx.NodeProto, int]:
    """A node with all attributes that have samples, and its opset."""
    op, opset, inputs, outputs, attributes = line.split("\t")
    node = onnx.NodeProto(op_type=op, input=names(inputs), output=names(outputs))
    for word in attributes.split():
        name, _, type = word.partition("=")
        if int(type) in SAMPLES:
            node.attribute.append(attribute(name.removesuffix("!"), int(type)))
    return node, int(opset)


def spoiled(node: onnx.NodeProto, random: np.random.Generator) -> None:
    """Changes one thing, which the operator may allow or not."""
    operands = (node.input, node.output)[random.integers(2)]
    given = list(node.attribute)
    match random.integers(8 if given else 4):
        case 0:
            operands.append("more")
        case 1 if operands:
            operands.pop()
        case 2 if operands:
            operands[random.integers(len(operands))] = ""
        case 3:
            node.attribute.append(attribute("unheard", 2))
        case 4:
            node.attribute.remove(given[random.integers(len(given))])
        case 5:
            given[random.integers(len(given))].type = int(random.integers(15))
        case 6:
            given[random.integers(len(given))].ClearField("type")
        case 7:
            given[random.integers(len(given))].MergeFrom(attribute("", int(random.choice(list(SAMPLES)))))


@pytest.mark.parametrize("seed", range(2))
def test_what_fits_the_checker_takes(seed):
    """Nodes of every operator in every version, whole and with up to three things changed. None that the checker
    refuses is said to fit, and nine of ten that it takes are."""
    random, refused, taken, fitting = np.random.default_rng(seed), 0, 0, 0
    for line in LINES:
        if line.count("\t") == 1:  # an operator that is gone
            op, opset = line.split("\t")
            assert not fits(helper.make_node(op, ["x"], ["y"]), int(opset))
            continue
        for changes in range(4):
            node, opset = whole(line)
            for _ in range(changes):
                spoiled(node, random)
            message = misfit(node, checker_context(8, {"": opset}))
            if message:
                assert not fits(node, opset), (node, opset, message)
            refused += bool(message)
            taken += not message
            fitting += fits(node, opset)
    assert refused > 500 and taken > 500 and fitting > 0.9 * taken


def test_operators_and_opsets_that_the_table_does_not_know():
    node = helper.make_node("Relu", ["x"], ["y"])
    assert fits(node, 13) and not fits(node, int(LAST.removeprefix("opset ")) + 1)
    assert not fits(helper.make_node("Gelu", ["x"], ["y"]), 19) and fits(helper.make_node("Gelu", ["x"], ["y"]), 20)
    assert not fits(helper.make_node("Unheard", ["x"], ["y"]), 13)
