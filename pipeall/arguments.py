"""What arguments must be. A rule takes a name and a value; it gives the value as the callee reads it, or raises
ArgumentError in a line: what was expected, what came. ``checked`` puts rules on the parameters of a function."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from inspect import signature
from math import inf
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeVar

from .errors import ArgumentError

MAX_PATH = 4096  # characters
Rule = Callable[[str, Any], Any]
Function = TypeVar("Function", bound=Callable[..., Any])


def checked(**rules: Rule) -> Callable[[Function], Function]:
    """A function whose arguments of these names go through these rules; defaults as well."""

    def decorate(function: Function) -> Function:
        known = signature(function)
        assert rules.keys() <= known.parameters.keys(), (function, rules)

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            bound = known.bind(*args, **kwargs)
            bound.apply_defaults()
            for name, rule in rules.items():
                bound.arguments[name] = rule(name, bound.arguments[name])
            return function(*bound.args, **bound.kwargs)

        return call  # type: ignore[return-value]

    return decorate


def refused(name: str, expected: str, value: Any) -> ArgumentError:
    """The error of a rule."""
    return ArgumentError(f"{name}: expected {expected}, got {shown(value)}")


def shown(value: Any) -> str:
    """A value, as an error shows it: in one short line, whatever it is."""
    try:
        text = repr(value)
    except Exception:  # of a class that anybody may have written
        text = type(value).__name__
    text = text if len(text) <= 100 else f"{type(value).__name__} {text[:80]}..."
    return " ".join(text.split())


def whole(low: int, high: float = inf) -> Rule:
    """An integer, Python's or NumPy's: an int."""
    expected = f"a whole number of at least {low}" if high == inf else f"a whole number from {low} to {high}"

    def rule(name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, Integral) or not low <= value <= high:
            raise refused(name, expected, value)
        return int(value)

    return rule


def number(low: float = -inf, high: float = inf, above: bool = False) -> Rule:
    """A finite number, Python's or NumPy's: an int or a float. ``above``: the lowest does not count."""
    if above:
        expected = f"a number above {low:g}{'' if high == inf else f', at most {high:g}'}"
    elif high < inf:
        expected = f"a number from {low:g} to {high:g}"
    else:
        expected = "a finite number" if low == -inf else f"a finite number of at least {low:g}"

    def rule(name: str, value: Any) -> int | float:
        if isinstance(value, bool) or not isinstance(value, Real):
            raise refused(name, expected, value)
        try:
            real = float(value)
        except OverflowError:
            raise refused(name, expected, value) from None
        if not low <= real <= high or abs(real) == inf or (above and real == low):
            raise refused(name, expected, value)
        return int(value) if isinstance(value, Integral) else real

    return rule


def seconds(name: str, value: Any) -> float:
    """How long to wait: any number but NaN, or None for ever."""
    if value is None:
        return inf
    if isinstance(value, bool) or not isinstance(value, Real) or value != value:
        raise refused(name, "a number of seconds, or None", value)
    return inf if value > 1e9 else float(value)


def optional(rule: Rule) -> Rule:
    """None, or what a rule says."""
    return lambda name, value: None if value is None else rule(name, value)


def a(kind: type | tuple[type, ...], expected: str) -> Rule:
    """An instance of a class; ``expected`` in words."""

    def rule(name: str, value: Any) -> Any:
        if not isinstance(value, kind):
            raise refused(name, expected, value)
        return value

    return rule


def is_switch(value: Any) -> bool:
    return type(value).__name__ in ("bool", "bool_")  # NumPy's, before and after version 2, without importing it


def switch(name: str, value: Any) -> bool:
    """True or False, Python's or NumPy's."""
    if not is_switch(value):
        raise refused(name, "True or False", value)
    return bool(value)


def one_of(*words: str) -> Rule:
    """One of some words."""

    def rule(name: str, value: Any) -> str:
        if not isinstance(value, str) or value not in words:
            raise refused(name, f"one of {', '.join(words)}", value)
        return value

    return rule


def path(name: str, value: Any) -> Path:
    """The path of a file or folder."""
    if not isinstance(value, (str, os.PathLike)):
        raise refused(name, "a path", value)
    text = os.fspath(value)
    if not isinstance(text, str) or "\0" in text or len(text) > MAX_PATH:
        raise refused(name, "a path", value)
    return Path(text)


def text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise refused(name, "text", value)
    return value


def several(rule: Rule, expected: str) -> Rule:
    """A list, or whatever else is gone through once, but no text: a tuple of what the rule says of each."""

    def each(name: str, value: Any) -> tuple[Any, ...]:
        if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
            raise refused(name, expected, value)
        try:
            return tuple(rule(name, entry) for entry in value)
        except (ArgumentError, TypeError):  # an entry, or an array without axes
            raise refused(name, expected, value) from None

    return each


def by_name(rule: Rule, expected: str) -> Rule:
    """A dict with names as keys: one of what the rule says of each value."""

    def through(name: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise refused(name, expected, value)
        return {key: rule(f"{name} of {key}", entry) for key, entry in value.items()}

    return through


def gone_through(name: str, value: Any) -> Any:
    """What frames come from, one after the other; nothing is taken from it yet."""
    if (
        isinstance(value, (str, bytes, Mapping, type))
        or not (hasattr(value, "__iter__") or hasattr(value, "__getitem__"))
        or getattr(value, "ndim", 1) == 0
    ):
        raise refused(name, "frames, one after the other", value)
    return value


def function(name: str, value: Any) -> Callable[..., Any]:
    if not callable(value):
        raise refused(name, "a function", value)
    return value
