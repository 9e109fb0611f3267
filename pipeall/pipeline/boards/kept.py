"""Profiles of this machine that are kept in the cache folder, for the plans of those who give none.

A file is of one network's shapes, one kind of machine and one version of this package: what was measured of another
says nothing. ``PIPEALL_TUNE=off`` neither keeps nor uses them: then nothing that was timed decides.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from ... import __version__, env
from ...errors import ArgumentError
from ...graph.ir import Graph
from ...logs import logger
from ..planning.names import parse_unit, without_precision
from ..planning.profile import Profile, crossing_bytes
from .board import Board
from .machine import describe

log = logger(__name__)


def real_components(board: Board) -> list[str]:
    """Names of the components that are no stand-in."""
    return [component.name for component in board.components.values() if not component.stand_in]


def measured_on(found: Profile, board: Board) -> bool:
    """Whether these are times of this very kind of machine: the components that it knows have the same description."""
    there, here = found.about.get("components"), describe(board)["components"]
    names = {without_precision(parse_unit(unit)[0]) for unit in found.units}
    return not found.modelled and isinstance(there, Mapping) and all(there.get(n) == here.get(n, "") for n in names)


def keep(found: Profile, graph: Graph, board: Board) -> None:
    """Keeps a profile that knows every real component of this machine; one that cannot be written is not kept."""
    if found.modelled or not env.tune() or not set(real_components(board)) <= set(found.units):
        return
    path = profile_path(graph, board)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        found.save(path)
        log.debug("profile of %s kept as %s", graph.name, path)
    except (OSError, ArgumentError) as error:
        log.debug("profile of %s is not kept: %s", graph.name, error)


def kept(graph: Graph, board: Board) -> Profile | None:
    """The profile of this network that was measured here; None where there is none, or it cannot be read."""
    if board.model is not None or not env.tune():
        return None
    path = profile_path(graph, board)
    if not os.path.exists(path):  # also where it may not be looked for
        return None
    try:
        found = Profile.load(path)
        found.check_network(graph)
    except ArgumentError as error:
        log.debug("profile %s is not used: %s", path, error)
        return None
    return found if measured_on(found, board) else None


def profile_path(graph: Graph, board: Board) -> Path:
    """Where the profile of these shapes on these components is kept. Raises ArgumentError as ``env.cache_dir``."""
    shapes = {name: (tensor.shape, tensor.dtype) for name, tensor in graph.tensors.items()}
    shapes |= {name: (array.shape, str(array.dtype)) for name, array in graph.constants.items()}
    nodes = [(node.op, *(shapes.get(name) for name in (*node.inputs, node.output))) for node in graph.nodes]
    content = (__version__, sorted(describe(board)["components"].items()), crossing_bytes(graph), nodes)
    name = re.sub("[^A-Za-z0-9._-]", "-", graph.name)[:60]
    return env.cache_dir() / "profiles" / f"{name}-{sha256(repr(content).encode()).hexdigest()[:16]}.json"
