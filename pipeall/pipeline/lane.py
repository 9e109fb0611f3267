"""A lane of a plan, compiled and running: its programs, its rings, its native stages and the frames under way in it."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..errors import ArgumentError, DeviceError
from ..graph.ir import Graph
from ..graph.lower.lower import lower
from ..graph.memory import LINE_BYTES, stored_bytes
from ..graph.partition import border, branch, joined, subgraph
from ..steps import SLOT_IN, Lowered, SlotTensor
from . import runtime
from .devices.device import Component, ring_slots
from .front import front_unit, row_of
from .planning.forks import levels, links
from .planning.plan import Plan, StagePlan, borders
from .planning.rings import slots_behind, under_way
from .planning.schedule_plan import RealUnit
from .shared_units import SharedUnits
from .stats import StageCounters
from .trace import StageTrace

READ_EXACTLY = frozenset("copy maxpool avgpool unary binary pointwise pad gather gather_elements".split())  # of float32
LOG_FRAMES = 4096  # latest frames of a stage that a recording keeps; a row has some hundred numbers


@dataclass(frozen=True, slots=True)
class Stage:
    """A sub-graph compiled for a unit: groups [first, last), and behind it ``floating`` more."""

    unit: Component
    groups: tuple[int, int]
    floating: int
    program: Any


def lowered_stages(
    graph: Graph, stages: Sequence[StagePlan], units: Sequence[Component] | None = None, *, timed: bool = False
) -> list[Lowered]:
    """What each stage of a lane computes; without ``units`` as those do that have kernels for integers. ``timed``: what
    a unit computes in strips may be timed on it.

    Raises ArgumentError for groups that the network does not have, and for a unit of integers where it has none.
    """
    for unit in units or ():
        if unit.device.precision == "int8" and not graph.quantized:
            raise ArgumentError(
                f"{unit.name}: expected a network that pipeall quantize makes, {graph.name} is of floats"
            )
    ranges = list(borders(stages, len(graph.groups), graph.name))
    traits = [(True, False, False, None)] * len(ranges)
    if units is not None:
        devices = [unit.device for unit in units]
        traits = [(device.int8, device.fp16, device.silu, device.cache(timed)) for device in devices]
    return [
        lower(
            part,
            border(graph, first, first_late, first) if first_late > first else None,
            border(graph, first, last) if last_late > last else None,
            int8=int8,
            fp16=fp16,
            silu=silu,
            cache=cache,
        )
        for part, (first, first_late, last, last_late), (int8, fp16, silu, cache) in zip(
            _parts(graph, stages, ranges), ranges, traits, strict=True
        )
    ]


def _parts(graph: Graph, stages: Sequence[StagePlan], ranges: Sequence[tuple[int, int, int, int]]) -> list[Graph]:
    """The sub-graph of each stage."""
    parts: list[Graph] = []
    before = range(1)
    for level in levels(stages):
        first, last = ranges[level.start][0], ranges[level[-1]][2]
        if len(level) > 1:
            parts += [branch(graph, ranges[index][0], ranges[index][2], (first, last)) for index in level]
        else:
            _, _, last, last_late = ranges[level.start]
            part = subgraph(graph, first, last_late, last)
            parts.append(joined(part, [parts[index] for index in before]) if len(before) > 1 else part)
        before = level
    return parts


def results(graph: Graph, lowered: Sequence[Lowered]) -> tuple[list, list]:
    """Where a lane's stages leave the outputs of the network: ``outputs`` and ``leaves`` of ``runtime.NativeLane``.

    Those that leave early lie in a block one after the other, each from a cache line on.
    """
    outputs = {slot.name: (False, slot.offset_bytes, slot.shape, slot.dtype) for slot in lowered[-1].slot_out}
    leaves, end = [[] for _ in lowered], 0
    for part, copies in zip(lowered, leaves, strict=True):
        for slot in part.leaves:
            copies.append((slot.offset_bytes, end, slot.nbytes))
            outputs[slot.name] = (True, end, slot.shape, slot.dtype)
            end += _lines(slot)
    return [outputs[tensor.name] for tensor in graph.leaving], leaves


def read_in_place(part: Lowered) -> int:
    """The bytes of what comes in, where it is a tensor alone that only steps of READ_EXACTLY read, or copies; else 0.
    Kernels of others may read beyond an end, and want its elements on the border of a line."""
    if len(part.slot_in) != 1 or part.slot_in[0].nhwc:
        return 0
    reads = {step.kind for step in part.steps if any(operand.base == SLOT_IN for operand in (*step.src, step.dst))}
    exact = reads <= (READ_EXACTLY if part.slot_in[0].dtype == "float32" else {"copy", "pad"})
    return part.slot_in[0].nbytes if exact else 0


def block_bytes(part: Lowered) -> int:
    """What a stage's early outputs take of a block."""
    return sum(map(_lines, part.leaves))


