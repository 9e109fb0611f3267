"""What another number format would save, and which processors compute in it.

Bytes follow from the format. ``rate`` is nominal: multiply-adds of one vector instruction, divided by those in float32.
What a network gains depends on the kernels. None means that there is no such arithmetic: values are widened to float32
first, which only saves memory and the time to move it; float64 would lose digits to float32 instead. Sources: Arm's
technical reference manuals (FP16 and dot products came with Armv8.2, products of 8-bit matrices, I8MM, with Armv8.6 and
Armv9), Arm's Mali GPU datasheet, Intel's and AMD's instruction set references.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ..errors import ArgumentError

BYTES = {"fp64": 8, "fp32": 4, "fp16": 2, "int8": 1}

_V80 = {"fp64": 0.5, "fp32": 1.0, "fp16": None, "int8": 2.0}  # SMLAL: 8 products of 8 bits an instruction
_V82 = {"fp64": 0.5, "fp32": 1.0, "fp16": 2.0, "int8": 4.0}  # FMLA on 8 halves; SDOT: 16 products
_V86 = {"fp64": 0.5, "fp32": 1.0, "fp16": 2.0, "int8": 8.0}  # SMMLA: 32 products
_AVX2 = {"fp64": 0.5, "fp32": 1.0, "fp16": None, "int8": 2.0}  # F16C converts only; VPMADDWD on 16 bits
_VNNI = {"fp64": 0.5, "fp32": 1.0, "fp16": None, "int8": 4.0}
_AVX512_FP16 = {"fp64": 0.5, "fp32": 1.0, "fp16": 2.0, "int8": 4.0}
# Mali: Midgard is the last with double precision. Drivers of Bifrost and Valhall do not have OpenCL's cl_khr_fp64
_MIDGARD = {"fp64": 0.25, "fp32": 1.0, "fp16": 2.0, "int8": None}
_BIFROST = {"fp64": None, "fp32": 1.0, "fp16": 2.0, "int8": None}
_MALI_DOT = {"fp64": None, "fp32": 1.0, "fp16": 2.0, "int8": 4.0}  # G52, G76 and later

RATES: Mapping[str, Mapping[str, float | None]] = MappingProxyType(
    {
        **dict.fromkeys("cortex-a53 cortex-a35 cortex-a57 cortex-a72 cortex-a73".split(), _V80),
        **dict.fromkeys(
            "cortex-a55 cortex-a75 cortex-a76 cortex-a77 cortex-a78 cortex-a78ae cortex-a78c cortex-x1 "
            "neoverse-n1".split(),
            _V82,
        ),
        **dict.fromkeys(
            "cortex-a510 cortex-a520 cortex-a710 cortex-a715 cortex-a720 cortex-a725 cortex-x2 cortex-x3 cortex-x4 "
            "cortex-x925 neoverse-n2 neoverse-v1 neoverse-v2".split(),
            _V86,
        ),
        **dict.fromkeys("mali-t628 mali-t760 mali-t860 mali-t880".split(), _MIDGARD),
        **dict.fromkeys("mali-g51 mali-g71 mali-g72".split(), _BIFROST),
        **dict.fromkeys(
            "mali-g52 mali-g57 mali-g68 mali-g76 mali-g77 mali-g78 mali-g310 mali-g510 mali-g610 mali-g615 mali-g710 "
            "mali-g715 mali-g720".split(),
            _MALI_DOT,
        ),
        "avx2": _AVX2,
        "avx-vnni": _VNNI,
        "avx512": _AVX2,
        "avx512-vnni": _VNNI,
        "avx512-fp16": _AVX512_FP16,
    }
)


@dataclass(frozen=True, slots=True)
class Format:
    """A number format on one processor, with the bytes of the network's weights and activations in it."""

    name: str
    weight_bytes: int
    activation_bytes: int
    rate: float | None


def formats(weights: int, activations: int, processor: str) -> list[Format]:
    """A network of so many weight and activation elements in every format on a processor such as "Cortex-A73".

    "Mali-G52 MP4" counts as "mali-g52". Raises ArgumentError for a processor that is not listed.
    """
    word = f"{processor.lower()} "
    key = max((name for name in RATES if word.startswith((f"{name} ", f"{name}-"))), key=len, default=None)
    if key is None:
        raise ArgumentError(f"processor: expected one of {', '.join(RATES)}, got {processor!r}")
    return [Format(name, weights * size, activations * size, RATES[key][name]) for name, size in BYTES.items()]
