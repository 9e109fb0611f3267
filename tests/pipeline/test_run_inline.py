"""Inline execution: an engine's calling thread computes the frame, and reads the input where it lies."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from graphs import Net, frames, small_net

from pipeall import ArgumentError, Engine, Pipeline
from pipeall.graph.lower.lower import lower
from pipeall.pipeline.border import Entry
from pipeall.pipeline.lane import read_in_place


def picture_net():
    """Its input is copied first, as a kernel wants the channels of a pixel together."""
    net = Net((1, 3, 17, 19))
    return net.graph(net.conv(net.conv("x0", 8, k=3), 5))


def test_the_calling_thread_computes(board):
    graph = small_net()
    (x,) = frames(graph, 1)
    with Pipeline(graph, "big", board=board) as pipe:
        entry = Entry([(0, x.reshape(-1))], ())
        assert not pipe.lanes.run_inline(entry)  # nobody knows yet how long a frame takes
        pipe.submit(x)
        first = pipe.result()
        computed = 0
        for _ in range(20):  # on a loaded machine a frame may take long
            done = pipe.lanes.run_inline(entry)
            assert done or pipe.submit(x)
            assert not (done and pipe.lanes.run_inline(entry))  # another frame is under way
            assert np.array_equal(pipe.result(), first)
            computed += done
        assert computed
    assert not pipe.lanes.run_inline(entry)


def test_a_single_long_frame_changes_nothing(board):
    graph = small_net()
    (x,) = frames(graph, 1)
    entry = Entry([(0, x.reshape(-1))], ())
    with Pipeline(graph, "big", board=board) as pipe:

        def compute(pace_ms: float) -> bool:
            pipe.lanes.all[0].set_paces([pace_ms])
            done = pipe.lanes.run_inline(entry)
            assert done or pipe.submit(x)
            pipe.result()
            return done

        compute(0.0)
        after_one = []
        for _ in range(10):  # on a loaded machine further frames may take long
            compute(0.0), compute(0.0), compute(30.0)
            after_one.append(compute(0.0))
        assert any(after_one)
        compute(30.0), compute(30.0)
        assert not compute(0.0)


def test_what_is_read_in_place():
    """What is copied, and what kernels read that touch nothing beside it."""
    assert read_in_place(lower(picture_net())) == 4 * 3 * 17 * 19
    net = Net((1, 1, 8, 8))  # whose layouts are one: a kernel reads it
    assert read_in_place(lower(net.graph(net.conv("x0", 4, k=3)))) == 0
    net = Net((1, 1, 8, 8))
    assert read_in_place(lower(net.graph(net.op("abs", "x0")))) == 4 * 8 * 8
    sides = {"pads_begin": (0, 0, 1, 1), "pads_end": (0, 0, 1, 1)}
    net = Net((1, 1, 8, 20))
    assert read_in_place(lower(net.graph(net.op("pad", "x0", **sides)))) == 4 * 8 * 20
    net = Net((1, 3, 4, 4), (1, 3, 4, 4))
    assert read_in_place(lower(net.graph(net.op("concat", "x0", "x1")))) == 0


@pytest.mark.parametrize("threads", [1, None])
def test_an_input_may_lie_anywhere(threads, board):
    graph = picture_net()
    with Pipeline(graph, "bigx1" if threads else "big", board=board) as pipe:
        for x in frames(graph, 5):
            (expected,) = pipe.map([x])
            crooked = np.frombuffer(b"\0" + x.tobytes(), np.float32, offset=1).reshape(x.shape)
            swapped = np.ascontiguousarray(x.swapaxes(2, 3)).swapaxes(2, 3)
            before = x.copy()
            for given in (x, crooked, swapped, {graph.inputs[0].name: x}):
                assert np.array_equal(pipe.compute(given), expected)
            assert np.array_equal(x, before)


BESIDE_GUARDS = """
import ctypes, mmap
import numpy as np
from graphs import Net
from pipeall import Engine

PAGE = mmap.PAGESIZE


def guarded(x, at_end):
    \"\"\"A copy between two pages that nobody may read, which begins, or ends, at one.\"\"\"
    pages = -(-x.nbytes // PAGE)
    memory = mmap.mmap(-1, (pages + 2) * PAGE)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for page in (0, pages + 1):
        assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(begin + page * PAGE), PAGE, 0) == 0
    copy = np.ndarray(x.shape, x.dtype, memory, PAGE + (pages * PAGE - x.nbytes if at_end else 0))
    copy[...] = x
    return copy


def graphs():
    window = {"strides": (2, 2), "pads": (1, 1, 1, 1)}
    for size in (9, 64, 75):
        for op, attrs in (
            ("abs", {}), ("sigmoid", {}), ("maxpool", window | {"kernel": (3, 3)}), ("maxpool", {"kernel": (2, 2)}),
            ("avgpool", window | {"kernel": (3, 3)}), ("transpose", {"perm": (0, 1, 3, 2)}),
            ("slice", {"axis": 3, "start": 1, "stop": 8}),
            ("pad", {"pads_begin": (0, 0, 1, 3), "pads_end": (0, 0, 0, 2), "mode": "reflect"}),
        ):
            net = Net((1, 1, size, size + 1))
            yield net.graph(net.op(op, "x0", **attrs))


for graph in graphs():
    x = np.random.default_rng(0).standard_normal(graph.inputs[0].shape).astype(np.float32)
    with Engine(graph, "big", threads=1) as engine:
        expected = engine(x)
        for at_end in (False, True):
            for _ in range(5):
                assert np.array_equal(engine(guarded(x, at_end)), expected)
print("done")
"""


def test_nothing_beside_an_input_is_read():
    """In a process of its own, which a read ends."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", BESIDE_GUARDS], env=env, capture_output=True, text=True)
    assert ran.stdout == "done\n", (ran.returncode, ran.stderr[-3000:])


def test_results_stay(board):
    """A large one is computed where it stays: no later frame writes there, nor does the end."""
    net = Net((1, 1, 96, 96))
    graph = net.graph(net.op("abs", "x0"))
    inputs = frames(graph, 12)
    with Engine(graph, "big", board=board) as engine:
        results = [engine(x) for x in inputs]
        with pytest.raises(ArgumentError):
            engine(inputs[0][0])
        results.append(engine(inputs[0]))
    for x, y in zip([*inputs, inputs[0]], results, strict=True):
        assert y.flags.writeable and y.ctypes.data % 4 == 0
        np.testing.assert_array_equal(y, np.abs(x))


def test_a_thread_is_as_it_was(board):
    """It may run where it could before; a core that the engine has, and it has not, is one for the time of a call."""
    graph = small_net()
    (x,) = frames(graph, 1)
    cores = sorted(os.sched_getaffinity(0))
    with Engine(graph, "big", board=board) as engine:
        expected = engine(x)

        def call(allowed):
            os.sched_setaffinity(0, allowed)
            for _ in range(50):
                assert np.array_equal(engine(x), expected)
                assert os.sched_getaffinity(0) == allowed
            done.append(allowed)

        done = []
        for allowed in ({cores[0]}, {cores[-1]}, set(cores)):
            thread = threading.Thread(target=call, args=(allowed,))
            thread.start()
            thread.join()
        assert len(done) == 3
