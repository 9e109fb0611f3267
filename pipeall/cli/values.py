"""The option --value, which gives inputs of a model their values before it is read."""

from __future__ import annotations

from typing import Any

import click

VALUES = f"{__name__}.given"  # of a context's ``meta``


class InputValue(click.ParamType):
    """An input's value: "sr=16000", or several numbers, "size=720,1280". Converted: ("sr", 16000)."""

    name = "value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Any]:
        if isinstance(value, tuple):
            return value
        name, _, text = value.rpartition("=")
        try:
            numbers = [self._number(w) for w in text.split(",")]
        except ValueError:
            numbers = []
        if not (name and numbers):
            self.fail(f"expected an input and its value, such as sr=16000 or size=720,1280, got {value!r}", param, ctx)
        return name, numbers if "," in text else numbers[0]

    @staticmethod
    def _number(word: str) -> bool | int | float:
        if word.lower() in ("true", "false"):
            return word.lower() == "true"
        try:
            return int(word)
        except ValueError:
            return float(word)


def _kept_values(context: click.Context, option: click.Parameter, values: tuple[tuple[str, Any], ...]) -> None:
    context.meta[VALUES] = dict(values)


value_option = click.option(
    "--value",
    type=InputValue(),
    multiple=True,
    expose_value=False,
    is_eager=True,
    callback=_kept_values,
    metavar="INPUT=NUMBER",
    help="Value of an input, sr=16000 or size=720,1280, which is then a constant of the network; may be repeated.",
)


def given_values() -> dict[str, Any]:
    """What --value gives in the command that runs, by input name."""
    context = click.get_current_context(silent=True)
    return {} if context is None else context.meta.get(VALUES, {})
