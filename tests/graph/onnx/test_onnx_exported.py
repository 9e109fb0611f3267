"""What exporters write beside plain layers: infinite constants, empty parts, masks, long windows, signals."""

import numpy as np
import pytest
from load_models import agrees, frames
from onnx_models import ints, parsed, rand, refusal, saved

from pipeall import load
from pipeall.graph.ops import run_graph

FAR = np.finfo(np.float32).min

CONSTANTS = {  # body -> constants, of which t is one
    "gathered from many": ("t = GatherElements<axis=1>(m, i)", dict(m=rand(1, 100), i=np.arange(99, 91, -1)[None])),
    "gathered backwards": ("t = GatherElements(m, i)", dict(m=rand(70, 8), i=np.full((1, 8), -1))),
    "gathered from few": ("t = GatherElements<axis=1>(m, i)", dict(m=rand(3, 4, 5), i=ints(3, 0).reshape(1, 2, 1))),
    "buckets by a logarithm": (
        "l = Log(m) c = Cast<to=7>(l) s = Where(small, i, c) t = Cast<to=1>(s)",
        dict(m=np.float32(range(8)), i=np.arange(8), small=np.arange(8) < 3),
    ),
    "masks added up": ("a = Add(m, m) t = Exp(a)", dict(m=np.float32([0, FAR] * 4))),
    "a quotient that is not chosen": (
        "q = Div(m, zeros) t = Where(chosen, m, q)",
        dict(m=rand(8), zeros=np.zeros(8, np.float32), chosen=np.ones(8, bool)),
    ),
    "whole numbers to a real power": ("p = Pow(i, half) t = Cast<to=1>(p)", dict(i=np.arange(8), half=np.float32(0.5))),
    "a far logarithm": ("t = LogSoftmax(m)", dict(m=np.float32([0, -200, 300, 1, 2, 3, 4, 5]))),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants(name, tmp_path):
    body, constants = CONSTANTS[name]
    agrees(parsed(f"{body} y = Mul(x, t)", "float[1,8] x", "y", constants, 17), tmp_path)


@pytest.mark.parametrize("opset", [11, 13])
def test_axis_of_a_constant_log_softmax(opset, tmp_path):
    agrees(
        parsed("t = LogSoftmax<axis=1>(m) y = Mul(x, t)", "float[3,4,5] x", "y", dict(m=rand(3, 4, 5)), opset), tmp_path
    )


def test_whole_numbers_divided_by_0(tmp_path):
    proto = parsed("q = Div(i, o) t = Cast<to=1>(q) y = Mul(x, t)", "float[1,3] x", "y", dict(i=ints(1), o=ints(0)), 17)
    assert "(Div): cannot evaluate on constants: division by 0" in refusal(saved(proto, tmp_path))


def test_part_without_elements(tmp_path):
    """Rotary embeddings of all channels leave none behind."""
    body = "a = Slice(x, zero, all, axis) b = Slice(x, all, end, axis) n = Neg(a) y = Concat<axis=2>(n, b)"
    constants = dict(zero=ints(0), all=ints(6), end=ints(2**62), axis=ints(-1))
    graph = agrees(parsed(body, "float[1,4,6] x", "y", constants, 17), tmp_path)
    assert [node.op for node in graph.nodes] == ["neg"]


WINDOWS = {  # of more than the input has
    "mean": ("AveragePool<ceil_mode=1, kernel_shape=[32,32], strides=[32,32]>", (1, 3, 2, 2)),
    "mean of one axis": ("AveragePool<ceil_mode=1, kernel_shape=[9,2], strides=[9,1]>", (1, 3, 4, 5)),
    "mean with padding": (
        "AveragePool<ceil_mode=1, count_include_pad=1, kernel_shape=[9,9], strides=[9,9], pads=[1,0,1,2]>", (1, 3, 4, 5)
    ),
    "mean of a sequence": ("AveragePool<ceil_mode=1, kernel_shape=[9], strides=[9]>", (1, 3, 5)),
    "maximum": ("MaxPool<ceil_mode=1, kernel_shape=[7,7], strides=[7,7]>", (1, 3, 4, 6)),
    "dilated maximum": ("MaxPool<ceil_mode=1, kernel_shape=[4,4], dilations=[2,2], strides=[5,5]>", (1, 3, 5, 6)),
}  # fmt: skip


@pytest.mark.parametrize("name", WINDOWS)
def test_window_longer_than_its_input(name, tmp_path):
    operator, shape = WINDOWS[name]
    agrees(parsed(f"y = {operator}(x)", f"float[{','.join(map(str, shape))}] x", "y", {}, 19), tmp_path)


MASKED = """n = NonZero(m) p = Transpose<perm=[1,0]>(n) b = Cast<to=9>(m) c = Cast<to=7>(b) f = Reshape(c, flat)
    s = ReduceSum<keepdims=1>(f) k = Concat<axis=0>(s, rest) e = Expand(number, k) u = Identity(e)
    r = ScatterND(x, p, u) y = Mul(r, number)"""


@pytest.mark.parametrize("mask", ["bool[2,3,4] m", "bool[2,3] m", "int64[2] m"])
def test_number_in_the_places_of_a_mask(mask, tmp_path):
    """x[mask] = number; of a mask of the first axes, all that lies behind its places."""
    constants = dict(flat=ints(-1), number=np.float32(-7), rest=ints(*(2, 3, 4)[mask.count(",") + 1 :]))
    graph = agrees(parsed(MASKED, f"float[2,3,4] x, {mask}", "y", constants, 18), tmp_path)
    assert [node.op for node in graph.nodes if node.op not in ("cast", "reshape")] == ["where", "mul"]


def test_number_in_the_places_of_a_constant_mask(tmp_path):
    constants = dict(flat=ints(-1), number=np.float32(-7), rest=ints(4), m=np.float32([[0, 1, 0], [2, 0, 0]]))
    graph = agrees(parsed(MASKED, "float[2,3,4] x", "y", constants, 18), tmp_path)
    assert [node.op for node in graph.nodes] == ["where", "mul"]
    body = MASKED.replace("ScatterND(x,", "ScatterND(k0,").replace("Mul(r, number)", "Mul(r, x)")
    graph = agrees(parsed(body, "float[2,3,4] x", "y", constants | dict(k0=rand(2, 3, 4)), 18), tmp_path)
    assert [node.op for node in graph.nodes] == ["mul"]


@pytest.mark.parametrize(
    "changed",
    [("u = Identity(e)", "u = Mul(e, number)"), ("r = ScatterND", 'r = ScatterND<reduction="add">')],
    ids=("computed", "added"),
)
def test_more_than_a_number_in_the_places_of_a_mask(changed, tmp_path):
    """The sum of a mask is how many places it has."""
    constants = dict(flat=ints(-1), number=np.float32(-7), rest=ints())
    inputs = "float[2,3,4] x, bool[2,3,4] m"
    graph = agrees(parsed(MASKED.replace(*changed), inputs, "y", constants, 18), tmp_path)
    assert "scatter_nd" in [node.op for node in graph.nodes] and not graph.lengths


def test_more_places_than_there_are_to_gather_from(tmp_path):
    constants = dict(m=rand(1, 4), i=np.zeros((3, 4), np.int64))
    proto = parsed("t = GatherElements<axis=1>(m, i) y = Mul(x, t)", "float[1,4] x", "y", constants, 17)
    assert "expected indices of at most (1, 4), but for axis 1, got (3, 4)" in refusal(saved(proto, tmp_path))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            MASKED.replace("NonZero(m)", "NonZero(x)").replace("ScatterND(x", "ScatterND(x4"),
            "expected a mask of the first",
        ),
    ],
)
def test_places_that_are_no_mask_of_a_number(body, message, tmp_path):
    constants = dict(flat=ints(-1), number=np.float32(-7), rest=ints(), x4=rand(4, 2, 3))
    assert message in refusal(saved(parsed(body, "float[2,3,4] x, bool[2,3,4] m", "y", constants, 18), tmp_path))


