"""Launches of lrn.cl."""

from __future__ import annotations

from math import ceil

from ...steps import Step
from .recorder import Base, Kind, Recorder, at, float32_only


def lrn(recorder: Recorder, step: Step) -> None:
    x, p = step.src[0], step.params
    args = (*at(x), x.c, *at(step.dst), p["size"], float(p["alpha"]), float(p["beta"]), float(p["bias"]))
    known = {name: recorder.family.window[name] for name in ("VECTOR", "LOCAL_CHANNELS")}
    known |= recorder.types(X=Base(x.base), Y=Base(step.dst.base))
    recorder.launch(step, "lrn.cl", "lrn", (ceil(x.c / known["VECTOR"]), x.h * x.w), *args, **known)


KINDS = {"lrn": Kind(lrn, (float32_only,))}
