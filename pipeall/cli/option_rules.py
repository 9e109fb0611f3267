"""Options of the command line as keys of a file: what a value there must be follows from the option's own type."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import click

from ..arguments import MAX_PATH, Rule, number, one_of, refused, whole
from ..errors import ArgumentError


def rules_of(*decorators: Callable) -> dict[str, Rule]:
    """What the options that these add to a command must be, each by its name."""

    def command() -> None:
        """Holds the options."""

    for decorator in decorators:
        decorator(command)
    params: list[click.Option] = getattr(command, "__click_params__", [])
    return {param.name: _rule(param.type) for param in params if param.name and param.expose_value}


def filled(name: str, value: Any) -> str:
    """A rule: text, not empty, as it may name a file."""
    if not isinstance(value, str) or not value or "\0" in value or len(value) > MAX_PATH:
        raise refused(name, "text", value)
    return value


def _rule(kind: click.ParamType) -> Rule:
    if isinstance(kind, click.Choice):
        return one_of(*kind.choices)
    if isinstance(kind, click.FloatRange):
        return number(-inf if kind.min is None else kind.min, inf if kind.max is None else kind.max, kind.min_open)
    if isinstance(kind, click.types.FloatParamType):
        return number()
    if type(kind) is click.IntRange:  # and no type of ours, which takes words too
        return whole(int(kind.min or 0), inf if kind.max is None else kind.max)
    if isinstance(kind, click.types.StringParamType):
        return filled

    def converted(name: str, value: Any) -> Any:
        """By the option's own type, of the text that it takes; a list is its parts."""
        parts = value if isinstance(value, list) else [value]
        if not parts or not all(type(part) in (str, int, float) for part in parts):
            raise refused(name, "text, a number or a list of numbers", value)
        try:
            return kind.convert(",".join(map(str, parts)), None, None)
        except click.UsageError as error:
            raise ArgumentError(f"{name}: {error.message}") from None

    return converted
