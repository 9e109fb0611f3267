"""``pipeall devices``: the components of this machine, the kernels each will run and why, and what can be forced."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from operator import itemgetter
from typing import Any

import click

from ... import env
from ..._kernels.cpu.cluster import format_cores
from ...pipeline.boards import machine
from ...pipeline.boards.board import Board
from ...pipeline.devices.device import Component
from ...pipeline.planning.profile import slow_clocks
from ..options import Command, json_option
from ..output import print_json
from ..tables import print_table, print_text

SHOWN = ("component", "letter", "kind", "description", "kernels")  # elsewhere on the screen
MORE = "pipeall devices --kernels adds why, caches, every kernel with its reason, and all variables."


@click.command(cls=Command)
@click.option("--kernels", is_flag=True, help="Also caches, all kernels with the reason, and every PIPEALL_* variable.")
@json_option
def devices(kernels: bool, as_json: bool) -> None:
    """Show the processors of this machine under the names that plans use.

    \b
    pipeall devices
    pipeall devices --kernels
    PIPEALL_ISA=ref pipeall devices

    --json has all of it.
    """
    board = Board.detect()
    rows = board.describe()
    for row, component in zip(rows, board.components.values(), strict=True):
        if choices := component.device.kernels():
            row["kernels"] = [asdict(kernel) | {"why": why} for kernel, why in choices]
    variables = [variable._asdict() | {"value": os.environ.get(variable.name)} for variable in env.VARIABLES]
    if as_json:
        print_json("devices", components=rows, gpu_missing=board.gpu_missing, variables=variables)
        return
    headings = ["", "name", "processor", ">width", ">MHz", "computes with"]
    print_table("Components", headings, map(_component_row, board.components.values()))
    if board.gpu_missing:
        print_text(f"No gpu: {board.gpu_missing}")
    if clocks := slow_clocks(machine.state(board)):
        print_text(f"Clocks are below their top: {clocks}")
    if kernels:
        _show_details(rows)
        print_table("Variables", ["name", "meaning", "default", "value"], [variable.values() for variable in variables])
    else:
        for variable in variables:
            if variable["value"]:
                print_text(f"{variable['name']}={variable['value']}: {variable['meaning']}")
        print_text(MORE)


def _component_row(component: Component) -> tuple[object, ...]:
    device = component.device
    processor = f"{device.core_type} (CPU stand-in)" if device.stand_in else device.core_type
    mhz = device.max_mhz and round(device.max_mhz)
    return component.letter, component.name, processor, device.width, mhz, device.computes_with


def _show_details(rows: Sequence[Mapping[str, Any]]) -> None:
    """What is known of each component, and every kernel it could take with the reason."""
    for row in rows:
        known = {key: value for key, value in row.items() if key not in SHOWN and value is not None}
        print_table(f"{row['component']}: {row['description']}", ["", ""], map(_detail, known.items()))
        kernels = sorted(row.get("kernels", ()), key=itemgetter("op"))
        if kernels:
            cells = [(k["op"], k["name"], k["isa"], k["core"], k["why"]) for k in kernels]
            headings = ["op", "kernel", "instructions", "core", "why"]
            print_table(f"Kernels of {row['component']}", headings, cells)


def _detail(entry: tuple[str, Any]) -> tuple[str, object]:
    key, value = entry
    if key == "cores":
        return key, format_cores(value)
    if key.endswith("_bytes"):
        return key.removesuffix("_bytes") + " KiB", value // 1024
    return key.replace("_", " "), " ".join(value) if isinstance(value, tuple) else value
