"""Types at the border: arrays come in and go out in those that the file declares, whatever is computed within."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx_models import refusal, run, saved

from pipeall import ArgumentError, Engine, Pipeline, load

NAMES = {"float32": "float", "float64": "double"}
INTEGERS = np.array([0, 1, -1, 127, 128, 255, 256, 2**15 - 1, 2**15, 2**16 - 1, 2**31 - 1, -(2**31), 123456789])
REALS = np.array([0.5, 1.75, 100.7, 250.25])
SOURCES = ("uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64")


def parsed(body, inputs, outputs, opset=17, **constants):
    graph = onnx.parser.parse_graph(f"test ({inputs}) => ({outputs}) {{ {body} }}")
    graph.initializer.extend(numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items())
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def agrees(proto, tmp_path, **feeds):
    wanted = run(proto, feeds)
    with Engine(load(saved(proto, tmp_path))) as engine:
        made = engine(feeds)
    made = made if isinstance(made, dict) else {next(iter(wanted)): made}
    for name, array in wanted.items():
        assert made[name].dtype == array.dtype and made[name].shape == array.shape
        np.testing.assert_allclose(made[name], array, rtol=2.0**-23 if array.dtype.kind == "f" else 0)


@pytest.mark.parametrize("to", ["uint8", "int16", "uint16", "int32", "uint32", "uint64", "float32", "float64"])
@pytest.mark.parametrize(
    "source", ["uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64"]
)
def test_casts(source, to, tmp_path):
    """Integers are taken modulo 2^bits, as in onnxruntime."""
    x = INTEGERS.astype(source) if source[0] != "f" else REALS.astype(source)
    size, kind = f"[{len(x)}]", helper.np_dtype_to_tensor_dtype(np.dtype(to))
    ends = f"{NAMES.get(source, source)}{size} x", f"{NAMES.get(to, to)}{size} y, float{size} z"
    agrees(parsed(f"y = Cast<to={kind}>(x) z = Cast<to=1>(y)", *ends), tmp_path, x=x)


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div"])
@pytest.mark.parametrize("kind", ["uint32", "int16", "uint16"])
def test_sums_stay_in_their_range(op, kind, tmp_path):
    most = np.iinfo(kind)
    x, z = (np.array(values, kind) for values in ((most.max, most.min, 5, 7), (3, 2, 7, 2)))
    proto = parsed(f"t = {op}(x, z) y = Cast<to=1>(t)", f"{kind}[4] x, {kind}[4] z", "float[4] y")
    if kind == "uint16":  # onnxruntime has none for these: NumPy's are modulo 2^bits too
        with np.errstate(over="ignore"):
            wanted = {"Add": x + z, "Sub": x - z, "Mul": x * z, "Div": x // z}[op].astype(np.float32)
        with Engine(
            load(saved(parsed(f"t = {op}(x, z) y = Cast<to=1>(t)", "uint16[4] x, uint16[4] z", "float[4] y"), tmp_path))
        ) as engine:
            np.testing.assert_array_equal(engine({"x": x, "z": z}), wanted)
    else:
        agrees(proto, tmp_path, x=x, z=z)


MOVES = {
    "join": (
        "t = Concat<axis=0>(x, c) r = Reshape(t, s) y = Transpose(r)",
        dict(c=np.array([5, -6], np.int16), s=np.array([2, 2])),
    ),
    "pick": ("y = Gather(x, i)", dict(i=np.array([1, 0, 1]))),
    "same": ("y = Identity(x)", {}),
}


@pytest.mark.parametrize("name", MOVES)
def test_moves(name, tmp_path):
    body, constants = MOVES[name]
    agrees(parsed(body, "int16[2] x", "int16 y", **constants), tmp_path, x=np.array([-2, 30000], np.int16))


def test_doubles(tmp_path):
    """Where the network reads them alone, in a pipeline too, and float32 as before."""
    proto = parsed(
        "c = Conv(x, w) r = Relu(c) y = Conv(r, w)", "double[1,2,5,5] x", "double y", w=np.full((2, 2, 1, 1), 0.5)
    )
    x = np.random.default_rng(0).standard_normal((1, 2, 5, 5))
    graph = load(saved(proto, tmp_path))
    wanted = np.maximum(x.sum(1, keepdims=True) / 2, 0).repeat(2, axis=1)
    with Pipeline(graph, "big-little:1") as pipe, Engine(graph) as engine:
        for made in (*pipe.map([x, x]), engine(x), engine(x.astype(np.float32))):
            assert made.dtype == np.float64
            np.testing.assert_allclose(made, wanted, atol=1e-6)
        with pytest.raises(ArgumentError, match=r"input 'x': expected float64 \(1, 2, 5, 5\), got int64"):
            engine(x.astype(np.int64))


# ---- nothing ----


def test_inputs_without_elements(tmp_path):
    cache = np.zeros((1, 0, 3), np.float32)
    x = np.random.default_rng(0).standard_normal((1, 4, 3)).astype(np.float32)
    body = "y = Concat<axis=1>(cache, x) n = Neg(cache) z = Concat<axis=1>(x, n)"
    agrees(parsed(body, "float[1,4,3] x, float[1,0,3] cache", "float y, float z"), tmp_path, x=x, cache=cache)


@pytest.mark.parametrize(
    "body, constants",
    [
        ("y = Slice(x, a, a)", dict(a=np.array([1]))),
        ("e = Slice(x, a, a) y = Relu(e)", dict(a=np.array([1]))),
        ("e = Slice(x, a, a) t = Transpose(e) z = Neg(x) y = MatMul(t, e)", dict(a=np.array([1]))),
        ("y = Expand(x, s)", dict(s=np.array([0, 1, 1]))),
    ],
    ids=["slice", "of nothing", "product", "expand"],
)
def test_outputs_without_elements(body, constants, tmp_path):
    proto = parsed(f"{body} w = Abs(x)", "float[1,3] x", "float y, float w", **constants)
    agrees(proto, tmp_path, x=np.ones((1, 3), np.float32))


def test_a_network_of_nothing_is_refused(tmp_path):
    assert "input 'x' has no elements, (1, 3, 0, 4): give input_shape" in refusal(
        saved(parsed("y = Relu(x)", "float[1,3,0,4] x", "float y"), tmp_path)
    )


# ---- AffineGrid ----


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("size", [(1, 2, 4, 5), (3, 1, 2, 6), (2, 1, 2, 3, 4)], ids=str)
def test_affine_grid(size, corners, tmp_path):
    dims = len(size) - 2
    theta = np.random.default_rng(0).standard_normal((size[0], dims, dims + 1)).astype(np.float32)
    shape = ",".join(map(str, theta.shape))
    proto = parsed(
        f"y = AffineGrid<align_corners={corners}>(t, s)", f"float[{shape}] t", "float y", 20, s=np.array(size)
    )
    with Engine(load(saved(proto, tmp_path))) as engine:
        np.testing.assert_allclose(engine(theta), run(proto, {"t": theta})["y"], atol=2e-6)
