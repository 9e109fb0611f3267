"""The kernels of pictures, on every instruction set, over the cases of the table; sides up to the largest."""

from dataclasses import replace

import numpy as np
import pytest
from bounds import bound
from strided_steps import run_strided, tables

from pipeall import ArgumentError
from pipeall.graph.cases.op_cases import CASES, case_graph
from pipeall.graph.lower.lower import lower
from pipeall.graph.ops import run_graph
from pipeall.picture import EXAMPLE_WORDS, MAX_SIDE, Picture, Placed, described, frame_of

TABLES = tables()
IN_C_ORDER = {"NCHW": (1, 2, 0), "NHWC": (0, 1, 2)}


def step_of(case):
    graph, inputs = case_graph(case)
    return graph, inputs, lower(graph).steps[0]


@pytest.mark.parametrize("isa", TABLES)
def test_every_case(isa):
    """Laid out at random, and side by side as networks read it, where it has code of its own."""
    for seed, case in enumerate(CASES["picture"]):
        graph, inputs, step = step_of(case)
        expected = run_graph(graph, inputs)["y"]
        order = IN_C_ORDER[case.attrs["layout"]]
        wanted, allowed = (a[0].transpose(order) for a in (expected, bound(graph, inputs, expected)))
        for layout in (seed, None):
            found = [
                run_strided("picture", [EXAMPLE_WORDS], step.params, step.dst.shape, "float32", TABLES[isa],
                            cores=(-1,) * threads, seed=layout, constants=(0,))
                for threads in (1, 3)
            ]  # fmt: skip
            error = np.abs(found[0] - wanted)
            assert (error <= allowed).all(), f"{case}: error {error.max():.3g}, allowed {allowed.min():.3g}"
            assert found[0].tobytes() == found[1].tobytes(), f"{case}: three threads give another result"


@pytest.mark.parametrize("kind", ["bilinear", "antialias", "area", "nearest"])
@pytest.mark.parametrize("shape", [(2, MAX_SIDE, 3), (MAX_SIDE, 2, 3)])
def test_the_largest_sides(kind, shape):
    """Tables and rows have room for them, whatever is shown of the picture."""
    rng, picture = np.random.default_rng(3), Picture(filter=kind)
    rows, size = frame_of(rng.integers(0, 256, shape, dtype=np.uint8), "RGB")
    case = next(c for c in CASES["picture"] if c.attrs["picture"].frames == "RGB" and len(c.attrs["factors"]) == 3)
    case = replace(case, attrs={**case.attrs, "picture": picture})
    graph, _, step = step_of(case)
    h, w, _ = step.dst.shape
    for placed in (picture.placed(size, (h, w)), Placed(size, (0.5, 0.5, 1.0, size[1] - 1.0), (3, 5, 1, w - 9))):
        words = described(rows, size, placed)
        expected = run_graph(graph, {"x0": words})["y"][0].transpose(IN_C_ORDER[case.attrs["layout"]])
        found = run_strided("picture", [words], step.params, (h, w, 3), "float32", next(iter(TABLES.values())))
        assert np.abs(found - expected).max() <= 0.01


def test_steps_that_do_not_fit_are_refused():
    _, _, step = step_of(CASES["picture"][0])
    table = next(iter(TABLES.values()))
    for words, shape, dtype, message in (
        (EXAMPLE_WORDS[:14], (4, 5, 3), "float32", "expected 18 words"),
        (EXAMPLE_WORDS.astype(np.int32), (4, 5, 3), "float32", "expected 18 words"),
        (EXAMPLE_WORDS, (4, 5, 2), "float32", r"expected a result of \(H, W, 1 or 3\)"),
        (EXAMPLE_WORDS, (4, 5, 3), "uint8", r"expected a result of \(H, W, 1 or 3\)"),
        (EXAMPLE_WORDS, (4, MAX_SIDE + 1, 1), "float32", f"expected sides up to {MAX_SIDE}"),
    ):
        with pytest.raises(ArgumentError, match=message):
            run_strided("picture", [words], step.params, shape, dtype, table)
