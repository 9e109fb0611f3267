"""Cached files of what each way to compute a shape takes, ``{shape: {way: us}}``.

One file can hold the content of all of them, to ship with a program: ``export_times`` writes it, ``PIPEALL_TUNING``
names it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ... import __version__, env
from ...cache import all_cached, read_cached, write_cached
from ...errors import ArgumentError
from ...files import JsonReader, read_json, write_json
from ...steps import Step

Shapes = dict[str, dict[str, float]]
ALGORITHMS, OPENCL_METHODS = KINDS = "algorithms", "opencl-methods"
EXPORTED = "tuning"


def shape_key(step: Step) -> str:
    """All of a convolution that its time depends on, but for the device."""
    x, y, p = step.src[0], step.dst, step.params
    kernel, pads = "x".join(map(str, p["kernel"])), ".".join(map(str, p["pads"]))
    strides = "" if p["strides"] == (1, 1) else f" s{'x'.join(map(str, p['strides']))}"
    dilations = "" if p["dilations"] == (1, 1) else f" d{'x'.join(map(str, p['dilations']))}"
    residual = " residual" if len(step.src) > 1 else ""
    silu = " silu" if p.get("silu") else ""
    return f"{x.h}x{x.w}x{x.c}-{y.c} k{kernel}{strides}{dilations} p{pads} g{p['groups']}{silu}{residual}"


def known_times(path: Path, kind: str) -> Shapes:
    """The times in a cached file, and those that were shipped for it. ArgumentError where what was shipped does not
    serve."""
    shipped = env.tuning()
    return {**(shipped_times(shipped, path.stem) if shipped else {}), **read_times(path, kind)}


def shipped_times(path: Path, name: str) -> Shapes:
    """The times of one file among those of ``export_times``; none where it was not there. Raises ArgumentError."""
    content = read_json(path, EXPORTED)
    if content.get("version") != __version__:
        version = content.get("version")
        raise ArgumentError(
            f"PIPEALL_TUNING: {path}: expected times of pipeall {__version__}, got those of {version!r:.40}"
        )
    files = JsonReader(content, str(path)).inside("files")
    return _shapes(files.inside(name).content, f"{path}: {name}") if name in files.content else {}


def export_times(path: str | Path) -> int:
    """Writes all that the cache folder has into one file; how many shapes. ArgumentError where it has none."""
    cached = {file.stem: known_times(file, kind) for kind in KINDS for file in all_cached(kind)}
    files = {name: times for name, times in cached.items() if times}
    if not files:
        raise ArgumentError(f"{env.cache_dir()}: expected timings to export, found none; an engine makes them")
    write_shipped(path, files)
    return sum(map(len, files.values()))


def write_shipped(path: str | Path, files: Mapping[str, Shapes]) -> None:
    write_json(path, EXPORTED, {"version": __version__, "files": files})


def read_times(path: Path, kind: str) -> Shapes:
    """The times in a cached file; none where it is absent or damaged."""
    try:
        return _shapes(JsonReader(read_cached(path, kind), str(path)).inside("us").content, str(path))
    except ArgumentError:
        return {}


def add_times(path: Path, kind: str, new: Mapping[str, Mapping[str, float]]) -> None:
    """Adds times to a cached file; one that cannot be written is a warning."""
    try:
        write_cached(path, kind, {"us": {**read_times(path, kind), **new}})  # another process may have added some
    except ArgumentError as error:
        warnings.warn(f"timings of {kind} are not kept: {error}", stacklevel=3)


def _shapes(content: Mapping[str, Any], where: str) -> Shapes:
    rows = {key: JsonReader(times, f"{where}: {key}") for key, times in content.items()}
    return {key: {name: row.number(name, low=0) for name in row.content} for key, row in rows.items()}
