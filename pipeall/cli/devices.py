"""``pipeall devices``: the components of this machine, the kernels each will run and why, and what can be forced."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from operator import itemgetter
from typing import Any

import click

from .. import env
from .._kernels.cpu.cluster import format_cores
from ..pipeline.boards.board import Board
from .output import json_option, print_json, print_table


@click.command()
@json_option
def devices(as_json: bool) -> None:
    """Show the components of this machine, the kernels of each with the reason, and the PIPEALL_* variables.

    \b
    pipeall devices
    PIPEALL_ISA=ref pipeall devices
    """
    board = Board.detect()
    rows = board.describe()
    for row, component in zip(rows, board.components.values(), strict=True):
        if kernels := component.device.kernels():
            row["kernels"] = [asdict(kernel) | {"why": why} for kernel, why in kernels]
    variables = [variable._asdict() | {"value": os.environ.get(variable.name)} for variable in env.VARIABLES]
    if as_json:
        print_json("devices", components=rows, gpu_missing=board.gpu_missing, variables=variables)
        return
    clusters = [row for row in rows if row["kind"] == "cpu"]
    headings = ["", "component", "cores", "type", "instructions", ">MHz", ">L1d KiB", ">L2 KiB", ">L3 KiB", "why"]
    print_table("CPU clusters", headings, map(_cluster_row, clusters))
    headings = ["", "component", "device", "vendor", "driver", ">units", "memory", "fp16", "why"]
    gpus = [_gpu_row(row) for row in rows if row["kind"] == "opencl"]
    print_table("OpenCL devices" if gpus else f"No gpu: {board.gpu_missing}", headings if gpus else [], gpus)
    for row in clusters:
        kernels = [
            (k["op"], k["name"], k["isa"], k["core"], k["why"]) for k in sorted(row["kernels"], key=itemgetter("op"))
        ]
        print_table(f"Kernels of {row['component']}", ["op", "kernel", "instructions", "core", "why"], kernels)
    rows = [variable.values() for variable in variables]
    print_table("Variables", ["name", "meaning", "default", "value"], rows)


def _cluster_row(row: Mapping[str, Any]) -> tuple[object, ...]:
    caches = (row[f"{level}_bytes"] and row[f"{level}_bytes"] // 1024 for level in ("l1d", "l2", "l3"))
    mhz = row["max_mhz"] and round(row["max_mhz"])
    isas = " ".join(row["isas"])
    return row["letter"], row["component"], format_cores(row["cores"]), row["core_type"], isas, mhz, *caches, row["why"]


def _gpu_row(row: Mapping[str, Any]) -> tuple[object, ...]:
    device = f"{row['device']} ({row['platform']})"
    memory = "shared with the CPU" if row["unified_memory"] else "its own"
    return (
        row["letter"],
        row["component"],
        device,
        row["vendor"],
        row["driver"],
        row["compute_units"],
        memory,
        "yes" if row["fp16"] else "no",
        row["why"],
    )