def _supported(
    graph: Graph, stages: Sequence[StagePlan], lowered: list[Lowered], units: Sequence[Component]
) -> list[Lowered]:
    """The stages, each on a unit that can run it."""
    every = borders(stages, len(graph.groups), graph.name)
    for part, unit, stage, ends in zip(lowered, units, stages, every, strict=True):
        if reason := unit.device.unsupported(part):
            ranges = unit.device.ranges(graph)
            if ranges is not None and not ranges.may_be(ends):
                reason = ranges.refusal(stage.unit, ends, str(Plan((tuple(stages),))), graph.name)
            raise DeviceError(f"stage {unit.name}: expected groups that it can run; {reason}")
    return lowered


def _compiled(
    lowered: Sequence[Lowered],
    units: Sequence[Component],
    real: Sequence[RealUnit],
    batches: Sequence[int],
    record: bool,
    packed: MutableMapping[Any, Any],
    shared: SharedUnits,
) -> list[Any]:
    """The program of each stage. Those of one unit share what the one with the largest arena has, and that one what the
    unit's first program has."""
    programs: dict[int, Any] = {}
    largest: dict[RealUnit, Any] = {}
    for index in sorted(range(len(lowered)), key=lambda index: -lowered[index].arena_bytes * batches[index]):
        device, name, unit = units[index].device, units[index].name, real[index]
        beside = {"beside": largest.get(unit, shared.program(unit)), "packed": packed} if device.shares else {}
        together = {"batch": batches[index]} if batches[index] > 1 else {}
        programs[index] = device.compile(lowered[index], name, record=record, **beside, **together)
        largest.setdefault(unit, programs[index])
        shared.add(unit, programs[index])
    return [programs[index] for index in range(len(lowered))]


def _rings(
    plans: Sequence[StagePlan], stages: Sequence[Stage], lowered: Sequence[Lowered], slots: int, depth: int | None
) -> tuple[list[tuple[int, int, list, list]], int]:
    """The rings, as ``runtime.NativeLane`` has them, and the most frames under way."""
    # A program that holds several frames at once holds as many slots on both of its sides. And the first ring holds
    # all that may be under way: whoever submits waits for results only, never for space too.
    held = [stage.program.depth - 1 for stage in stages]
    depth = under_way(plans, depth) + (sum(held) if depth is None else 0)
    rings: list[tuple[int, int, list, list]] = []
    for sender, receiver, fills, reads, nbytes in ring_ends(plans, lowered):
        at_work = [stages[sender]] * fills + [stages[receiver]] * reads
        owners = [stage.program for stage in at_work if stage.unit.device.owns_slots]
        count = slots + sum(held[index] for index in (sender, receiver) if index >= 0)
        count = max(count, depth) if sender < 0 else slots_behind(plans, sender, count)
        inside = min(sender, receiver) >= 0 and not (fills and reads)
        pieces = _pieces(lowered[sender].slot_out, lowered[receiver].slot_in) if inside else []
        rings.append((sender, receiver, ring_slots(owners, nbytes, count), pieces))
    return rings, depth


class RingEnds(NamedTuple):
    """The stages at both ends of a ring, -1 for the host; whether the programs there fill it and read it, or another
    one beside it; bytes of a slot."""

    sender: int
    receiver: int
    fills: bool
    reads: bool
    nbytes: int


def ring_ends(plans: Sequence[StagePlan], lowered: Sequence[Lowered]) -> list[RingEnds]:
    """All rings of a lane. Of several rings of a stage its program fills, and reads, the first."""
    rings: list[RingEnds] = []
    for sender, receiver in links(plans):
        fills = sender >= 0 and all(ring.sender != sender for ring in rings)
        reads = receiver >= 0 and all(ring.receiver != receiver for ring in rings)
        sizes = [lowered[sender].slot_out_bytes] * fills + [lowered[receiver].slot_in_bytes] * reads
        rings.append(RingEnds(sender, receiver, fills, reads, max(sizes)))
    return rings


def _pieces(given: Sequence[SlotTensor], read: Sequence[SlotTensor]) -> list[tuple[int, int, int]]:
    """What of one slot lies in another: (offset in the one, offset in the other, bytes) of each tensor of both."""
    at = {slot.name: slot.offset_bytes for slot in read}
    return [(slot.offset_bytes, at[slot.name], stored_bytes(slot)) for slot in given if slot.name in at]


