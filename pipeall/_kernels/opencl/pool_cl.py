"""Launches of pool.cl."""

from __future__ import annotations

from math import ceil

from ...steps import Step
from .recorder import Base, Kind, Recorder, at, float32_only


def pool(recorder: Recorder, step: Step) -> None:
    x, out, p = step.src[0], step.dst, step.params
    window = (*p["kernel"], *p["strides"], *p["pads"][:2])
    if step.kind == "maxpool":
        window += p["dilations"]
    else:
        window += p["pads"] if p["count_include_pad"] else (0, 0, 0, 0)
    args = (*at(x), x.h, x.w, x.c, *at(out), out.w, *window)
    items = (ceil(x.c / recorder.family.window["VECTOR"]), out.w, out.h)
    types = recorder.types(X=Base(x.base), Y=Base(out.base))
    recorder.launch(step, "pool.cl", step.kind, items, *args, **recorder.family.window, **types)


KINDS = dict.fromkeys(("maxpool", "avgpool"), Kind(pool, (float32_only,)))
