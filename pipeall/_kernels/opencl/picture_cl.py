"""Launches of picture.cl: frames of pictures become tensors (picture_cl.h)."""

from __future__ import annotations

import numpy as np

from ...errors import DeviceError
from ...steps import SLOT_IN, SLOT_OUT, Step, item_bytes
from .queue import PICTURE_FORMATS, picture_table_bytes
from .recorder import Base, Kind, Recorder, float32_only


def picture(recorder: Recorder, step: Step) -> None:
    """The kernel's first argument, a frame's bytes, is set when the frame comes (picture_cl.h)."""
    (words,), out, p = step.src, step.dst, step.params
    seen, (rows, columns, channels) = p["picture"], out.shape
    if words.base not in (SLOT_IN, SLOT_OUT):
        raise DeviceError(f"step {step.node} (picture): expected what describes a frame in a slot")
    table = recorder.device.allocate(picture_table_bytes(rows, columns))
    affine = np.array([*p["factors"], *p["offsets"]], np.float32)
    args = (None, table, Base(out.base), out.offset, *out.strides, rows, columns, float(seen.value), affine)
    backwards = (seen.frames == "BGR") != (seen.channels == "BGR")
    known = dict(FORMAT=PICTURE_FORMATS[seen.frames], CHANNELS=channels, BACKWARDS=int(backwards))
    recorder.launch(step, "picture.cl", "picture", (columns, rows), *args, **known, Y=recorder.stored(out))
    frame, example = p["example"]
    recorder.keep(frame)
    where = words.base, words.offset * item_bytes(words.dtype)
    how = (rows, columns), seen.filter, seen.frames, example, table.int_ptr
    recorder.reads = (recorder.commands[-1][0], step.node, recorder.device.context, *where, *how)


KINDS = {"picture": Kind(picture, (float32_only,))}
