"""``public``: some of pipeall's public names, a table of them and then each with its docstring.

All names of ``pipeall.__all__`` have to be on some page. ``returned`` documents the types that they give.
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


class Public(Generated):
    """The names that are its content."""

    has_content = True

    def markdown(self) -> str:
        names = " ".join(self.content).split()
        shown_names(self.env).setdefault(self.env.docname, set()).update(names)
        return _documented([f"pipeall.{name}" for name in names])


class Returned(Generated):
    """Classes of this package that public functions, methods and attributes give, and that have no public name.

    Its content names some that no annotation leads to.
    """

    has_content = True

    def markdown(self) -> str:
        named = [_thing(name) for name in " ".join(self.content).split()]
        return _documented([f"{kind.__module__}.{kind.__qualname__}" for kind in returned(named)])


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


def returned(named: list[type]) -> list[type]:
    """Sorted by name; reached from the public names, and those that are named, over results, attributes and fields."""
    public = {id(getattr(pipeall, name)) for name in pipeall.__all__}
    for room in [getattr(pipeall, name) for name in pipeall.__all__]:
        public |= {id(getattr(room, name)) for name in getattr(room, "__all__", ()) if isinstance(room, ModuleType)}
    found = {kind.__name__: kind for kind in named}
    waiting = [*(getattr(pipeall, name) for name in pipeall.__all__), *named]
    while waiting:
        for kind in _given(waiting.pop()):
            if kind.__module__.startswith("pipeall") and id(kind) not in public and kind.__name__ not in found:
                found[kind.__name__] = kind
                waiting.append(kind)
    return [found[name] for name in sorted(found)]


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


def shown_names(env: BuildEnvironment) -> dict[str, set[str]]:
    """Page -> public names on it."""
    if not hasattr(env, "public_names"):
        env.public_names = {}
    return env.public_names


def forget(app: Sphinx, env: BuildEnvironment, page: str) -> None:
    shown_names(env).pop(page, None)


def check(app: Sphinx, env: BuildEnvironment) -> None:
    """Warns of a public name that is on no page."""
    for name in sorted(set(pipeall.__all__).difference(*shown_names(env).values())):
        LOG.warning("pipeall.%s is public and on no page: add it to a `public` block of docs/reference/api.md", name)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("public", Public)
    app.add_directive("returned", Returned)
    app.connect("env-purge-doc", forget)
    app.connect("env-check-consistency", check)
    return {"parallel_read_safe": False}
