"""Steps in strips of rows, where what they hand on would not stay in a cache.

Steps that compute rows of pixels from a few rows (1x1 and depthwise convolutions, activations, sums) take turns: each
computes some rows, and the next reads them while they lie in the cache. A tensor that no other step touches then has
memory for a strip alone, of each thread. Rows that a window reads once more with the next strip are moved to its begin.
A thread goes down a band of the image by itself; what its windows read from the band above it computes
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ...steps import ARENA, LOCAL, SLOT_IN, SLOT_OUT, Lowered, Step, Strided, Strips, View, is_depthwise, item_bytes
from ..memory import lifetimes, padded, plan_arena

FEW_CHANNELS = 4  # of a first convolution: its windows are short, so that it hands on more than it computes
FILLED = 3, 4  # the part of a cache that strips fill
PIECES = 16  # a step writes at least so small a part of the cache of each strip, in the mean of all steps
BY_ROWS = ("conv", "maxpool", "avgpool", "unary", "binary", "lrn", "softmax", "layernorm")


class Cache(NamedTuple):
    """Where strips lie.

    nbytes  of the second-level cache, for each thread
    bands   of the image, one for each thread
    apart   whether rows of a convolution are computed apart, so that no bit depends on which ones are together
    faster  whether some steps, which it gets whole and in strips, are faster in strips
    """

    nbytes: int
    bands: int
    apart: Callable[[Step], bool]
    faster: Callable[[Lowered, Lowered], bool]


@dataclass(frozen=True, slots=True)
class Band:
    """What a thread computes at a time of a segment.

    done    rows that each step has computed, by its number, before the first strip and after each one
    begins  of each local storage, by its number, the row that its memory begins with at the same times
    """

    done: Sequence[Mapping[int, int]]
    begins: Mapping[int, Sequence[int]]


@dataclass(frozen=True, slots=True)
class Segment:
    """Steps [first, last] that take turns; ``local``: the bytes of each storage that only they touch, of one thread."""

    steps: Sequence[Step]
    first: int
    last: int
    bands: Sequence[Band]
    local: Mapping[int, int]

    @property
    def places(self) -> dict[int, int]:
        """The byte at which each local storage begins in the memory of a thread."""
        offsets, end = {}, 0
        for base, nbytes in self.local.items():
            offsets[base], end = end, end + padded(nbytes)
        return offsets

    @property
    def local_bytes(self) -> int:
        return sum(map(padded, self.local.values()))

    def strips(self, places: Mapping[int, tuple[int, int]]) -> Strips:
        """The steps of each band; ``places``: the base of each storage, and the byte at which it begins there."""
        bands = tuple(
            tuple((number, _placed(step, places)) for number, step in self._parts(band)) for band in self.bands
        )
        return Strips(self.first, self.last, bands, self.local_bytes)

    def _parts(self, band: Band) -> list[tuple[int, Step]]:
        parts: list[tuple[int, Step]] = []
        for strip, after in enumerate(band.done[1:]):
            before, begins = band.done[strip], {base: rows[strip] for base, rows in band.begins.items()}
            for number, stop in after.items():
                if before[number] < stop:
                    parts.append((number, _rows(self.steps[number], before[number], stop, begins)))
            for base, rows in band.begins.items():
                begin, kept, end = *rows[strip : strip + 2], _written(self.steps, after, base)
                if begin < kept < end and strip + 2 < len(band.done):
                    parts.append(self._moved(base, kept - begin, end - kept))
        return parts

    def _moved(self, base: int, first: int, count: int) -> tuple[int, Step]:
        """So many rows of a local storage, from row ``first`` of it on, at its begin; counted with who wrote them."""
        number = max(n for n in range(self.first, self.last + 1) if self.steps[n].dst.base == base)
        view = self.steps[number].dst
        line = view.w * view.stride
        run = View(base, 0, 1, 1, count * line, count * line, view.dtype)
        params = {"dims": (count * line,), "src_strides": (1,), "dst_strides": (1,)}
        return number, Step("copy", self.steps[number].node, (replace(run, offset=first * line),), run, params)


def segments(steps: Sequence[Step], sizes: Mapping[int, int], ends: Sequence[int], cache: Cache) -> list[Segment]:
    """What is cut: the steps around each tensor too large for the cache, the largest first, with what is cut already
    while strips of it all fit.

    sizes  bytes of each storage, by its number, which is the base of its views
    ends   numbers of steps that no segment reaches across
    """
    touched: dict[int, list[int]] = {}
    for number, step in enumerate(steps):
        for base in {operand.base for operand in (*step.src, step.dst)} & sizes.keys():
            touched.setdefault(base, []).append(number)
    rowwise = [_is_by_rows(step, cache) for step in steps]
    segments: list[Segment] = []
    for base in sorted(touched, key=lambda base: (-sizes[base], base)):
        first, last = touched[base][0], touched[base][-1]
        if sizes[base] <= cache.nbytes or first == last or not all(rowwise[first : last + 1]):
            continue
        joined = [segment for segment in segments if segment.first <= last and first <= segment.last]
        first, last = min([first, *(s.first for s in joined)]), max([last, *(s.last for s in joined)])
        if any(first < end <= last for end in ends):
            continue
        inside = {base for base, numbers in touched.items() if first <= numbers[0] and numbers[-1] <= last}
        segment = _segment(steps, range(first, last + 1), inside, cache)
        if segment is not None:
            segments = [other for other in segments if other not in joined] + [segment]
    segments = [segment for segment in segments if cache.faster(*_alone(segment, sizes, cache))]
    return sorted(segments, key=lambda segment: segment.first)


def bound(
    steps: Sequence[Step], sizes: Mapping[int, int], cut: Sequence[Segment]
) -> tuple[tuple[Step, ...], int, tuple[Strips, ...]]:
    """The steps with their storages placed in the arena, the arena's size, and the strips of what is cut: there a
    storage lives from the first step to the last, or is local."""
    living = lifetimes(steps, sizes)
    for part in cut:
        for number in part.local:
            del living[number]
        for number, (first, last) in living.items():
            if first <= part.last and part.first <= last:
                living[number] = min(first, part.first), max(last, part.last)
    offsets, arena_bytes = plan_arena(sizes, living)
    places = {number: (ARENA, offset) for number, offset in offsets.items()}
    places |= {number: (LOCAL, offset) for part in cut for number, offset in part.places.items()}
    return tuple(_placed(step, places) for step in steps), arena_bytes, tuple(part.strips(places) for part in cut)


def _alone(segment: Segment, sizes: Mapping[int, int], cache: Cache) -> tuple[Lowered, Lowered]:
    """A segment as a program of its own, whole and in strips."""
    steps = segment.steps[segment.first : segment.last + 1]
    views = [view for step in steps for view in (*step.src, step.dst)]
    slots = [max((_end(view) for view in views if view.base == base), default=0) for base in (SLOT_IN, SLOT_OUT)]
    lowered = []
    for cut in ([], [_segment(steps, range(len(steps)), set(segment.local), cache)]):
        placed, arena_bytes, strips = bound(steps, sizes, cut)
        lowered.append(Lowered(placed, arena_bytes, (), slots[0], (), slots[1], strips=strips))
    return lowered[0], lowered[1]


def _segment(steps: Sequence[Step], numbers: range, inside: set[int], cache: Cache) -> Segment | None:
    """In as few strips as fit the cache; None where steps cannot take turns, or no strips fit."""
    if not _can_take_turns([steps[n] for n in numbers]):
        return None
    views = {view for n in numbers for view in (*steps[n].src, steps[n].dst)}
    local = [base for base in sorted(inside) if _one_pitch([view for view in views if view.base == base])]
    passing = {(v.base, v.offset): v.nbytes for v in views if v.base not in local and v.h > 1}
    weights = {id(steps[n].weight): steps[n].weight.nbytes for n in numbers if steps[n].weight is not None}
    links, written = _links(steps, numbers), sum(steps[n].dst.nbytes for n in numbers)
    count = 1 if cache.bands > 1 else 2
    while written * PIECES >= cache.nbytes * len(numbers) * count * cache.bands:
        bands = [_band(steps, links, local, (index, cache.bands), count) for index in range(cache.bands)]
        if not _apart(steps, numbers, bands, local):
            return None
        nbytes = {base: max(_strip_bytes(steps, band, base) for band in bands) for base in local}
        shares = sum(passing.values()) // (count * cache.bands)
        if sum(weights.values()) + sum(nbytes.values()) + shares <= cache.nbytes * FILLED[0] // FILLED[1]:
            return Segment(steps, numbers[0], numbers[-1], bands, nbytes)
        count += 1 + count // 8
    return None


# ---- steps by rows ----


def _is_by_rows(step: Step, cache: Cache) -> bool:
    """Whether rows of the result can be computed alone, from a few rows of what is read."""
    views = (*step.src, step.dst)
    if step.kind not in BY_ROWS or not all(isinstance(view, View) for view in views) or min(step.dst.h, step.dst.w) < 2:
        return False
    x, y = step.src[0], step.dst
    (kernel, stride, dilation), (top, bottom) = _window(step), _pads(step)
    if step.kind == "conv" and not is_depthwise(step):
        short = tuple(step.params["kernel"]) == (1, 1) or x.c <= FEW_CHANNELS
        if not short or not cache.apart(step):
            return False
    whole = (x.h + top + bottom - dilation * (kernel - 1) - 1) // stride + 1 == y.h
    inside = max(top, bottom) <= dilation * (kernel - 1)  # every window reads a row
    others = all(view.h in (1, y.h) for view in step.src[1:])
    constant = step.kind != "binary" or step.weight is None or step.weight.shape[0] == 1
    return whole and inside and others and constant


def _window(step: Step) -> tuple[int, int, int]:
    """Rows of the kernel, of a stride, and of its dilation."""
    if "kernel" not in step.params:
        return 1, 1, 1
    return step.params["kernel"][0], step.params["strides"][0], step.params.get("dilations", (1, 1))[0]


def _pads(step: Step) -> tuple[int, int]:
    pads = step.params.get("pads", (0, 0, 0, 0))
    return pads[0], pads[2]


def _reads(step: Step, operand: int, first: int, stop: int) -> tuple[int, int]:
    """The rows of an operand that rows [first, stop) of the result are computed from; none of what is broadcast."""
    view = step.src[operand]
    if operand:
        return (0, 0) if view.h == 1 else (first, stop)
    kernel, stride, dilation = _window(step)
    top, _ = _pads(step)
    last = (stop - 1) * stride - top + (kernel - 1) * dilation
    return max(0, first * stride - top), min(view.h, last + 1)


def _rows(step: Step, first: int, stop: int, begins: Mapping[int, int]) -> Step:
    """Rows [first, stop) of a step; ``begins``: the row that the memory of local storages begins with."""

    def cut(view: View, rows: tuple[int, int]) -> View:
        if view.h == 1:
            return view
        begin = rows[0] - begins.get(view.base, 0)
        return replace(view, offset=view.offset + begin * view.w * view.stride, h=rows[1] - rows[0])

    src = tuple(cut(view, _reads(step, index, first, stop)) for index, view in enumerate(step.src))
    params = step.params
    if "pads" in params:
        kernel, stride, dilation = _window(step)
        top, left, _, right = params["pads"]
        end = (stop - 1) * stride - top + (kernel - 1) * dilation + 1
        params = {**params, "pads": (max(0, top - first * stride), left, max(0, end - step.src[0].h), right)}
    return replace(step, src=src, dst=cut(step.dst, (first, stop)), params=params)


def _placed(step: Step, places: Mapping[int, tuple[int, int]]) -> Step:
    def placed(view: View | Strided) -> View | Strided:
        if view.base not in places:
            return view
        base, begin = places[view.base]
        return replace(view, base=base, offset=begin // item_bytes(view.dtype) + view.offset)

    return replace(step, src=tuple(map(placed, step.src)), dst=placed(step.dst))


# ---- what may take turns ----


def _can_take_turns(steps: Sequence[Step]) -> bool:
    """Whether no step overwrites what one before it may still read, or has yet to write."""
    for later, step in enumerate(steps):
        for earlier in steps[:later]:
            if any(_overlap(view, step.dst) for view in earlier.src):
                return False
            if _overlap(earlier.dst, step.dst) and step.dst not in step.src:
                return False
    return True


def _overlap(a: View, b: View) -> bool:
    """Whether elements of two views may be the same."""
    if a.base != b.base or not (_begin(a) < _end(b) and _begin(b) < _end(a)):
        return False
    alike = (a.dtype, a.stride, a.w, a.h) == (b.dtype, b.stride, b.w, b.h)
    if alike and abs(a.offset - b.offset) < a.stride:  # channels side by side
        return a.offset < b.offset + b.c and b.offset < a.offset + a.c
    return True


def _begin(view: View) -> int:
    return view.offset * item_bytes(view.dtype)


def _end(view: View) -> int:
    return (view.offset + (view.h * view.w - 1) * view.stride + view.c) * item_bytes(view.dtype)


def _one_pitch(views: Sequence[View]) -> bool:
    """Whether views of a storage have the same rows of pixels, channels of which they may leave out."""
    alike = {(view.h, view.w, view.stride, view.dtype) for view in views}
    return len(alike) == 1 and all(view.offset + view.c <= view.stride for view in views)


def _apart(steps: Sequence[Step], numbers: range, bands: Sequence[Band], local: Sequence[int]) -> bool:
    """Whether no two bands write the same rows of what others read, and none is left out."""
    shared = [number for number in numbers if steps[number].dst.base not in local]
    pairs = zip(bands, bands[1:], strict=False)
    return all(above.done[-1][n] == below.done[0][n] for above, below in pairs for n in shared)


# ---- rows of each strip ----


def _links(steps: Sequence[Step], numbers: range) -> dict[int, list[tuple[int, int]]]:
    """Of each step the later ones that read what it writes, and as which operand."""
    return {
        number: [
            (later, index)
            for later in numbers[number - numbers[0] + 1 :]
            for index, view in enumerate(steps[later].src)
            if _overlap(steps[number].dst, view)
        ]
        for number in numbers
    }


def _band(
    steps: Sequence[Step],
    links: Mapping[int, list[tuple[int, int]]],
    local: Sequence[int],
    band: tuple[int, int],
    count: int,
) -> Band:
    """The band (index, of so many) in ``count`` strips."""
    index, bands = band
    before: dict[int, int] = {}
    for number in reversed(links):
        consumers = [_reads(steps[n], operand, before[n], before[n] + 1)[0] for n, operand in links[number]]
        before[number] = min(consumers, default=steps[number].dst.h * index // bands) if index else 0
    done = [{number: before[number] for number in links}]
    for strip in range(index * count + 1, (index + 1) * count + 1):
        after: dict[int, int] = {}
        for number in reversed(links):
            rows = steps[number].dst.h
            wanted = [_reads(steps[n], operand, 0, after[n])[1] for n, operand in links[number] if after[n]]
            share = 0 if links[number] else rows * strip // (count * bands)
            after[number] = rows if strip == count * bands else max(share, done[-1][number], *wanted, 0)
        done.append({number: after[number] for number in links})
    return Band(done, {base: _begins(steps, done, base) for base in local})


def _begins(steps: Sequence[Step], done: Sequence[Mapping[int, int]], base: int) -> list[int]:
    """The row that a local storage begins with, before the first strip and after each: the first that is read or
    written later, once what is moved there would not overlap what it is moved from."""
    begins = [min(rows for number, rows in done[0].items() if steps[number].dst.base == base)]
    consumers = [(n, operand) for n in done[0] for operand, view in enumerate(steps[n].src) if view.base == base]
    writers = [number for number in done[0] if steps[number].dst.base == base]
    for after in done[1:]:
        read = [_reads(steps[n], i, after[n], after[n] + 1)[0] for n, i in consumers if after[n] < done[-1][n]]
        written = [after[number] for number in writers if after[number] < done[-1][number]]
        first = min([*read, *written], default=begins[-1])
        fits = _written(steps, after, base) - first <= first - begins[-1]
        begins.append(first if fits else begins[-1])
    return begins


def _written(steps: Sequence[Step], done: Mapping[int, int], base: int) -> int:
    """The row at which what is written of a storage ends."""
    return max(rows for number, rows in done.items() if steps[number].dst.base == base)


def _strip_bytes(steps: Sequence[Step], band: Band, base: int) -> int:
    """What a local storage takes: the most rows that it holds."""
    view = next(steps[number].dst for number in band.done[0] if steps[number].dst.base == base)
    pairs = zip(band.done[1:], band.begins[base], strict=False)
    rows = max(_written(steps, after, base) - begin for after, begin in pairs)
    return rows * view.w * view.stride * item_bytes(view.dtype)
