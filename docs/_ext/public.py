"""``public``: pipeall's public names of one topic, a table of them and then each with its docstring.

``returned`` documents the types without a public name that the names of a topic give, each on the first page that has
some use of it. All names of ``pipeall.__all__`` have to be of some topic.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

from generated import Generated
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

import pipeall

LOG = logging.getLogger(__name__)


TOPICS = {
    "networks": "load save_onnx with_picture Graph Tensor zoo demo",
    "boards": "Board BoardModel Plan footprint doctor Diagnosis",
    "running": "Model PictureAnswer Picture Pipeline Engine Schedule Stats Crops Merged Tee View",
    "tasks": "tasks",
    "planning": "profile profile_together Profile search SearchResult explain verify Verification compare "
    "compare_modes measure_all simulate Simulation Demand SchedulePlan schedule_search ScheduleSearch "
    "simulate_schedule ScheduleSimulation",
    "quantization": "quantize Quantized prune Pruned write_slices keep_float32 mixed_precision allowed_precisions",
    "sizes": "cost Size",
    "testing": "testing",
    "errors": "PipeallError ArgumentError ModelError DeviceError MissingExtraError PipelineError PipelineTimeoutError",
}
GIVEN = {"networks": ("pipeall.graph.partition.Group", "pipeall.graph.partition.Cut")}  # no annotation leads to them


class Public(Generated):
    """The names of a topic."""

    required_arguments = 1

    def markdown(self) -> str:
        return _documented([f"pipeall.{name}" for name in TOPICS[self.arguments[0]].split()])


class Returned(Generated):
    """Classes that public functions, methods and attributes of a topic give, and that have no public name."""

    required_arguments = 1

    def markdown(self) -> str:
        kinds = returned()[self.arguments[0]]
        return _documented([f"{kind.__module__}.{kind.__qualname__}" for kind in kinds])


def _documented(names: list[str]) -> str:
    rows = "".join(f"   {name}\n" for name in names)
    entries = "".join(_entry(name) for name in names)
    return f"```{{eval-rst}}\n.. autosummary::\n\n{rows}\n{entries}```\n"


def _thing(name: str) -> Any:
    module, _, last = name.rpartition(".")
    return getattr(import_module(module), last)


def _entry(name: str) -> str:
    thing = _thing(name)
    if inspect.isfunction(thing):
        return f".. autofunction:: {name}\n\n"
    if isinstance(thing, ModuleType) and hasattr(thing, "__all__"):  # a room with a face of its own
        members = [f"{name}.{member}" for member in thing.__all__ if callable(getattr(thing, member))]
        return f".. automodule:: {name}\n   :no-members:\n\n" + "".join(map(_entry, members))
    if isinstance(thing, ModuleType):
        own = (member for member in vars(thing).values() if getattr(member, "__module__", "") == thing.__name__)
        functions = (member.__name__ for member in own if inspect.isfunction(member))
        return f".. automodule:: {name}\n\n" + "".join(
            f".. autofunction:: {name}.{function}\n\n" for function in functions if not function.startswith("_")
        )
    kind = "exception" if issubclass(thing, Exception) else "class"
    return f".. auto{kind}:: {name}\n   :members:\n\n"


def returned() -> dict[str, list[type]]:
    """Topic -> its types by name: reached from its public names over results, attributes and fields."""
    known = {id(getattr(pipeall, name)) for name in pipeall.__all__}
    for room in [getattr(pipeall, name) for name in pipeall.__all__]:
        known |= {id(getattr(room, name)) for name in getattr(room, "__all__", ()) if isinstance(room, ModuleType)}
    kinds: dict[str, list[type]] = {}
    for topic, names in TOPICS.items():
        kinds[topic] = [_thing(name) for name in GIVEN.get(topic, ())]
        known |= {id(kind) for kind in kinds[topic]}
        waiting = [*(getattr(pipeall, name) for name in names.split()), *kinds[topic]]
        while waiting:
            for kind in _given(waiting.pop()):
                if kind.__module__.startswith("pipeall") and id(kind) not in known:
                    known.add(id(kind))
                    kinds[topic].append(kind)
                    waiting.append(kind)
        kinds[topic].sort(key=lambda kind: kind.__name__)
    return kinds


def _given(thing: Any) -> Iterator[type]:
    """The classes in the annotations of what a function returns, or of a class's attributes and methods."""
    if inspect.isfunction(thing):
        yield from _classes(_hints(thing).get("return"))
    elif isinstance(thing, ModuleType):
        for name, member in vars(thing).items():
            if inspect.isfunction(member) and not name.startswith("_"):
                yield from _given(member)
    elif inspect.isclass(thing):
        for name, hint in _hints(thing).items():
            if not name.startswith("_"):
                yield from _classes(hint)
        for name, member in vars(thing).items():
            function = getattr(member, "fget", None) or getattr(member, "func", None) or member
            if not name.startswith("_"):
                yield from _given(getattr(function, "__func__", function)) if not inspect.isclass(function) else ()


def _hints(thing: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(thing)
    except NameError:  # a name that is imported for type checkers only
        return {}


def _classes(hint: Any) -> Iterator[type]:
    if inspect.isclass(hint):
        yield hint
    for inner in typing.get_args(hint):
        yield from _classes(inner)


def check(app: Sphinx, env: BuildEnvironment) -> None:
    """Warns of a public name that is of no topic."""
    for name in sorted(set(pipeall.__all__).difference(" ".join(TOPICS.values()).split())):
        LOG.warning("pipeall.%s is public and of no topic: add it to docs/_ext/public.py", name)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("public", Public)
    app.add_directive("returned", Returned)
    app.connect("env-check-consistency", check)
    return {"parallel_read_safe": True}
