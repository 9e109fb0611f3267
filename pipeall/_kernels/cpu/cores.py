"""Cores: what one CPU core is - type, instruction sets, clock - as the files of sysfs and /proc/cpuinfo tell it."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

CPU = "sys/devices/system/cpu"

# (implementer, part) of the main ID register, slowest first: the order ranks kinds of core where the
# kernel publishes no capacities. Source: Arm technical reference manuals, Linux arch/arm64/include/asm/cputype.h.
ARM_CORES = {
    (0x41, 0xD04): "cortex-a35",
    (0x41, 0xD03): "cortex-a53",
    (0x51, 0x801): "kryo-2xx-silver",
    (0x41, 0xD05): "cortex-a55",
    (0x51, 0x803): "kryo-3xx-silver",
    (0x51, 0x805): "kryo-4xx-silver",
    (0x41, 0xD46): "cortex-a510",
    (0x41, 0xD80): "cortex-a520",
    (0x61, 0x022): "apple-icestorm",
    (0x61, 0x032): "apple-blizzard",
    (0x41, 0xD07): "cortex-a57",
    (0x41, 0xD08): "cortex-a72",
    (0x41, 0xD09): "cortex-a73",
    (0x51, 0x800): "kryo-2xx-gold",
    (0x41, 0xD0A): "cortex-a75",
    (0x51, 0x802): "kryo-3xx-gold",
    (0x41, 0xD0B): "cortex-a76",
    (0x48, 0xD40): "cortex-a76",
    (0x51, 0x804): "kryo-4xx-gold",
    (0x41, 0xD0C): "neoverse-n1",
    (0x41, 0xD0D): "cortex-a77",
    (0x41, 0xD41): "cortex-a78",
    (0x41, 0xD42): "cortex-a78ae",
    (0x41, 0xD4B): "cortex-a78c",
    (0x41, 0xD47): "cortex-a710",
    (0x41, 0xD4D): "cortex-a715",
    (0x41, 0xD81): "cortex-a720",
    (0x41, 0xD87): "cortex-a725",
    (0x41, 0xD44): "cortex-x1",
    (0x41, 0xD4C): "cortex-x1c",
    (0x41, 0xD40): "neoverse-v1",
    (0x41, 0xD49): "neoverse-n2",
    (0x41, 0xD48): "cortex-x2",
    (0x41, 0xD4E): "cortex-x3",
    (0x41, 0xD4F): "neoverse-v2",
    (0x41, 0xD82): "cortex-x4",
    (0x41, 0xD85): "cortex-x925",
    (0x51, 0x001): "oryon",
    (0x61, 0x023): "apple-firestorm",
    (0x61, 0x033): "apple-avalanche",
}

# Core type: (family, models); for a hybrid processor, its performance cores.
# Source: Linux arch/x86/include/asm/intel-family.h and arch/x86/kernel/cpu/amd.c.
X86_CORES = {
    "gracemont": (6, (0xBE,)),
    "crestmont": (6, (0xAF, 0xB6)),
    "haswell": (6, (0x3C, 0x3F, 0x45, 0x46)),
    "broadwell": (6, (0x3D, 0x47, 0x4F, 0x56)),
    "skylake": (6, (0x4E, 0x55, 0x5E, 0x8E, 0x9E, 0xA5, 0xA6)),
    "icelake": (6, (0x6A, 0x6C, 0x7D, 0x7E, 0xA7)),
    "tigerlake": (6, (0x8C, 0x8D)),
    "golden-cove": (6, (0x8F, 0x97, 0x9A)),
    "raptor-cove": (6, (0xB7, 0xBA, 0xBF, 0xCF)),
    "redwood-cove": (6, (0xAA, 0xAC, 0xAD, 0xAE)),
    "lion-cove": (6, (0xB5, 0xBD, 0xC5, 0xC6)),
    "zen1": (0x17, (*range(0x00, 0x30), *range(0x50, 0x60))),
    "zen2": (0x17, (*range(0x30, 0x50), *range(0x60, 0x80), *range(0x90, 0xB0))),
    "zen3": (0x19, (*range(0x00, 0x10), *range(0x20, 0x60))),
    "zen4": (0x19, (*range(0x10, 0x20), *range(0x60, 0xB0))),
    "zen5": (0x1A, (*range(0x00, 0x30), *range(0x40, 0x50), *range(0x60, 0x80))),
}
X86 = "x86-64"  # any other x86
EFFICIENT = {  # the small core of a hybrid processor, by its large one: both report the same family and model
    "golden-cove": "gracemont",
    "raptor-cove": "gracemont",
    "redwood-cove": "crestmont",
    "lion-cove": "skymont",
    X86: "x86-64-efficient",
}

UNKNOWN = "unknown"

# takes in two instructions per cycle, in order, and has two NEON pipes of 64 bits; the Kryos are A53s and A55s
IN_ORDER = {
    *("cortex-a35", "cortex-a53", "cortex-a55"),
    *("kryo-2xx-silver", "kryo-3xx-silver", "kryo-4xx-silver"),
}
HALF_WIDE = {"zen4"}  # multiplies half a register of AVX-512 at a time
# Core types that want the same kernels, by a name that a line of kernels.inc may have in place of one.
CLASSES = {
    "in-order": IN_ORDER,
    "out-of-order": {*ARM_CORES.values(), UNKNOWN} - IN_ORDER,
    "half-wide": HALF_WIDE,
}

CORE_TYPES = tuple(dict.fromkeys((*EFFICIENT.values(), *X86_CORES, X86, *ARM_CORES.values())))  # slowest first

# Instruction sets and the features that they need, as /proc/cpuinfo names them, fastest first.
ARM_ISAS = {
    "i8mm": {"i8mm"},
    "bf16": {"bf16"},
    "dotprod": {"asimddp"},
    "asimdhp": {"asimdhp"},
    "neon": set(),  # every aarch64 has NEON
}
AVX512, AVX2 = {"avx512f", "avx512bw", "avx512dq", "avx512vl"}, {"avx2", "fma", "f16c"}
X86_ISAS = {
    "vnni": AVX512 | {"avx512_vnni"},
    "vbmi": AVX512 | {"avx512vbmi"},
    "avx512": AVX512,
    "avxvnni": AVX2 | {"avx_vnni"},
    "avx2": AVX2,
}


@dataclass(frozen=True, slots=True)
class Core:
    """One core, or one thread of it; None is "not published"."""

    id: int
    core_type: str
    evidence: str  # what the type was concluded from
    isas: tuple[str, ...]
    capacity: int | None
    max_mhz: float | None


@cache
def can_pin() -> bool:
    """Whether threads can be pinned to cores here. Some sandboxes forbid it, which is a warning, once."""
    try:
        os.sched_setaffinity(0, os.sched_getaffinity(0))
    except OSError as error:
        message = f"threads are not pinned to cores, so that times differ more: {error.strerror or error}"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
        return False
    return True


def pinnable(cores: Sequence[int]) -> Sequence[int]:
    """Cores to pin a thread to each; -1, which pins none, where the system forbids it."""
    return cores if can_pin() else (-1,) * len(cores)


def read_cores(tree: Tree, ids: Sequence[int], machine: str, own: str = "") -> list[Core]:
    """The cores of these ids, in this order.

    machine  the architecture as in ``uname -m``
    own      features of the CPU by its own word, for what /proc/cpuinfo does not show, as in some sandboxes
    """
    cpuinfo, clocks = tree.cpuinfo(), tree.max_khz()
    # Containers (lxcfs) number those that they show anew: then it is not known which is which.
    common = {} if cpuinfo.keys() >= set(ids) else _common(list(cpuinfo.values()))
    identify = {"aarch64": _identify_arm, "x86_64": _identify_x86}.get(machine, _identify_other)
    cores = []
    for i in ids:
        core_type, evidence, isas = identify(tree, i, {"flags": own, "Features": own} | (common or cpuinfo.get(i, {})))
        khz = clocks.get(i)
        capacity = tree.number(f"{CPU}/cpu{i}/cpu_capacity")
        cores.append(Core(i, core_type, evidence, isas, capacity, khz / 1000 if khz else None))
    return cores


def _common(processors: Sequence[dict[str, str]]) -> dict[str, str]:
    """Of each field the words that all processors have: what is true of any of them."""
    if not processors:
        return {}
    first, *others = processors
    words = {key: value.split() for key, value in first.items()}
    return {
        key: " ".join(word for word in of_first if all(word in other.get(key, "").split() for other in others))
        for key, of_first in words.items()
    }


def _identify_arm(tree: Tree, core: int, info: dict[str, str]) -> tuple[str, str, tuple[str, ...]]:
    midr = tree.number(f"{CPU}/cpu{core}/regs/identification/midr_el1", 16)
    if midr is not None:
        implementer, part, source = midr >> 24 & 0xFF, midr >> 4 & 0xFFF, "midr_el1"
    else:
        implementer, part = _number(info.get("CPU implementer"), 16), _number(info.get("CPU part"), 16)
        source = "/proc/cpuinfo"
    isas = _isas(ARM_ISAS, info.get("Features", ""))
    if implementer is None or part is None:
        return UNKNOWN, "no ID register published", isas
    core_type = ARM_CORES.get((implementer, part), UNKNOWN)
    return core_type, f"{source}: implementer {implementer:#04x} part {part:#05x}", isas


def _identify_x86(tree: Tree, core: int, info: dict[str, str]) -> tuple[str, str, tuple[str, ...]]:
    isas = _isas(X86_ISAS, info.get("flags", ""))
    family, model = _number(info.get("cpu family")), _number(info.get("model"))
    known = (name for name, (of_family, models) in X86_CORES.items() if family == of_family and model in models)
    core_type = next(known, X86)
    evidence = "no family published" if family is None else f"family {family} model {model}"
    if core in tree.cores("sys/devices/cpu_atom/cpus"):
        return EFFICIENT.get(core_type, core_type), f"{evidence} in cpu_atom", isas
    return core_type, evidence, isas


def own_isas(features: str) -> tuple[str, ...]:
    """The instruction sets of the CPU that this runs on, by what it says of itself (``kernels.features``)."""
    return _isas({"aarch64": ARM_ISAS, "x86_64": X86_ISAS}.get(os.uname().machine, {}), features)


def _isas(known: dict[str, set[str]], features: str) -> tuple[str, ...]:
    return (*(isa for isa, needs in known.items() if needs <= set(features.split())), "ref")


def _identify_other(tree: Tree, core: int, info: dict[str, str]) -> tuple[str, str, tuple[str, ...]]:
    return UNKNOWN, "an architecture without kernels of its own", ("ref",)


class Tree:
    """The files of sysfs and procfs under a root. What is missing or no number is None or empty, never an error."""

    def __init__(self, root: Path):
        self.root = root

    def text(self, path: str) -> str | None:
        try:
            return (self.root / path).read_text(errors="replace").strip()
        except OSError:  # kernels differ in what they publish, containers in what they show
            return None

    def number(self, path: str, base: int = 10) -> int | None:
        return _number(self.text(path), base)

    def cores(self, path: str) -> set[int]:
        """A list of cores: "0-3,6" or "0 1 2 3 6"."""
        ids: set[int] = set()
        for first, last in re.findall(r"(\d+)(?:-(\d+))?", self.text(path) or ""):
            ids.update(range(int(first), int(last or first) + 1))
        return ids

    def online(self) -> set[int]:
        return (
            self.cores(f"{CPU}/online")
            or {int(folder.name[3:]) for folder in (self.root / CPU).glob("cpu[0-9]*") if folder.name[3:].isdigit()}
            or set(self.cpuinfo())
        )

    def siblings(self, core: int) -> set[int]:
        """Threads of the same physical core. core_id will not do: on Arm it starts at 0 in every cluster."""
        return self.cores(f"{CPU}/cpu{core}/topology/thread_siblings_list")

    def max_khz(self) -> dict[int, int]:
        """The highest clock of each core that has a clock policy, boost included."""
        clocks = {}
        for policy in (self.root / CPU / "cpufreq").glob("policy*"):
            folder = f"{CPU}/cpufreq/{policy.name}"
            khz = self.number(f"{folder}/cpuinfo_max_freq")
            if khz is not None:
                clocks.update(dict.fromkeys(self.cores(f"{folder}/related_cpus"), khz))
        return clocks

    def cache(self, core: int, level: int) -> tuple[int | None, set[int]]:
        """Size of the data or unified cache of this level, and the cores that share it."""
        for index in range(8):
            folder = f"{CPU}/cpu{core}/cache/index{index}"
            size = re.fullmatch(r"(\d+)([KMG]?)", self.text(f"{folder}/size") or "")
            kind = self.text(f"{folder}/type")
            if size and kind in ("Data", "Unified") and self.number(f"{folder}/level") == level:
                users = _number((self.text(f"{folder}/shared_cpu_map") or "").replace(",", ""), 16) or 0
                cores = {core for core in range(users.bit_length()) if users >> core & 1}
                return int(size[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[size[2]], cores
        return None, set()

    def cpuinfo(self) -> dict[int, dict[str, str]]:
        """The fields of every processor of /proc/cpuinfo."""
        processors: dict[int, dict[str, str]] = {}
        fields: dict[str, str] = {}
        for line in (self.text("proc/cpuinfo") or "").splitlines():
            key, _, value = (part.strip() for part in line.partition(":"))
            if key == "processor" and value.isdigit():
                fields = processors.setdefault(int(value), {})
            elif key:
                fields[key] = value
        return processors


def _number(text: str | None, base: int = 10) -> int | None:
    try:
        return int(text or "", base)
    except ValueError:
        return None
