"""Padding of strided tensors against NumPy, bit by bit."""

import numpy as np
import pytest
from strided_steps import everywhere, random_of, run_strided, tables

from pipeall import ArgumentError
from pipeall.graph.lower.lower_movement import places_of
from pipeall.graph.ops.movement_ops import PAD_MODES

CASES = {  # name -> shape, elements before and after along each axis
    "one element": ((1,), [(0, 0)]),
    "around one": ((1, 1), [(2, 0), (0, 3)]),
    "a row": ((9,), [(2, 1)]),
    "several times around": ((3,), [(10, 11)]),
    "pixels": ((2, 5, 7, 3), [(0, 0), (2, 1), (1, 3), (0, 0)]),
    "planes": ((2, 3, 6, 20), [(0, 0), (0, 0), (3, 2), (1, 1)]),
    "channels": ((4, 6, 3), [(0, 0), (0, 0), (0, 1)]),
    "batches": ((2, 3, 4), [(1, 2), (0, 0), (0, 0)]),
    "nothing": ((3, 4), [(0, 0), (0, 0)]),
    "rows of several parts": ((2, 140_000), [(1, 0), (3, 70_000)]),  # pad.c: PART
}


def params_of(shape, sides, mode, value=0.0):
    begin, end = zip(*sides, strict=True)
    places = tuple(places_of(mode, size, *side) for size, side in zip(shape, sides, strict=True))
    return {"pads_begin": begin, "pads_end": end, "mode": mode, "value": value, "places": places}


@pytest.mark.parametrize("mode", PAD_MODES)
def test_pad(mode):
    rng = np.random.default_rng(0)
    for i, (name, (shape, sides)) in enumerate(CASES.items()):
        dtype = ("float32", "uint8", "float16", "int64")[i % 4]
        x, value = random_of(rng, shape, dtype), 7.0 if mode == "constant" else 0.0
        expected = np.pad(x, sides, mode, **({"constant_values": value} if mode == "constant" else {}))
        for plain in (True, False):
            made = everywhere(
                "pad", params_of(shape, sides, mode, value), [x], expected.shape, dtype, seed=i, plain=plain
            )
            for isa, got in made:
                np.testing.assert_array_equal(got, expected, f"{name}, {isa}, {'dense' if plain else 'strided'}")


@pytest.mark.parametrize(
    "change, message",
    [
        ({"places": (np.arange(4), np.array([-1, 0, 1, 2, 3, 3]))}, "places from -1 to 2"),
        ({"places": (np.arange(4), np.array([-1, 0, 2, 1, -1, -1]))}, "places from -1 to 2"),
        ({"places": (np.arange(4), np.arange(3))}, "places from -1 to 2"),
        ({"places": (np.arange(4),)}, "places of 2 axes"),
        ({"mode": "edge"}, "places from 0 to 2"),
        ({"pads_end": (0, 1)}, "output of shape"),
    ],
)
def test_places_that_do_not_fit_are_refused(change, message):
    params = params_of((4, 3), [(0, 0), (1, 2)], "constant") | change
    with pytest.raises(ArgumentError, match=f"step node \\(pad\\): expected .*{message}"):
        run_strided("pad", [np.zeros((4, 3), np.float32)], params, (4, 6), "float32", tables()["ref"])
