"""The command ``pipeall``: its sub-commands, and how their errors end."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from typing import Any, NoReturn

import click

from .. import __version__, env
from ..errors import PipeallError
from .bench import bench
from .devices import devices
from .info import info
from .nas import nas
from .profile import profile
from .run import run
from .search import search
from .simulate import simulate
from .status import INTERRUPTED
from .train import train

UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # of stdout: other files are named in PipeallErrors


class App(click.Group):
    """A group whose errors are one line on stderr and exit status 2; PIPEALL_VERBOSE=1 adds the traceback."""

    def main(self, args: Any = None, prog_name: str | None = "pipeall", **extra: Any) -> NoReturn:
        verbose = False
        try:
            verbose = env.verbose()
            sys.exit(super().main(args, prog_name, **extra | {"standalone_mode": False}))
        except click.Abort:
            sys.exit(INTERRUPTED)
        except (PipeallError, click.ClickException, OSError, MemoryError) as error:
            if verbose:
                traceback.print_exc()
            click.echo(f"error: {_one_line(error)}", err=True)
            if isinstance(error, OSError):
                _drop_stdout()
            sys.exit(2)


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno in UNWRITABLE:
        return f"stdout: {error.strerror}"
    if not isinstance(error, click.ClickException):
        return " ".join(str(error).split()) or "out of memory"
    text = " ".join(error.format_message().split()).rstrip(".")
    context = getattr(error, "ctx", None)
    return f"{text}; see {context.command_path} --help" if context else text


def _drop_stdout() -> None:
    """What could not be written stays in its buffer: sent nowhere, or Python would fail on it again at its end."""
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


@click.group(cls=App, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(version)s")
@click.pass_context
def app(context: click.Context) -> None:
    """One CNN on every processor of a board at once: big CPU cluster, LITTLE cluster and GPU as a pipeline.

    Every command has --json: one JSON document on stdout, nothing else. MODEL is an .onnx file or a network of the
    zoo. A plan such as G-B-L:3,5 says who runs what: the gpu groups 1 to 3, big 4 and 5, little the rest.

    \b
    pipeall devices                    what this board has
    pipeall info squeezenet            where a network can be cut
    pipeall profile net.onnx           how long its groups take on every component
    pipeall search net.onnx            the best plans for it, run to make sure
    pipeall run net.onnx photos/       classify photos through the pipeline
    pipeall simulate net.onnx --board a311d   what a board that is not at hand would do
    pipeall bench                      one component, all independently, all as a pipeline
    pipeall train digits               train a multilayer perceptron; on more ranks by mpirun
    pipeall nas --data digits          search a network for a data set and a board
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for command in (devices, info, profile, search, run, simulate, bench, train, nas):
    app.add_command(command)
