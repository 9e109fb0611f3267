"""The command ``pipeall``: its sub-commands, and how their errors end."""

from __future__ import annotations

import logging
import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import click
from click.shell_completion import get_completion_class

from .. import __version__, env
from ..errors import PipeallError
from ..files import FULL_DISK
from . import ends
from .groups import Lazy, LazyGroup
from .tables import plain

COMMANDS = {  # as the help shows them; the first line of each is that of its own help
    "See": {
        "devices": Lazy("info.devices_command", "Show the processors of this machine under the names that plans use."),
        "doctor": Lazy("info.doctor_command", "Find out what is wrong with this machine."),
        "info": Lazy("info.info_command", "Show a network's groups, its cuts and what crosses them."),
        "cost": Lazy("cost.cost_command", "Show what a network costs: parameters, operations, memory."),
    },
    "Plan": {
        "profile": Lazy("profile.profile_command", "Measure networks' groups on every processor."),
        "search": Lazy("search.search_command", "Find the best plans for a network, and run them to make sure."),
        "simulate": Lazy("simulate.simulate_command", "Simulate plans on a board that need not be at hand."),
    },
    "Run": {
        "run": Lazy("run.run_command", "See what is in pictures, videos or a camera."),
        "schedule": Lazy("schedule.schedule_command", "Run several networks at once, as a file says."),
        "bench": Lazy("bench.bench_command", "Compare one processor, all at once, pipelines and the best plan."),
    },
    "Make networks": {
        "nas": Lazy("nas.nas_command", "Search for a network that fits a data set and a board."),
        "train": Lazy("train.train_command", "Train a multilayer perceptron to classify DATA, or to tell numbers."),
        "quantize": Lazy("quantize.quantize_command", "Make a network of 8-bit integers."),
        "prune": Lazy("prune.prune_command", "Make a network with zeros that CPUs leave out."),
        "slice": Lazy("slice.slice_command", "Write parts of a network as files, for tools that compile them."),
    },
}
EPILOG = ("MODEL: an .onnx file or of the zoo. Plan G-B-L:3,5: gpu to group 3, big to 5.",)


class App(LazyGroup):
    """A group whose errors are one line on stderr and exit status 2; PIPEALL_VERBOSE=1 adds the traceback, and
    why each choice was made.

    Its help is one screen, with the commands by what they are for.
    """

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for paragraph in EPILOG:
            formatter.write_text(paragraph)

    def main(self, args: Any = None, prog_name: str | None = "pipeall", **extra: Any) -> NoReturn:
        verbose = False
        try:
            verbose = env.verbose()
            with _choices_shown(verbose), _warnings_in_a_line():
                sys.exit(super().main(args, prog_name, **extra | {"standalone_mode": False}))
        except click.Abort:
            sys.exit(ends.interrupted())
        except (PipeallError, click.ClickException, OSError, MemoryError) as error:
            if verbose:
                click.echo("\n".join(map(plain, traceback.format_exc().splitlines())), err=True)
            click.echo(f"error: {_one_line(error)}", err=True)
            if isinstance(error, OSError):
                _drop_stdout()
            sys.exit(2)


@contextmanager
def _choices_shown(verbose: bool) -> Iterator[None]:
    """With ``verbose``, what the package logs goes to stderr."""
    logger, handler = logging.getLogger("pipeall"), logging.StreamHandler()
    level = logger.level
    if verbose:
        handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


@contextmanager
def _warnings_in_a_line() -> Iterator[None]:
    """Without the place in the source, which is for programmers."""
    before = warnings.formatwarning
    warnings.formatwarning = lambda message, *_, **__: f"warning: {plain(str(message))}\n"
    try:
        yield
    finally:
        warnings.formatwarning = before


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and (error.filename or error.errno in FULL_DISK):
        return plain(f"{error.filename or 'stdout'}: {error.strerror}")
    if not isinstance(error, click.ClickException):
        return plain(" ".join(str(error).split())) or "out of memory"
    text = plain(" ".join(error.format_message().split())).rstrip(".")
    context = getattr(error, "ctx", None)
    return f"{text}; see {context.command_path} --help" if context else text


def _drop_stdout() -> None:
    """What could not be written stays in its buffer: sent nowhere, or Python would fail on it again at its end."""
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


@click.group(
    "pipeall",
    cls=App,
    titles=COMMANDS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="%(version)s")
@click.pass_context
def app(context: click.Context) -> None:
    """Run one CNN on every processor of a board at once, as a pipeline."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@app.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that makes a shell complete words.

    \b
    eval "$(pipeall completion bash)"     in ~/.bashrc
    eval "$(pipeall completion zsh)"      in ~/.zshrc
    pipeall completion fish | source      in ~/.config/fish/config.fish

    Commands and options, networks of the zoo and .onnx files, plans, units, boards and presets are completed. Nothing
    is measured for it.
    """
    script = get_completion_class(shell)
    click.echo(script(context.find_root().command, {}, "pipeall", "_PIPEALL_COMPLETE").source())  # as click names it