def _lines(slot: SlotTensor) -> int:
    return -slot.nbytes // LINE_BYTES * -LINE_BYTES


class Lane:
    """Runs ``stages`` on ``units`` from when it is made until ``close``.

    real    the unit that serves each stage; ``shared``: what lanes on one unit have in common
    number  what its counters and traces are filed under
    gate    changes when the lane has room or a result
    slots   per ring, but for the first
    depth   most frames under way: submitted and not yet taken out of the lane; None: one more than stages work on and
            one for each floating cut; 0: one for each unit
    packed  weights that the lanes of a pipeline share, as for ``Device.compile``
    record  keep a log of the latest LOG_FRAMES frames of each stage, for ``traces``
    fault   (stage, frame) at which a stage reports an error
    spare   what a picture's step runs on where the first unit has no kernel for it: a stage in front (``front.py``)

    One thread at a time may submit, one take results. Raises ArgumentError for groups the network does not have,
    DeviceError for those that a unit has no kernels for.
    """

    def __init__(
        self,
        graph: Graph,
        stages: Sequence[StagePlan],
        units: Sequence[Component],
        real: Sequence[RealUnit],
        shared: SharedUnits,
        gate: runtime.Gate,
        *,
        number: int,
        slots: int,
        depth: int | None,
        packed: MutableMapping[Any, Any],
        record: bool = False,
        fault: tuple[int, int] | None = None,
        spare: Component | None = None,
    ):
        self.number, self._gate = number, gate
        self.stages: list[Stage] = []
        borders(stages, len(graph.groups), graph.name)  # refuses a plan by its own groups
        self._front = len(stages)
        graph, stages, units, ranges = row_of(graph, stages, units, spare)
        self._front = len(stages) - self._front
        lowered = _supported(graph, stages, lowered_stages(graph, stages, units, timed=True), units)
        real = [front_unit(units[0].name)] * self._front + list(real)
        programs = _compiled(lowered, units, real, [stage.unit.batch for stage in stages], record, packed, shared)
        for stage, unit, groups, program in zip(stages, units, ranges, programs, strict=True):
            self.stages.append(Stage(unit, groups, stage.floating, program))
        rings, depth = _rings(stages, self.stages, lowered, slots, depth)
        self._links = links(stages)
        self.slot_in = lowered[0].slot_in
        outputs, leaves = results(graph, lowered)
        self.started_ns = runtime.now_ns()
        names = [str(stage.unit.name) for stage in self.stages]
        fault = fault and (fault[0] + self._front, fault[1])
        self.native = runtime.NativeLane(
            names,
            shared.threads(real, units),
            programs,
            rings,
            outputs,
            gate,
            depth,
            leaves,
            shares=[stage.share for stage in stages],
            in_place=read_in_place(lowered[0]) if len(lowered) == 1 else 0,
            fault=fault,
            log_frames=LOG_FRAMES if record else 0,
        )

    @property
    def under_way(self) -> int:
        """Frames submitted whose results have not been taken out of the lane."""
        return self.native.under_way

    def try_result(self, frames: runtime.Frames) -> bool:
        """Hands the lane's oldest result to ``frames``, if one is ready."""
        if not self.native.try_result(frames):
            return False
        self._gate.signal()  # there is room for another frame
        return True

    def counters(self) -> list[StageCounters]:
        """What its stages have done so far."""
        return [
            StageCounters(self.number, number, stage.unit.name, stage.groups, started_ns=self.started_ns, **row)
            for number, (stage, row) in enumerate(zip(self.stages, self.native.counters(), strict=True))
        ]

    def traces(self) -> list[StageTrace]:
        """The log of each stage, after ``close``."""
        return [
            StageTrace(
                self.number,
                number,
                stage.unit.name,
                stage.unit.device.queued,
                (stage.groups[0], stage.groups[1] + stage.floating),
                stage.program.labels,
                rows,
                stage.program.algorithms,
                stage.program.step_of,
                tuple(sender for sender, receiver in self._links if receiver == number and sender >= 0),
            )
            for number, (stage, rows) in enumerate(zip(self.stages, self.native.log(), strict=True))
        ]

    def set_paces(self, ms: Sequence[float | Sequence[float]]) -> None:
        """How long each stage takes at least, from its next frame on; 0: as long as it computes.

        One number, or one for each way to run a frame (``runtime.NativeLane.set_pace``).
        """
        for stage, least in enumerate(ms, self._front):
            ways = least if isinstance(least, Sequence) else [least]
            self.native.set_pace(stage, [round(way * 1e6) for way in ways] * (4 // len(ways)))

    def close(self) -> None:
        """Ends the stages; frames inside are dropped. Safe to call twice."""
        self.native.close()
