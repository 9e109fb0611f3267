"""Options and types of options that several commands share; each says at once, before anything runs, what is wrong."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from functools import partial, wraps
from math import isfinite
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from ..errors import ArgumentError
from ..files import is_writable, same_file
from . import complete
from .values import value_option

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
seed_option = click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of what is random.")
board_option = click.option(
    "--board",
    metavar="NAME",
    shell_complete=complete.boards,
    help="Model of another board: rk3588, rpi5, a311d, ... or a .json file.",
)
units_option = click.option(
    "--units",
    shell_complete=complete.units,
    help="Components or some of their cores, such as big,little,Bx3; default all real components.",
)
floating_option = click.option(
    "--floating", is_flag=True, help="Also plans whose cuts float: the groups there go to whichever stage is free."
)


def _in_folder(context: click.Context, option: click.Parameter, value: str | None, folder: bool = False) -> str | None:
    if value is not None and not (value and Path(value).parent.is_dir()):
        raise click.BadParameter(f"expected a file in a folder that exists, got {value!r}", context, option)
    if value is not None and Path(value).is_dir() and not folder:
        raise click.BadParameter(f"expected a file, got the folder {value!r}", context, option)
    if value is not None and not is_writable(value):
        raise click.BadParameter(f"expected a file that may be written, got {value!r}", context, option)
    return value


def _finite(context: click.Context, option: click.Parameter, value: float | None) -> float | None:
    """A range lets NaN and infinity through."""
    if value is not None and not isfinite(value):
        raise click.BadParameter(f"expected a finite number, got {value}", context, option)
    return value


def _filled(context: click.Context, option: click.Parameter, value: Any) -> Any:
    """An empty word is a variable that a script has not set, and would be taken for none, or for this folder."""
    if "" in (value if isinstance(value, tuple) else (value,)):
        raise click.BadParameter("expected a word, got an empty one", context, option)
    return value


class Written(click.Option):
    """The name of a file to write; ``resumed``: the option whose file it may be."""

    def __init__(self, *names: Any, resumed: str = "", **given: Any):
        super().__init__(*names, **given)
        self.resumed = resumed


def _writing_apart(callback: Callable, params: Sequence[click.Parameter]) -> Callable:
    """Refuses a file to write that is read, or is another to write; a device may be all of them."""

    @wraps(callback)
    def checked(*arguments: Any, **given: Any) -> Any:
        for option in (param for param in params if isinstance(param, Written)):
            path = given[option.name]
            if path is None or (os.path.exists(path) and not os.path.isfile(path)):
                continue
            for other in params:
                words = given.get(other.name) if other.name not in (option.name, option.resumed) else None
                words = words if isinstance(words, tuple) else (words,)
                files = [word for word in words if isinstance(word, str)]
                if (isinstance(other, Written) or os.path.exists(path)) and same_file(path, files):
                    raise ArgumentError(f"{_named(option)} {path}: expected another place than that of {_named(other)}")
        return callback(*arguments, **given)

    return checked


def _named(param: click.Parameter) -> str:
    return param.opts[-1] if isinstance(param, click.Option) else param.human_readable_name.rstrip(".")


def check_values(command: click.Command) -> click.Command:
    """Lets a command, and those in it, refuse empty words, numbers that are not finite, and one file for two uses."""
    checks = {click.types.StringParamType: _filled, click.types.FloatParamType: _finite}
    for option in command.params:
        for kind, check in checks.items():
            if isinstance(option.type, kind) and option.callback is None:
                option.callback = check
    if command.callback is not None:
        command.callback = _writing_apart(command.callback, command.params)
    for inner in getattr(command, "commands", {}).values():
        check_values(inner)
    return command


def file_option(*names: str, help: str, folder: bool = False, resumed: str = "") -> Callable:
    """The name of a file to write; ``folder``: it may be one too; ``resumed``: the option whose file it may be."""
    check = partial(_in_folder, folder=folder)
    return click.option(
        *names,
        cls=Written,
        resumed=resumed,
        metavar="FILE",
        callback=check,
        shell_complete=complete.any_file,
        help=help,
    )


def positive_option(
    *names: str, help: str, default: float | None = None, required: bool = False, hidden: bool = False
) -> Callable:
    """A finite number above 0."""
    above = click.FloatRange(min=0, min_open=True)
    given = {"default": default, "show_default": True} if default is not None else {"required": required}
    return click.option(*names, type=above, callback=_finite, help=help, hidden=hidden, **given)


seconds_option = positive_option("--seconds", default=1.0, help="How long each unit, pair and plan is measured.")


class Numbers(click.ParamType):
    """Numbers of one type: "1,3,227,227"; within ``KeyValues`` with a slash between them: "0.485/0.456/0.406"."""

    name = "numbers"

    def __init__(self, kind: type, example: str):
        self.kind, self.example = kind, example

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple:
        if isinstance(value, tuple):
            return value
        try:
            return tuple(self.kind(word) for word in value.split("/" if "/" in self.example else ","))
        except ValueError:
            self.fail(f"expected numbers such as {self.example}, got {value!r}", param, ctx)


class Precisions(click.ParamType):
    """Precisions, and how much they may err: "fp32,fp16,max-error=0.01". Converted: (("fp32", "fp16"), 0.01)."""

    name = "precisions"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple:
        if isinstance(value, tuple):
            return value
        words, bound = [], None
        for word in value.split(","):
            key, given, number = word.strip().lower().partition("=")
            if not given:
                words.append(key)
                continue
            try:
                bound = float(number)
            except ValueError:
                bound = -1.0
            if key != "max-error" or not 0 <= bound < float("inf"):
                self.fail(f"expected precisions and max-error=0.01, got {word.strip()!r}", param, ctx)
        return tuple(words), bound


class Shapes(click.ParamType):
    """One shape, "1,3,224,224" or "1x3x224x224", or one for each input by name: "x=1x3x48x320,mask=1x48"."""

    name = "shape"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple | dict:
        if not isinstance(value, str):
            return value
        try:
            if "=" not in value:
                return tuple(int(word) for word in re.split("[,x]", value))
            pairs = [part.rpartition("=")[::2] for part in value.split(",")]
            shapes = {name: tuple(int(word) for word in sizes.split("x")) for name, sizes in pairs}
            if len(shapes) < len(pairs) or "" in shapes:
                raise ValueError
            return shapes
        except ValueError:
            self.fail(f"expected a shape such as 1,3,224,224, or name=1x3x48x320, got {value!r}", param, ctx)


class Bytes(click.ParamType):
    """A size of memory: "8GB" is 8 x 10^9, "8GiB" 8 x 2^30 bytes."""

    name = "size"
    UNITS = {
        "b": 1,
        "kb": 1e3,
        "mb": 1e6,
        "gb": 1e9,
        "tb": 1e12,
        "kib": 2**10,
        "mib": 2**20,
        "gib": 2**30,
        "tib": 2**40,
    }

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]+)", str(value).strip().lower())
        if not found or found[2] not in self.UNITS or not float(found[1]):
            self.fail(f"expected a size such as 8GB, 512MB or 4GiB, got {value!r}", param, ctx)
        return float(found[1]) * self.UNITS[found[2]]


model_argument = click.argument("model", shell_complete=complete.models)
finer_option = click.option(
    "--finer",
    type=click.IntRange(1),
    help="Cut also where up to so many tensors cross: inside of modules and residual units.",
)
shape_option = click.option(
    "--input-shape",
    type=Shapes(),
    help="Shape of the model's only input, 1x3x224x224, or of some by name, x=1x3x48x320,y=1x48; default the file's.",
)


def model_options(command: Callable) -> Callable:
    """How to read the model: ``load_model`` takes them."""
    return shape_option(value_option(finer_option(command)))


class KeyValues(click.ParamType):
    """Several values in one option: "caffe:resize=256,mean=104/117/123", or without a head "rates=1/2/3,batch=32".

    Gives a dict: the head under "head" where there is one, and what was set. A key whose type is bool stands alone and
    means True; an underscore in a key is a dash for people.
    """

    name = "values"

    def __init__(self, head: click.ParamType | type | None = None, **keys: tuple[click.ParamType | type, str]):
        """``keys``: of each the type and, for the help, its meaning."""
        self.head = None if head is None else click.types.convert_type(head)
        self.kinds = {key: click.types.convert_type(kind) for key, (kind, _) in keys.items()}
        self.meanings = {key: meaning for key, (_, meaning) in keys.items()}

    def option(self, *names: str, help: str, default: str | None = None) -> Callable:
        """An option of this type, whose help has a line for each key."""
        width = max(map(len, self.meanings)) + 1
        lines = [f"{key.replace('_', '-'):<{width}} {meaning}" for key, meaning in self.meanings.items()]
        form = "KEY=VALUE,..." if self.head is None else "VALUE[:KEYS]"
        text = "\n".join((help, "", "\b", *lines, ""))
        return click.option(*names, type=self, metavar=form, default=default, help=text)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        head, _, text = ("", "", value) if self.head is None else value.partition(":")
        found = {} if self.head is None else {"head": self.head.convert(head, param, ctx)}
        for part in text.split(",") if text else ():
            word, equals, content = part.partition("=")
            key = word.replace("-", "_")
            kind = self.kinds.get(key)
            if kind is None or key in found or (kind is click.BOOL) == bool(equals):
                self.fail(f"expected {self._form()}, each at most once, got {part!r}", param, ctx)
            try:
                found[key] = True if kind is click.BOOL else kind.convert(content, param, ctx)
            except click.BadParameter as error:
                self.fail(f"{word}: {error.message}", param, ctx)
            if isinstance(found[key], float) and not isfinite(found[key]):
                self.fail(f"{word}: expected a finite number, got {content}", param, ctx)
        return found

    def _form(self) -> str:
        """What may be set: "rates=VALUE, prefetch"."""
        words = (f"{key}{'' if kind is click.BOOL else '=VALUE'}" for key, kind in self.kinds.items())
        return ", ".join(words).replace("_", "-")

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [] if self.head is None else self.head.shell_complete(ctx, param, incomplete)
