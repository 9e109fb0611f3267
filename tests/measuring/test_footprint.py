"""The memory that a plan is said to take, against the growth of a process that runs it."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from build_trees import REPOSITORY

from pipeall import ArgumentError, Board, DeviceError, zoo
from pipeall.pipeline.measuring.footprint import footprint

RUN = """
import ctypes, gc, json, re, sys
sys.path.insert(0, sys.argv[3])
from dataclasses import replace
import numpy as np
from graphs import Net
from pipeall import Board, Pipeline, zoo
from pipeall.pipeline.measuring.footprint import footprint

def status(key):
    return 1024 * int(re.search(key + r":\\s+(\\d+)", open("/proc/self/status").read())[1])

detected = Board.detect(gpu=False)
cluster = detected.component("big").device.cluster  # thrice the same cores: memory is what counts
board = Board([replace(cluster, name=name) for name in ("big", "mid", "little")], gpu=False)
net = Net((1, 16, 32, 32))
first = net.graph(net.conv(net.conv("x0", 32, k=3), 8))
with Pipeline(first, "big", board) as pipe:  # modules, libraries and the first of everything
    list(pipe.map([np.zeros((1, 16, 32, 32), np.float32)] * 3))
del pipe
graph = getattr(zoo, sys.argv[1])()
third = len(graph.groups) // 3
plan = sys.argv[2] + (f":{third},{2 * third}" if "-" in sys.argv[2] else "")
frames = [np.ones(graph.inputs[0].shape, np.float32)] * 5
predicted = sum(stage.total for stage in footprint(graph, plan, board))
gc.collect()
ctypes.CDLL(None).malloc_trim(0)
before = status("VmRSS")
open("/proc/self/clear_refs", "w").write("5")  # the peak starts anew
with Pipeline(graph, plan, board) as pipe:
    list(pipe.map(frames))
print(json.dumps({"predicted": predicted, "grown": status("VmHWM") - before}))
"""


@pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(),
    reason="/proc/self/clear_refs, which starts the peak anew, is of Linux only",
)
@pytest.mark.parametrize("plan", ["B", "B-M-L", "B-L-B", "B+L"])
@pytest.mark.parametrize("name", ["alexnet", "googlenet", "mobilenet", "resnet50", "squeezenet"])
def test_a_process_grows_by_what_is_predicted(name, plan):
    """Within a tenth: what else grows are heap fragments and thread stacks."""
    command = [sys.executable, "-c", RUN, name, plan, REPOSITORY / "tests/support"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["predicted"] == pytest.approx(found["grown"], rel=0.10), found


def test_what_each_stage_holds():
    """Weights at least as many as the model's, arenas as lowered, two slots a ring and four before the first stage."""
    board = Board.detect(gpu=False)
    graph = zoo.squeezenet()
    (engine,) = footprint(graph, "big", board)
    weights = 4 * sum(array.size for array in graph.constants.values())
    assert weights < engine.weights < 4 * weights and engine.groups == (0, len(graph.groups))
    assert engine.rings == 2 * 4 * (150528 + 16 + 1000 + 24)  # each tensor in whole lines and one more
    deeper = footprint(graph, "big", board, slots=3, depth=5)[0]
    assert deeper.rings == 5 * engine.rings // 2 - 2 * 4 * 1024
    assert engine.total == engine.weights + engine.arena + engine.scratch + engine.rings + engine.overhead


def test_stages_of_one_unit_share_the_largest_arena():
    cluster = Board.detect(gpu=False).component("big").device.cluster
    board = Board([replace(cluster, name=name) for name in ("big", "mid", "little")], gpu=False)
    graph = zoo.squeezenet()
    apart, shared = (footprint(graph, plan, board) for plan in ("B-L-M:5,12", "B-L-B:5,12"))
    first, middle, last = (stage.arena for stage in apart)
    assert first > last > 0  # pictures are largest at the start
    assert [stage.arena for stage in shared] == [first, middle, 0]
    wider = footprint(graph, "B-L-M:5,12", board, slots=4)  # two slots more: stages of a unit do not come in turn
    assert [(stage.weights, stage.rings) for stage in shared] == [(stage.weights, stage.rings) for stage in wider]


def test_lanes_share_packed_weights():
    cluster = Board.detect(gpu=False).component("big").device.cluster
    board = Board([replace(cluster, name=name) for name in ("big", "little")], gpu=False)
    (alone,), (first, second) = (footprint(zoo.squeezenet(), plan, board) for plan in ("B", "B+L"))
    assert first == alone and second.arena == alone.arena
    assert second.weights < alone.weights / 20  # what is not packed


@pytest.mark.parametrize("plan, error, words", [("B-L:99", ArgumentError, "99"), ("M", DeviceError, "mid")])
def test_a_plan_that_does_not_fit(plan, error, words):
    with pytest.raises(error, match=re.escape(words)):
        footprint(zoo.squeezenet(), plan, Board.detect(gpu=False))
