"""Profiles of this machine in the cache: default plans come from them.

Each belongs to a network's shapes and a kind of machine. With ``PIPEALL_TUNE=off`` none is stored or used: nothing that
was timed decides then.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from ... import env
from ...cache import any_cached, cached_path, read_cached, write_cached
from ...errors import ArgumentError
from ...graph.ir import Graph
from ..planning.profile import Profile, crossing_bytes
from ..planning.units import components, overlap, traits_of
from .board import Board
from .default_units import default_units
from .machine import describe

KIND = "profile"

log = logging.getLogger(__name__)


def measured_on(profile: Profile, board: Board) -> bool:
    """Whether these are times of this very kind of machine: the components that it knows have the same description.

    One that is all clusters at once has no description of its own: theirs count.
    """
    there, here = profile.about.get("components"), describe(board)["components"]
    if profile.modelled or not isinstance(there, Mapping):
        return False
    known = {unit.component for unit in profile.units}
    if whole := [name for name in known if traits_of(name).all]:
        listed = [name for name in {**there, **here} if name in here or name in components()]
        known |= {name for name in listed if any(overlap(name, unit) for unit in whole)}
    return all(there.get(name) == here.get(name, "") for name in known.difference(whole))


def store(profile: Profile, graph: Graph, board: Board) -> None:
    """Caches a profile that knows all default units of this machine; one that cannot be written is not cached."""
    if profile.modelled or not env.tune() or not set(default_units(board)) <= set(profile.units):
        return
    path = profile_path(graph, board)
    try:
        write_cached(path, KIND, profile.to_dict())
        log.debug("profile of %s cached as %s", graph.name, path)
    except ArgumentError as error:
        log.debug("profile of %s is not cached: %s", graph.name, error)


def cached(graph: Graph, board: Board) -> Profile | None:
    """The profile of this network that was measured here; None where there is none, or it cannot be read."""
    if board.model is not None or not env.tune() or not any_cached(KIND, graph.name):
        return None  # without asking what GPUs there are
    path = profile_path(graph, board)
    content = read_cached(path, KIND)
    if content is None:
        return None
    try:
        profile = Profile.from_dict(content, str(path))
        profile.check_network(graph)
    except ArgumentError as error:
        log.debug("profile %s is not used: %s", path, error)
        return None
    return profile if measured_on(profile, board) else None


def profile_path(graph: Graph, board: Board) -> Path:
    """Where the profile of these shapes on these components is cached. Raises ArgumentError as ``cached_path``."""
    shapes = {name: (tensor.shape, tensor.dtype) for name, tensor in graph.tensors.items()}
    shapes |= {name: (array.shape, str(array.dtype)) for name, array in graph.constants.items()}
    nodes = [(node.op, *(shapes.get(name) for name in (*node.inputs, node.output))) for node in graph.nodes]
    components = sorted(describe(board)["components"].items())
    return cached_path(KIND, graph.name, components, crossing_bytes(graph), nodes)
