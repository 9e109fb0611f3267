"""``pipeall profile --tune-gpu``: every way to compute each convolution timed on an OpenCL device, the fastest kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from ...errors import ArgumentError
from ...graph.ir import Graph
from ...pipeline.boards.board import Board
from ...pipeline.devices.device import Tuned
from ..output import print_json, progress
from ..tables import print_table


def show_tuning(graphs: Sequence[Graph], names: Sequence[str] | None, as_json: bool) -> None:
    """Tunes one component, by default the GPU, and prints what it gains."""
    board = Board.detect()
    if names is not None and len(names) != 1:
        raise ArgumentError(f"--units: expected one component beside --tune-gpu, got {', '.join(names)}")
    component = board.component(names[0] if names else "gpu")
    found: list[list[Tuned]] = []
    with progress() as bar:
        for graph in graphs:
            task = bar.add_task(graph.name, total=None)

            def show(shape: str, done: int, total: int, task=task, name=graph.name) -> None:
                bar.update(task, description=f"{name}: {shape}", completed=done, total=total)

            found.append(component.device.tune(graph, show))
            bar.remove_task(task)
    if as_json:
        networks = [
            {"network": graph.name, "shapes": [asdict(tuned) for tuned in rows]}
            for graph, rows in zip(graphs, found, strict=True)
        ]
        print_json("gpu-tuning", component=component.description, networks=networks)
        return
    for graph, rows in zip(graphs, found, strict=True):
        headings = ["shape", "default", ">us", "fastest", ">us", ">gain"]
        title = f"{graph.name}: convolutions on {component.description}; the fastest are used from now on"
        print_table(title, headings, map(_row, rows))


def _row(tuned: Tuned) -> tuple[str, ...]:
    gain = f"{100 * (tuned.default_us / tuned.best_us - 1):.0f} %"
    return tuned.shape, tuned.default, f"{tuned.default_us:.0f}", tuned.best, f"{tuned.best_us:.0f}", gain
