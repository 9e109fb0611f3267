"""Options and types of options that several commands share; each says at once, before anything runs, what is wrong."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from itertools import takewhile
from math import isfinite, nan
from pathlib import Path
from typing import Any

import click
from click.formatting import wrap_text

from ..errors import ArgumentError
from ..files import is_writable, same_file
from . import complete
from .model_argument import BRANCHES, VALUES, Finer
from .replaced import refuse_replaced

JSON_HELP = "Print one JSON document; show this message."
json_option = click.option("--json", "as_json", is_flag=True, help=JSON_HELP)
seed_option = click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of what is random.")
board_option = click.option(
    "--board",
    metavar="NAME",
    shell_complete=complete.boards,
    help="Model of another board, such as rk3588 or rpi5, or a .json file.",
)
units_option = click.option(
    "--units",
    shell_complete=complete.units,
    help="Components or some of their cores, such as big,little,Bx3; default all real ones, of equal cores also parts.",
)


def cores_option(*words: str) -> Callable:
    """What to do where other pipelines hold some of the cores: of ``lease.CORES``."""
    meanings = {"share": "warn and share", "refuse": "refuse", "free": "take the free ones"}
    text = f"Where others hold some: {'; '.join(meanings[word] for word in words)}."
    return click.option("--cores", type=click.Choice(words), default="share", help=text)


def profile_option(help: str) -> Callable:
    """A profile that a command reads."""
    return click.option("--profile", "profile_path", metavar="FILE", shell_complete=complete.files(".json"), help=help)


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


METAVARS = {"INTEGER RANGE": "N", "INTEGER": "N", "FLOAT RANGE": "X", "FLOAT": "X", "NUMBERS": "X,..."}
COLUMN = 26  # where the texts of options begin, unless their names are longer


class Command(click.Command):
    """A command whose help has its options under headings, and which says how options of before are written now."""

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        option = super().get_help_option(ctx)
        if option is not None and any(param.name == "as_json" for param in self.params):
            option.help = JSON_HELP  # one line for both
        return option

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = ctx.command_path.split()[1:]
        options = [name for param in self.params for name in param.opts]
        refuse_replaced(" ".join(words).removesuffix(" model"), options, args)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Options under headings; those of one text share a line. The range of a number is told when it is wrong."""
        sections: dict[str, dict[str, list[click.Option]]] = {"Options": {}}
        for param in self.get_params(ctx):
            if isinstance(param, click.Option) and not param.hidden:
                texts = sections.setdefault(getattr(param, "heading", "Options"), {})
                texts.setdefault(param.help or param.name, []).append(param)
        for title, texts in sections.items():
            with formatter.section(title):
                for options in texts.values():
                    names, text = _line(options, ctx)
                    line = f"{names:<{COLUMN - 4}}  {text}".rstrip()
                    margins = " " * formatter.current_indent, " " * COLUMN
                    formatter.write(wrap_text(line, formatter.width, *margins) + "\n")


def _line(options: Sequence[click.Option], ctx: click.Context) -> tuple[str, str]:
    """The names of options and the text that they share; what one option takes is behind its name."""
    first, *others = options
    if others:
        return ", ".join(name for option in options for name in option.opts), first.help or ""
    names = first.get_help_record(ctx)[0]
    for long, short in METAVARS.items():
        names = names.replace(long, short)
    extra = first.get_help_extra(ctx)
    notes = [f"default {extra['default']}"] if "default" in extra else []
    notes += ["required"] if first.required else []
    return names, " ".join([*filter(None, [first.help]), *(f"[{note}]" for note in notes)])


def under(heading: str, *options: Callable) -> Callable:
    """Options of a command that its help has under a heading."""

    def decorate(command: Callable) -> Callable:
        for option in reversed(options):
            before = len(getattr(command, "__click_params__", ()))
            command = option(command)
            for param in command.__click_params__[before:]:
                param.heading = heading
        return command

    return decorate


