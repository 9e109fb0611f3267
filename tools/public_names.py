"""Every name that users type: Python's, with parameters and members, commands with options, extras, variables.

python -m tools.public_names > tests/house/public_names.txt     at a release: from then on they may not vanish
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import click
import tomllib

import pipeall
from pipeall.cli.app import app
from pipeall.env import VARIABLES

ROOT = Path(__file__).resolve().parents[1]


def of_python() -> Iterator[str]:
    for name in pipeall.__all__:
        yield from _of(f"pipeall.{name}", getattr(pipeall, name))


def _of(name: str, value: object) -> Iterator[str]:
    yield name
    if isinstance(value, ModuleType):
        for inner in getattr(value, "__all__", ()):
            yield from _of(f"{name}.{inner}", getattr(value, inner))
    elif inspect.isclass(value):
        own = [
            base for base in value.__mro__ if base.__module__.startswith("pipeall")
        ]  # not what Python's own classes have
        members = {member for base in own for member in (*vars(base), *getattr(base, "__annotations__", ()))}
        for member in sorted(member for member in members if not member.startswith("_")):
            yield f"{name}.{member}"
            yield from _parameters(f"{name}.{member}", getattr(value, member, None))
        if not issubclass(value, Exception):
            yield from _parameters(name, value)
    else:
        yield from _parameters(name, value)


def _parameters(name: str, value: object) -> Iterator[str]:
    if inspect.isfunction(value) or inspect.ismethod(value) or inspect.isclass(value):
        for parameter in inspect.signature(value).parameters.values():
            if parameter.name != "self" and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                yield f"{name}({parameter.name})"


def of_commands(command: click.Command = app, path: str = "pipeall") -> Iterator[str]:
    yield path
    for option in command.params:
        if isinstance(option, click.Option):
            yield from (f"{path} {word}" for word in (*option.opts, *option.secondary_opts))
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=path)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner
            yield from of_commands(inner, f"{path} {name}")


def of_install() -> Iterator[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    yield from (f"pipeall[{extra}]" for extra in project["optional-dependencies"])
    yield from (variable.name for variable in VARIABLES)


def public_names() -> list[str]:
    return sorted({*of_python(), *of_commands(), *of_install()})


if __name__ == "__main__":
    print(*public_names(), sep="\n")
