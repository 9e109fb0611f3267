"""Which neurons, and which weights, a rank holds of each layer.

A layer's neurons are cut into consecutive parts, one per rank, as equal as can be. How the layer's weights follow:

whole   the inputs are known everywhere: a rank has the rows of its neurons. The first layer; every layer on one rank
column  rows of its neurons: inputs are gathered, the gradient of the inputs is reduced and scattered
row     columns of its neurons in the layer before: sums are reduced and scattered, their gradients gathered
ghost   rows of its neurons, but only the columns of its own inputs and of ``ghost_width`` at each border (paper 002)
mirror  rows and columns: inputs and gradients are gathered, nothing is summed over ranks, every sum keeps its order

Column sends n_in values forward and n_in back, row n_out and n_out (times (P - 1) / P). The plan of least traffic takes
the smaller of the two in each layer. To keep activations whole on every rank would gain nothing: making them whole
costs what gathering them costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import ArgumentError

KINDS = ("whole", "column", "row", "ghost", "mirror")
MODES = ("full", "ghost")


def bounds_of(neurons: int, ranks: int, master: bool = False) -> tuple[int, ...]:
    """The neurons of each rank: rank r has [bounds[r], bounds[r + 1]).

    The first ``neurons % ranks`` ranks have one more than the rest. With ``master`` rank 0 has none.
    """
    if master:
        return (0, *bounds_of(neurons, ranks - 1))
    least, larger = divmod(neurons, ranks)
    return tuple(rank * least + min(rank, larger) for rank in range(ranks + 1))


@dataclass(frozen=True)
class GhostRange:
    """Neurons [begin, end) of the layer before that rank ``source`` has and rank ``target`` sees."""

    source: int
    target: int
    begin: int
    end: int

    def __len__(self) -> int:
        return self.end - self.begin


@dataclass(frozen=True)
class Share:
    """What rank ``rank`` holds of a layer of ``n_out`` neurons behind one of ``n_in``."""

    kind: str
    rank: int
    n_in: int
    n_out: int
    bounds_in: tuple[int, ...]
    bounds_out: tuple[int, ...]
    seen: tuple[GhostRange, ...] = ()  # neurons of others, in the order top, bottom
    shown: tuple[GhostRange, ...] = ()  # its own that others see, in the order they expect them

    @property
    def inputs(self) -> tuple[int, int]:
        return self.bounds_in[self.rank], self.bounds_in[self.rank + 1]

    @property
    def outputs(self) -> tuple[int, int]:
        return self.bounds_out[self.rank], self.bounds_out[self.rank + 1]

    @property
    def rows(self) -> tuple[int, int]:
        """The range of the weight matrix's rows (n_out x n_in)."""
        return (0, self.n_out) if self.kind == "row" else self.outputs

    @property
    def columns(self) -> tuple[tuple[int, int], ...]:
        """Ranges of the matrix's columns, in the order of the inputs in memory: top ghosts, own, bottom ghosts."""
        if self.kind == "row":
            return (self.inputs,)
        if self.kind != "ghost":
            return ((0, self.n_in),)
        ghosts = [(g.begin, g.end) for g in self.seen]
        return (*ghosts[:1], self.inputs, *ghosts[1:])

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the weights that the rank holds."""
        return self.rows[1] - self.rows[0], sum(end - begin for begin, end in self.columns)

    @property
    def above(self) -> int:
        """Inputs in memory before this rank's own."""
        if self.kind in ("ghost", "row"):
            return sum(map(len, self.seen[:1]))
        return self.inputs[0]

    @property
    def weights(self) -> int:
        """Weights that take part in the function; a mirror keeps them twice."""
        rows, columns = self.shape
        return rows * columns


def shares(
    sizes: Sequence[int],
    rank: int,
    ranks: int,
    mode: str = "full",
    ghost_width: int = 1,
    master: bool = False,
    bit_equal: bool = False,
) -> list[Share]:
    """Rank ``rank``'s share of every layer behind the input of ``sizes[0]`` values. Raises ArgumentError."""
    if mode not in MODES:
        raise ArgumentError(f"mode: expected one of {', '.join(MODES)}; got {mode!r}")
    if ghost_width < 1:
        raise ArgumentError(f"ghost_width: expected at least 1, got {ghost_width}")
    if master and ranks < 2:
        raise ArgumentError(f"master: expected at least 2 ranks, got {ranks}")
    if bit_equal and mode != "full":
        raise ArgumentError(f"bit_equal: expected mode full, got {mode}: another function at every number of ranks")
    workers = list(range(int(master), ranks))
    result = []
    for layer, (n_in, n_out) in enumerate(zip(sizes, sizes[1:], strict=False)):
        bounds = bounds_of(n_in, ranks, master), bounds_of(n_out, ranks, master)
        seen: tuple[GhostRange, ...] = ()
        shown: tuple[GhostRange, ...] = ()
        if layer == 0 or ranks == 1:
            kind = "whole"
        elif mode == "ghost":
            kind = "ghost"
            seen = ghosts(bounds[0], rank, workers, ghost_width)
            shown = tuple(
                g
                for target in dict.fromkeys(g.source for g in seen)  # a neighbour sees who it is seen by
                for g in ghosts(bounds[0], target, workers, ghost_width)
                if g.source == rank
            )
        elif bit_equal:
            kind = "mirror"
        else:
            kind = "column" if n_in <= n_out else "row"
        result.append(Share(kind, rank, n_in, n_out, *bounds, seen, shown))
    return result


def ghosts(bounds: Sequence[int], rank: int, workers: Sequence[int], width: int) -> tuple[GhostRange, ...]:
    """What a rank sees of its neighbours in the ring of workers: the last neurons of the worker before it, the first
    neurons of the one after it.

    Of two workers each is before and after the other; still no neuron is seen twice.
    """
    if rank not in workers or len(workers) < 2:
        return ()
    place = workers.index(rank)
    before, after = workers[place - 1], workers[(place + 1) % len(workers)]
    top = GhostRange(before, rank, max(bounds[before], bounds[before + 1] - width), bounds[before + 1])
    limit = top.begin if before == after else bounds[after + 1]
    return top, GhostRange(after, rank, bounds[after], min(bounds[after] + width, limit))
