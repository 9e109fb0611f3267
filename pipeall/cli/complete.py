"""What the shell is told to complete. Nothing here measures, and OpenCL is never asked.

Each takes what click gives a ``shell_complete``: the context, the parameter and the word begun. Where no name fits,
the shell completes names of files or folders itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from glob import escape, glob
from itertools import permutations

import click
from click.shell_completion import CompletionItem

from ..errors import PipeallError
from ..pipeline.boards.board import Board
from ..pipeline.boards.default_plan import NAMED
from ..pipeline.boards.models.board_model import FOLDER
from .model_argument import NAMES

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def any_file(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    return [CompletionItem(begun, type="file")]


def files(*suffixes: str, names: Iterable[str] = ()) -> Completer:
    """Files of these suffixes, the folders on the way to them, and names beside them."""

    def by_suffix(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
        return _items(begun, names, suffixes)

    return by_suffix


def models(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Networks that have names and .onnx files."""
    return _items(begun, NAMES, (".onnx",))


def boards(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Boards that come with the package and .json files."""
    return _items(begun, sorted(path.stem for path in FOLDER.glob("*.json")), (".json",))


def plans(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Named plans, single components, orders such as G-B-L, all at once such as B+L+G, and .json files."""
    letters = list(_components(context).values())
    together = ["+".join(letters)] if len(letters) > 1 else []
    return _items(begun, [*NAMED, *_components(context), *_orders(letters), *together], (".json",))


def units(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """The next of several components with commas between them; none twice."""
    *given, last = begun.split(",")
    left = [name for name in _components(context) if name not in given]
    return [CompletionItem(",".join([*given, name])) for name in left if name.startswith(last)]


def _orders(letters: list[str]) -> list[str]:
    return ["-".join(order) for count in range(2, len(letters) + 1) for order in permutations(letters, count)]


def _components(context: click.Context) -> dict[str, str]:
    """Name -> letter: of --board's model where one is given, else of this machine's clusters and a gpu."""
    try:
        if name := context.params.get("board"):
            return {part.name: part.letter for part in Board.load(name).components.values()}
        letters = {part.name: part.letter for part in Board.detect(gpu=False).components.values()}
    except PipeallError:  # a board that the command itself will refuse, in words
        return {}
    return letters | {"gpu": "G"}


def _items(begun: str, names: Iterable[str], suffixes: tuple[str, ...] = ()) -> list[CompletionItem]:
    """The names and files that begin so. Folders alone are left to the shell, which adds no space after them."""
    matches = [name for name in names if name.startswith(begun)]
    folders: list[str] = []
    if suffixes:
        for path in sorted(glob(f"{escape(begun)}*")):
            if os.path.isdir(path):
                folders.append(f"{path}/")
            elif path.lower().endswith(suffixes):
                matches.append(path)
    if matches:
        return [CompletionItem(text) for text in (*matches, *folders)]
    return [CompletionItem(begun, type="dir")] if folders else []
