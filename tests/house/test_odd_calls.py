"""Whatever one gives to the public calls: a result, or a PipeallError in a line; no raw error, no call that hangs.

Every parameter of every call gets every odd value in turn, the others are as they should be.
"""

import inspect
import signal
from collections import deque
from collections.abc import Callable
from fractions import Fraction
from inspect import signature
from pathlib import Path

import numpy as np
import pytest
from graphs import frames, picture_net, small_net

import pipeall
from pipeall import Board, Engine, Graph, Picture, PipeallError, Pipeline, Plan, Profile, Tensor, tasks, zoo
from pipeall.graph.onnx.write.write import onnx_bytes
from pipeall.pipeline import realtime

LIMIT_S = 20  # that a call may take


class Hostile:
    """Nothing can be asked of it."""

    def __repr__(self):
        raise RuntimeError("no text")

    def __eq__(self, other):
        raise RuntimeError("no equal")

    __hash__ = None


ODD: dict[str, Callable[[], object]] = {
    "None": lambda: None,
    "True": lambda: True,
    "0": lambda: 0,
    "-1": lambda: -1,
    "2.5": lambda: 2.5,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "-inf": lambda: float("-inf"),
    "1e300": lambda: 1e300,
    "10**30": lambda: 10**30,
    "10**400": lambda: 10**400,
    "1j": lambda: 1j,
    "1/3": lambda: Fraction(1, 3),
    "np.int64(1)": lambda: np.int64(1),
    "np.float32(nan)": lambda: np.float32("nan"),
    "np.bool_": lambda: np.bool_(True),
    "array(1.0)": lambda: np.array(1.0),
    "array": lambda: np.zeros((2, 3)),
    "array of objects": lambda: np.array([None, "a"], object),
    "''": lambda: "",
    "text": lambda: "nonsense",
    "NUL": lambda: "a\0b",
    "surrogate": lambda: "\udc80",
    "long text": lambda: "x" * 5000,
    "bytes": lambda: b"bytes",
    "path": lambda: Path("nowhere/at/all.json"),
    "[]": list,
    "[None]": lambda: [None],
    "[[]]": lambda: [[]],
    "[1, 'a']": lambda: [1, "a"],
    "{}": dict,
    "{1: 2}": lambda: {1: 2},
    "{'a': None}": lambda: {"a": None},
    "set": lambda: {1},
    "generator": lambda: (i for i in range(2)),
    "function": lambda: lambda *given: None,
    "class": lambda: Engine,
    "object": object,
    "hostile": Hostile,
}


@pytest.fixture(autouse=True)
def not_locked(monkeypatch):
    """``realtime`` would lock the memory of this process, and of all tests after these."""
    monkeypatch.setattr(realtime, "lock_refused", lambda: None)


