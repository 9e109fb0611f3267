"""What ``pipeall run`` prints: answers as they come, as text or as lines of JSON, and figures at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...media.crops import Crop
from ...media.sources import MediaFrame
from ...pipeline.boards.board import Board
from ...pipeline.live import LiveResult
from ...pipeline.planning.units import Unit
from ...pipeline.stats import groups_text
from ...tasks import Answer
from ..output import component_text, print_json_line
from ..tables import print_table, print_text
from .run_loop import Ran

PARTS = {"classify": "classes", "detect": "boxes", "points": "boxes", "text": "texts"}  # there even where empty


def print_line(seen: LiveResult) -> None:
    """An answer as a line of JSON, its format first."""
    print_json_line("answer", **content(seen))


def content(seen: LiveResult) -> dict[str, Any]:
    """An answer with where and when it is from, as JSON knows it; of a part of a picture also which."""
    part = seen.frame if isinstance(seen.frame, Crop) else None
    root = part.root if part else seen
    frame: MediaFrame = root.frame
    about = {"source": frame.source.name, "number": frame.number, "time_s": frame.time_s}
    if part:
        left, top, right, bottom = part.area
        about |= {"box": list(part.path), "crop": [left, top, right - left, bottom - top]}
    about |= {
        "captured_ns": root.captured_ns,
        "ready_ns": seen.ready_ns,
        "latency_ms": round((seen.ready_ns - root.captured_ns) / 1e6, 3),
    }
    kind = PARTS.get(seen.result.task)
    return about | ({kind: []} if kind else {}) | seen.result.to_dict()


class Shown:
    """Prints answers: a table for each photo; for videos and cameras a line where other things are seen than before;
    for parts of pictures a line each. ``network``: which one, where there are several."""

    def __init__(self, network: str = "") -> None:
        self._last, self._begin = "", f"{network}: " if network else ""

    def __call__(self, seen: LiveResult) -> None:
        part = seen.frame if isinstance(seen.frame, Crop) else None
        frame: MediaFrame = part.root.frame if part else seen.frame
        photo = frame.source.kind == "photo"
        if photo and not part:
            _print_answer(self._begin + frame.source.name, seen.result)
            return
        line = summary(seen.result)
        if part or line != self._last or not frame.number:
            at = "" if frame.time_s is None else f" {frame.time_s:.2f} s"
            at += "" if photo else f" frame {frame.number}"
            at += f" box {'.'.join(map(str, part.path))}" if part else ""
            print_text(f"{self._begin}{frame.source.name}{at}: {line or 'nothing'}")
        self._last = line


def summary(answer: Answer) -> str:
    """What is seen in a few words: "2 person, dog"."""
    words = [guess.name for guess in answer.classes[:1]]
    words += [f"{count} {name}" if count > 1 else name for name, count in Counter(b.name for b in answer.boxes).items()]
    words += [line.text or "a line of text" for line in answer.texts]
    words += [] if answer.mask is None else [part["category"] or "foreground" for part in answer.mask.to_dict()]
    words += [] if answer.vector is None else [f"a vector of {answer.vector.size} numbers"]
    return ", ".join(words)


def _print_answer(title: str, answer: Answer) -> None:
    headings, rows = _rows(answer)
    if rows:
        print_table(title, headings, rows)
    else:
        print_text(f"{title}: {summary(answer) or 'nothing'}")


def _rows(answer: Answer) -> tuple[list[str], list[tuple[Any, ...]]]:
    if answer.classes:
        if all(guess.name == str(guess.label) for guess in answer.classes):  # it has no names
            return [">probability", ">class"], [(f"{guess.score:.4f}", guess.label) for guess in answer.classes]
        rows = [(f"{guess.score:.4f}", guess.label, guess.name) for guess in answer.classes]
        return [">probability", ">class", "label"], rows
    if answer.boxes:
        edges = ("left", "top", "right", "bottom")
        rows = [
            (f"{box.score:.4f}", box.name, *(f"{getattr(box, edge):.0f}" for edge in edges)) for box in answer.boxes
        ]
        return [">score", "name", *(f">{edge}" for edge in edges)], rows
    if answer.texts:
        scores = [(f"{line.score:.4f}", line.text) for line in answer.texts]
        if not any(line.corners for line in answer.texts):
            return [">score", "text"], scores
        corners = (" ".join(f"{x:.0f},{y:.0f}" for x, y in line.corners) for line in answer.texts)
        return [">score", "text", "corners"], [(*row, at) for row, at in zip(scores, corners, strict=True)]
    if answer.mask is not None:
        whole = answer.size[0] * answer.size[1]
        parts = answer.mask.to_dict()
        return [">% of the picture", "name"], [
            (f"{100 * part['area'] / whole:.1f}", part["category"] or "foreground") for part in parts
        ]
    return [], []


def print_figures(ran: Ran, board: Board, memory: Mapping[str, int]) -> None:
    stats, whole = ran.stats, ran.with_decoding
    counted = f"; after {ran.warm_up} of warm-up {stats.frames}" if ran.warm_up else ""
    print_text(
        f"{ran.plan}: {ran.frames} frames{counted} in {whole['seconds']:.2f} s, {whole['fps']:.2f} FPS with decoding, "
        f"latency p50 {stats.latency_p50_ms:.1f} ms, p95 {stats.latency_p95_ms:.1f} ms, "
        f"p99 {stats.latency_p99_ms:.1f} ms"
    )
    each = ", ".join(f"{name} {ms:.2f}" for name, ms in ran.each_ms.items() if ms)
    print_text(f"Without: the stages could do {ran.stages_fps:.2f} FPS. Beside them, mean ms a frame: {each}")
    if ran.each_ms["read"] is None:
        print_text(
            f"From capture to answer p50 {stats.live_p50_ms:.1f} ms, p95 {stats.live_p95_ms:.1f} ms; "
            f"{ran.dropped} frames dropped"
        )
    parts = ", ".join(f"{part} {size / 1e6:.1f}" for part, size in memory.items() if part != "peak")
    print_text(f"Memory {memory['peak'] / 1e6:.1f} MB at most: {parts} (Python, the network as read, pictures)")
    for name, of in stats.sources.items():
        print_text(
            f"{name}: {of.frames} frames, {of.fps:.2f} FPS, {of.dropped} dropped, from capture to answer p50 "
            f"{of.live_p50_ms:.1f} ms, p95 {of.live_p95_ms:.1f} ms",
            hang=4,
        )
    if ran.unread:
        print_text(f"{ran.unread} could not be read")
    for move in ran.moves:
        print_text(f"Moved to {move.plan} at frame {move.frame}: {move.why}", hang=4)
    print_text()
    rows = [
        (
            component_text(replace(board.component(Unit.parse(stage.unit).whole), name=stage.unit)),
            groups_text(stage.groups),
            *(f"{ms:.2f}" for ms in (stage.busy_ms, stage.wait_in_ms, stage.wait_out_ms, stage.map_ms, stage.copy_ms)),
            f"{100 * stage.use:.0f}",
        )
        for stage in stats.stages
    ]
    headings = ["component", "groups", ">busy", ">wait in", ">wait out", ">map", ">copy", ">use %"]
    print_table("Stages: mean ms a frame", headings, rows)
    for unit in stats.units:
        if unit.stages > 1:
            print_text(f"{unit.unit} serves {unit.stages} stages: {unit.busy_ms:.2f} ms a frame, use {unit.use:.0%}")
