"""``pipeall devices``: the components of this machine, the kernels each will run and why, and what can be forced."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from operator import itemgetter
from typing import Any

import click

from .. import env
from .._kernels.cpu.cluster import Cluster, format_cores
from .._kernels.cpu.table import explain
from ..pipeline.boards.board import Board
from .options import json_option
from .output import print_json
from .tables import print_table, print_text

MORE = "pipeall devices --kernels adds why, caches, every kernel with its reason, and all variables."


@click.command()
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
        if component.cluster:
            row["kernels"] = _kernels(component.cluster)
    variables = [variable._asdict() | {"value": os.environ.get(variable.name)} for variable in env.VARIABLES]
    if as_json:
        print_json("devices", components=rows, gpu_missing=board.gpu_missing, variables=variables)
        return
    clusters = [row for row in rows if row["kind"] == "cpu"]
    gpus = [row for row in rows if row["kind"] == "opencl"]
    _show_components(clusters, gpus, board.gpu_missing)
    if kernels:
        _show_details(clusters, gpus)
        print_table("Variables", ["name", "meaning", "default", "value"], [variable.values() for variable in variables])
    else:
        for variable in variables:
            if variable["value"]:
                print_text(f"{variable['name']}={variable['value']}: {variable['meaning']}")
        print_text(MORE)


def _kernels(cluster: Cluster) -> list[dict[str, Any]]:
    """Every row of the kernel list with why it is taken or not."""
    return [asdict(row) | {"why": why} for row, why in explain(cluster.isas, cluster.core_type)]


def _show_components(clusters: Sequence[Mapping], gpus: Sequence[Mapping], gpu_missing: str | None) -> None:
    cells = [
        (row["letter"], row["component"], row["core_type"], len(row["cores"]), _mhz(row), " ".join(row["isas"]))
        for row in clusters
    ] + [
        (row["letter"], row["component"], _gpu_text(row), row["compute_units"], None, _precisions(row)) for row in gpus
    ]
    print_table("Components", ["", "name", "processor", ">cores", ">MHz", "computes with"], cells)
    if gpu_missing:
        print_text(f"No gpu: {gpu_missing}")


def _gpu_text(row: Mapping[str, Any]) -> str:
    return f"{row['device']} (CPU stand-in)" if row["stand_in"] else row["device"]


def _precisions(row: Mapping[str, Any]) -> str:
    return "fp32 fp16" if row["fp16"] else "fp32"


def _mhz(row: Mapping[str, Any]) -> int | None:
    return row["max_mhz"] and round(row["max_mhz"])


def _show_details(clusters: Sequence[Mapping], gpus: Sequence[Mapping]) -> None:
    headings = ["component", "cores", ">L1d KiB", ">L2 KiB", ">L3 KiB", "why"]
    print_table("CPU clusters", headings, map(_cluster_row, clusters))
    headings = ["component", "platform", "vendor", "driver", "memory", "why"]
    if gpus:
        print_table("OpenCL devices", headings, map(_gpu_row, gpus))
    for row in clusters:
        kernels = [
            (k["op"], k["name"], k["isa"], k["core"], k["why"]) for k in sorted(row["kernels"], key=itemgetter("op"))
        ]
        print_table(f"Kernels of {row['component']}", ["op", "kernel", "instructions", "core", "why"], kernels)


def _cluster_row(row: Mapping[str, Any]) -> tuple[object, ...]:
    caches = (row[f"{level}_bytes"] and row[f"{level}_bytes"] // 1024 for level in ("l1d", "l2", "l3"))
    return row["component"], format_cores(row["cores"]), *caches, row["why"]


def _gpu_row(row: Mapping[str, Any]) -> tuple[object, ...]:
    memory = "shared with the CPU" if row["unified_memory"] else "its own"
    return row["component"], row["platform"], row["vendor"], row["driver"], memory, row["why"]