def together(text: str, *options: str | tuple) -> Callable:
    """Options that one text in the help is for: a flag's name, or names, a type and, where there is one, a default."""

    def decorate(command: Callable) -> Callable:
        for option in reversed(options):
            if isinstance(option, str):
                command = click.option(option, is_flag=True, help=text)(command)
            else:
                names = list(takewhile(lambda part: isinstance(part, str), option))
                kind, *default = option[len(names) :]
                given = {"default": default[0]} if default else {}
                command = click.option(*names, type=kind, help=text, **given)(command)
        return command

    return decorate


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


def file_option(*names: str, help: str, folder: bool = False, resumed: str = "", required: bool = False) -> Callable:
    """The name of a file to write; ``folder``: it may be one too; ``resumed``: the option whose file it may be."""
    check = partial(_in_folder, folder=folder)
    return click.option(
        *names,
        cls=Written,
        resumed=resumed,
        required=required,
        metavar="FILE",
        callback=check,
        shell_complete=complete.any_file,
        help=help,
    )


def positive_option(*names: str, help: str, default: float | None = None, required: bool = False) -> Callable:
    """A finite number above 0."""
    above = click.FloatRange(min=0, min_open=True)
    given = {"default": default, "show_default": True} if default is not None else {"required": required}
    return click.option(*names, type=above, callback=_finite, help=help, **given)


seconds_option = positive_option("--seconds", default=1.0, help="How long each unit, pair and plan is measured.")
profile_seconds_option = positive_option(
    "--seconds", help="How long each unit, pair and plan is measured; default 1, in all about a minute for a profile."
)


def given(options: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Those of these options that were given."""
    return {name: options[name] for name in names if options.get(name) is not None}


class Numbers(click.ParamType):
    """Numbers of one type with commas between them: "1,3,227,227"."""

    name = "numbers"

    def __init__(self, kind: type, example: str):
        self.kind, self.example = kind, example

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple:
        if isinstance(value, tuple):
            return value
        try:
            numbers = tuple(self.kind(word) for word in value.split(","))
        except ValueError:
            numbers = (nan,)
        if not all(map(isfinite, numbers)):
            self.fail(f"expected finite numbers such as {self.example}, got {value!r}", param, ctx)
        return numbers


class Precisions(click.ParamType):
    """Precisions with commas between them: "fp32,fp16"."""

    name = "precisions"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        return value if isinstance(value, tuple) else tuple(word.strip().lower() for word in value.split(","))


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


class FinerGroups(click.IntRange):
    """A number of at least 1, or "branches"."""

    def __init__(self) -> None:
        super().__init__(1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Finer:
        if value == BRANCHES:
            return BRANCHES
        if not re.fullmatch("0*[1-9][0-9]*", str(value)):
            self.fail(f"expected a number of at least 1, or {BRANCHES}; got {value!r}", param, ctx)
        return int(value)


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
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]+)", str(value).strip().lower())
        if not match or match[2] not in self.UNITS or not float(match[1]):
            self.fail(f"expected a size such as 8GB, 512MB or 4GiB, got {value!r}", param, ctx)
        return float(match[1]) * self.UNITS[match[2]]


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
    help="Makes an input a constant, sr=16000 or size=720,1280; may be repeated.",
)


model_argument = click.argument("model", shell_complete=complete.models)
models_argument = click.argument("models", nargs=-1, required=True, shell_complete=complete.models)
export_option = file_option(
    "--export-tuning", help="Also write all timings of kernels that are kept here, for PIPEALL_TUNING."
)
finer_option = click.option(
    "--finer",
    type=FinerGroups(),
    help="Cut inside modules too, where so many tensors cross, or 'branches'.",
)
shape_option = click.option(
    "--input-shape",
    type=Shapes(),
    help="Of its only input, 1x3x224x224, or by name, x=1x3x48x320,y=1x48.",
)


# How to read the model: ``load_model`` takes them.
model_options = under("How the model is read", shape_option, value_option, finer_option)
