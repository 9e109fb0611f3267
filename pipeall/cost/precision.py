"""What another number format would save, and which processors compute in it.

Bytes follow from the format. ``rate`` is nominal: multiply-adds of one vector instruction, divided by those in float32.
What a network gains depends on the kernels. None means that there is no such arithmetic: values are widened to float32
first, which only saves memory and the time to move it. Sources: Arm's technical reference manuals (FP16 and dot product
came with Armv8.2), Arm's Mali GPU datasheet, Intel's and AMD's instruction set references.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ..errors import ArgumentError

BYTES = {"fp64": 8, "fp32": 4, "fp16": 2, "int8": 1}

_V80 = {"fp64": 0.5, "fp32": 1.0, "fp16": None, "int8": 2.0}  # SMLAL: 8 products of 8 bits an instruction
_V82 = {"fp64": 0.5, "fp32": 1.0, "fp16": 2.0, "int8": 4.0}  # FMLA on 8 halves; SDOT: 16 products
_AVX2 = {"fp64": 0.5, "fp32": 1.0, "fp16": None, "int8": 2.0}  # F16C converts only; VPMADDWD on 16 bits
_VNNI = {"fp64": 0.5, "fp32": 1.0, "fp16": None, "int8": 4.0}
# Mali: no double precision worth the name on Bifrost (OpenCL's fp64 is optional)
_MIDGARD = {"fp64": 0.25, "fp32": 1.0, "fp16": 2.0, "int8": None}
_BIFROST = {"fp64": None, "fp32": 1.0, "fp16": 2.0, "int8": None}
_BIFROST_DOT = {"fp64": None, "fp32": 1.0, "fp16": 2.0, "int8": 4.0}  # G52 and later

RATES: Mapping[str, Mapping[str, float | None]] = MappingProxyType(
    {
        **dict.fromkeys(("cortex-a53", "cortex-a57", "cortex-a72", "cortex-a73"), _V80),
        **dict.fromkeys(("cortex-a55", "cortex-a75", "cortex-a76", "cortex-a77", "cortex-a78", "cortex-x1"), _V82),
        **dict.fromkeys(("mali-t860", "mali-t880"), _MIDGARD),
        **dict.fromkeys(("mali-g51", "mali-g71", "mali-g72"), _BIFROST),
        **dict.fromkeys(("mali-g52", "mali-g76", "mali-g610"), _BIFROST_DOT),
        "avx2": _AVX2,
        "avx512-vnni": _VNNI,
    }
)


@dataclass(frozen=True, slots=True)
class Format:
    """A number format on one processor, with the bytes of the network's weights and activations in it."""

    name: str
    weight_bytes: int
    activation_bytes: int
    rate: float | None

    @property
    def supported(self) -> bool:
        return self.rate is not None


def formats(weights: int, activations: int, processor: str) -> list[Format]:
    """A network of so many weight and activation elements in every format on a processor such as "Cortex-A73".

    "Mali-G52 MP4" counts as "mali-g52". Raises ArgumentError for a processor that is not listed.
    """
    word = f"{processor.lower()} "
    key = next((name for name in RATES if word.startswith((f"{name} ", f"{name}-"))), None)
    if key is None:
        raise ArgumentError(f"processor: expected one of {', '.join(RATES)}, got {processor!r}")
    return [Format(name, weights * size, activations * size, RATES[key][name]) for name, size in BYTES.items()]