# ---- signals ----

TRANSFORMS = {  # operator, shape of x, constants, opset
    "real": ("DFT<axis=1>(x)", (2, 12, 1), {}, 17),
    "one side of several axes": ("DFT<onesided=1>(x, none, axis)", (2, 9, 5, 1), dict(axis=ints(1)), 20),
    "complex, longer than the signal": ("DFT(x, length)", (3, 7, 2), dict(length=ints(10)), 20),
    "shorter than the signal": ("DFT<onesided=1>(x, length)", (3, 7, 1), dict(length=ints(5)), 20),
    "inverse": ("DFT<inverse=1>(x)", (2, 3, 8, 2), {}, 20),
    "frames": ("STFT(x, step, none, size)", (2, 40, 1), dict(step=ints(6), size=ints(16)), 17),
    "complex frames with a window": (
        "STFT<onesided=0>(x, step, window)", (2, 33, 2), dict(step=ints(5), window=np.float32(np.hanning(11))), 17
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_of_signals(name, tmp_path):
    operator, shape, constants, opset = TRANSFORMS[name]
    constants = {name: array.reshape(()) if array.size == 1 else array for name, array in constants.items()}
    body = f"y = {operator.replace(', none', ', ')}"
    agrees(parsed(body, f"float[{','.join(map(str, shape))}] x", "y", constants, opset), tmp_path)


@pytest.mark.parametrize("length", [8, 9])
def test_back_to_a_signal_of_real_numbers(length, tmp_path):
    """Against NumPy: onnxruntime's inverse of one side is of complex numbers."""
    proto = parsed(
        "y = DFT<inverse=1, onesided=1>(x, length)", "float[3,5,2] x", "y", dict(length=np.int64(length)), 20
    )
    graph = load(saved(proto, tmp_path))
    (x,) = frames(graph).values()
    (found,) = run_graph(graph, {"x": x}).values()
    expected = np.fft.irfft(x[..., 0] + 1j * x[..., 1], length)[..., None]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(x).max())


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("y = DFT(x, long)", "expected a length of 1 to 4096, got 9000"),
        ("y = DFT<onesided=1>(x)", "expected 1 on the last axis"),
        ("y = STFT(x, zero, window)", "got 3 of them every 0"),
        ("y = STFT(x, one, , long)", "expected frames of the 6 samples, got 9000"),
    ],
)
def test_transforms_that_cannot_be(body, message, tmp_path):
    constants = dict(long=np.int64(9000), zero=np.int64(0), one=np.int64(1), window=np.ones(3, np.float32))
    assert message in refusal(saved(parsed(body, "float[2,6,2] x", "y", constants, 20), tmp_path))
