"""Branches of a module: parts of consecutive nodes that do not need each other.

A window of nodes falls into components where no node of one reads what another makes. Those of an inception module are
its branches; the nodes before them, which they read, and those behind, which join them, are no part of the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Node(Protocol):
    """What is asked of a node (``ir.Node``)."""

    inputs: tuple[str, ...]
    output: str
    is_main: bool


def in_branches(nodes: Sequence[Node]) -> list[list[Node]]:
    """The nodes of a group as parts that follow each other: what comes before the branches of a module, each branch,
    and what joins them; once more for a module behind, and within branches. One part where there are no branches."""
    parts: list[list[Node]] = [[]]
    index = 0
    while index < len(nodes):
        if found := _branches(nodes[index:]):
            parts += [*(part for branch in found for part in in_branches(branch)), []]
        else:
            parts[-1].append(nodes[index])
        index += sum(map(len, found)) or 1
    return [part for part in parts if part]


def _branches(nodes: Sequence[Node]) -> list[list[Node]]:
    """The components of the longest window from the first node on in which several have a Main."""
    components: list[list[int]] = []  # of the window so far, as indices of nodes
    within: dict[str, list[int]] = {}  # a tensor -> the component that makes it
    kept: list[list[int]] = []
    for index, node in enumerate(nodes):
        merged = [index]
        for component in (within[name] for name in node.inputs if name in within):
            if component in components:
                components.remove(component)
                merged = component + merged
        components.append(merged)
        within |= dict.fromkeys((nodes[member].output for member in merged), merged)
        if sum(any(nodes[member].is_main for member in component) for component in components) > 1:
            kept = list(components)
        elif kept:
            break
    return [[nodes[member] for member in sorted(component)] for component in _with_mains(nodes, kept)]


def _with_mains(nodes: Sequence[Node], components: Sequence[Sequence[int]]) -> list[list[int]]:
    """The components in the order of their first nodes. One without a Main is part of the one before it, or of the
    next."""
    found: list[list[int]] = []
    for component in sorted(components, key=min):
        mains = [any(nodes[member].is_main for member in part) for part in (component, *found[-1:])]
        if all(mains) or not found:
            found.append(list(component))
        else:
            found[-1] += component
    return found
