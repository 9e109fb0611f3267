"""Files of what each way to compute a shape takes, ``{shape: {way: us}}``; they lie in the cache folder."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import ArgumentError
from ...files import JsonReader, read_json, write_json
from ...steps import Step

Shapes = dict[str, dict[str, float]]


def shape_key(step: Step) -> str:
    """All of a convolution that its time depends on, but for the device."""
    x, y, p = step.src[0], step.dst, step.params
    kernel, pads = "x".join(map(str, p["kernel"])), ".".join(map(str, p["pads"]))
    strides = "" if p["strides"] == (1, 1) else f" s{'x'.join(map(str, p['strides']))}"
    dilations = "" if p["dilations"] == (1, 1) else f" d{'x'.join(map(str, p['dilations']))}"
    residual = " residual" if len(step.src) > 1 else ""
    return f"{x.h}x{x.w}x{x.c}-{y.c} k{kernel}{strides}{dilations} p{pads} g{p['groups']}{residual}"


def read_times(path: Path, kind: str) -> Shapes:
    """The times in a file; none where it does not exist, is damaged, or was written by another version."""
    try:
        content = read_json(path, kind)
        if content.get("version") != _version():
            return {}
        shapes: Shapes = {}
        for key, times in JsonReader(content, str(path)).inside("us").content.items():
            row = JsonReader(times, f"{path}: {key}")
            shapes[key] = {name: row.number(name, low=0) for name in row.content}
        return shapes
    except ArgumentError:
        return {}


def keep_times(path: Path, kind: str, learned: Mapping[str, Mapping[str, float]]) -> None:
    """Adds times to a file; one that cannot be written is a warning."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        shapes = {**read_times(path, kind), **learned}  # another process may have written meanwhile
        write_json(path, kind, {"version": _version(), "us": shapes})
    except (OSError, ArgumentError) as error:
        warnings.warn(f"timings of {kind} are not kept: {error}", stacklevel=3)


def _version() -> Any:
    from ... import __version__

    return __version__