class Calls:
    """The public calls, each with arguments that are as they should be."""

    def __init__(self, folder: Path, board: Board):
        self.graph, self.x = small_net(), frames(small_net(), 1)[0]
        self.plan, self.board, self.modelled = Plan.parse("big-little:2"), board, Board.load("rk3588")
        self.pipe, self.engine = Pipeline(self.graph, self.plan, board), Engine(self.graph, "big", board)
        self.paced = Pipeline(self.graph, "big", self.modelled)
        self.seeing = Pipeline(picture_net((8, 8)), "big", board, input=Picture())
        self.calls = self.of_networks() | self.of_plans(folder) | self.of_pipelines()

    def of_networks(self) -> dict[Callable, dict[str, object]]:
        graph, seen = self.graph, picture_net((8, 8))
        return {
            pipeall.load: {"model": onnx_bytes(graph), "input_shape": graph.inputs[0].shape},
            pipeall.cost: {"network": graph},
            pipeall.keep_float32: {"graph": graph, "names": []},
            pipeall.quantize: {"model": graph, "samples": [self.x, self.x], "method": "minmax"},
            tasks.task: {"graph": seen, "decoder": "segment"},
            tasks.recognized: {"graph": seen},
            zoo.squeezenet: {},
            pipeall.demo.text_reader: {},
            graph.finer: {"max_crossing": 2},
            Picture: {},
            Tensor: {"name": "x", "shape": (1,)},
        } | self.of_answers(seen)

    def of_answers(self, seen: Graph) -> dict[Callable, dict[str, object]]:
        find, size = tasks.task(seen, "segment"), pipeall.cost(self.graph)
        placed, picture = Picture().placed((9, 9), (8, 8)), np.zeros((90, 90, 3), np.uint8)
        outputs = np.zeros(seen.outputs[0].shape, np.float32)
        corners = ((10.0, 10.0), (50.0, 10.0), (50.0, 20.0), (10.0, 20.0))
        return {
            find.__call__: {"outputs": outputs, "placed": placed},
            find(outputs, placed).to_coco: {"image_id": 1},
            Picture().placed: {"picture": (9, 9), "size": (8, 8)},
            placed.to_picture: {"points": [[1.0, 2.0]]},
            placed.to_input: {"points": [[1.0, 2.0]]},
            tasks.cut_out: {"picture": picture, "corners": corners},
            size.memory: {"batch": 2},
            size.largest_batch: {"memory": 1e9},
        }

    def of_plans(self, folder: Path) -> dict[Callable, dict[str, object]]:
        graph, plan, modelled = self.graph, self.plan, self.modelled
        profile = modelled.model.profile(graph)
        profile.save(folder / "profile.json")
        plan.save(folder / "plan.json")
        return {
            pipeall.profile: {"graph": graph, "board": modelled, "units": ["big"], "seconds": 0.0},
            pipeall.search: {"graph": graph, "profile": profile},
            pipeall.simulate: {"profile": profile, "plan": plan, "frames": 5},
            pipeall.verify: {"result": pipeall.search(graph, profile), "board": self.board, "seconds": 0.0},
            Plan.parse: {"text": "big"},
            Plan.single: {"component": "big"},
            Plan.parallel: {"components": ["big", "little"]},
            Plan.pipeline: {"order": ["big", "little"], "cuts": [1]},
            Plan.balanced: {"order": ["big", "little"], "graph": graph},
            Plan: {"lanes": plan.lanes},
            plan.save: {"path": folder / "file.json"},
            Plan.load: {"path": folder / "plan.json"},
            plan.check_network: {"graph": graph},
            plan.made_for: {"graph": graph},
            profile.save: {"path": folder / "file.json"},
            Profile.load: {"path": folder / "profile.json"},
            profile.check_network: {"graph": graph},
        }

    def of_pipelines(self) -> dict[Callable, dict[str, object]]:
        graph, board, x, picture = self.graph, self.board, self.x, np.zeros((9, 9, 3), np.uint8)
        return {
            Board.detect: {"gpu": False},
            Board.load: {"name": "rk3588"},
            board.component: {"key": "big"},
            Engine: {"graph": graph, "component": "big", "board": board},
            self.engine.__call__: {"x": x},
            Pipeline: {"graph": graph, "plan": self.plan, "board": board},
            self.pipe.submit: {"x": x},
            self.pipe.compute: {"x": x},
            self.pipe.result: {},
            self.pipe.map: {"frames": [x]},
            self.pipe.stream: {"source": [x], "drop": "none"},
            self.pipe.stats: {},
            self.seeing.compute: {"x": picture},
            self.seeing.stream: {"source": [picture], "task": lambda outputs, placed: 1},
            self.paced.throttle: {"component": "big", "factor": 2.0},
        }

    def ready(self, call: Callable) -> None:
        """The pipelines are empty; one that shall give a result has a frame."""
        for pipe in (self.pipe, self.seeing):
            while pipe.pending:
                pipe.result()
        if call == self.pipe.result:
            self.pipe.submit(self.x)

    def close(self):
        for one in (self.pipe, self.paced, self.seeing, self.engine):
            one.close()


@pytest.fixture(scope="module")
def calls(tmp_path_factory, board):
    made = Calls(tmp_path_factory.mktemp("odd"), board)
    yield made
    made.close()


def used(result: object) -> None:
    """What is made is used, gone through and closed."""
    if isinstance(result, (Pipeline, Engine)):
        with result:
            result.stats()
    elif inspect.isgenerator(result) or hasattr(result, "__next__"):
        for _ in zip(result, range(3), strict=False):
            pass
        result.close()
    else:
        repr(result)


def what_is_wrong(call: Callable, given: dict[str, object]) -> str | None:
    """None where it gives a result or says in one line why not."""

    def too_long(*_):
        raise TimeoutError(f"no end within {LIMIT_S} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(LIMIT_S)
    try:
        used(call(**given))
    except PipeallError as error:
        text = str(error)
        return None if text and "\n" not in text and len(text) < 1200 else f"a message of {text.splitlines()!r:.300}"
    except BaseException as error:
        return f"{type(error).__name__}: {error!s:.200}"
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return None


def test_no_odd_argument_raises_what_is_no_error_of_ours(calls, some, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # odd paths are written to as well
    wrong, count, waiting = [], 0, deque(ODD.items())
    for call, good in calls.calls.items():
        for name in signature(call).parameters:
            waiting.rotate()  # where each parameter gets some of the values, the next one gets others
            for odd, make in some(waiting):
                calls.ready(call)
                count += 1
                if problem := what_is_wrong(call, good | {name: make()}):
                    wrong.append(f"{call.__qualname__}({name}={odd}): {problem}")
    print(count)
    assert not wrong, "\n".join([f"{len(wrong)} of {count}", *wrong])


def test_good_arguments_are_taken(calls):
    """That the calls above are refused for what is odd in them alone."""
    for call, good in calls.calls.items():
        calls.ready(call)
        try:
            used(call(**good))
        except pipeall.MissingExtraError:
            assert call is pipeall.demo.text_reader
        except PipeallError as error:
            assert call in (pipeall.verify,), (call, error)
