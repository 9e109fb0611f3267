"""NPUs: boards' models have them, and packages outside run them (``units.PLUG_INS``)."""

from __future__ import annotations

from typing import NoReturn

from ....errors import DeviceError


def detect() -> NoReturn:
    """Raises DeviceError: without a package for it no NPU is known here."""
    raise DeviceError("no package for an NPU is installed (examples/devices has some)")
