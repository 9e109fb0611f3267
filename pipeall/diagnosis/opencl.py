"""The GPU and OpenCL: the chip, the kernel's driver, the vendor's library, the file that names it, and who may use it.

Source: the ICD loader's README; Arm's and Rockchip's libmali packages; Mesa's documentation of Rusticl.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

from .. import env
from .._kernels.opencl import cl_devices
from .._kernels.opencl.drivers import FORCED, VENDORS
from ..errors import DeviceError, MissingExtraError
from .examined_machine import Machine
from .findings import Section

TREES = ("proc/device-tree", "sys/firmware/devicetree/base")
ABOVE, CHIPS = ("", "*/", "*/*/"), ("gpu", "mali", "bifrost")  # where the node of the GPU is, and what it is called
LIBRARIES = ("usr/lib", "usr/lib/*-linux-gnu*", "lib", "lib/*-linux-gnu*", "usr/local/lib", "vendor/lib64", "usr/lib64")
PACKAGES = {  # part of a driver library's name -> the command that installs it
    "pocl": "apt-get install --reinstall pocl-opencl-icd",
    "rusticl": "apt-get install --reinstall mesa-opencl-icd",
    "mesaopencl": "apt-get install --reinstall mesa-opencl-icd",
    "mali": "install the board's package of libmali again (apt-cache search mali)",
    "igdrcl": "apt-get install --reinstall intel-opencl-icd",
    "intelocl": "pip install intel-opencl-rt, or Intel's package intel-oneapi-runtime-opencl",
    "amdocl": "apt-get install --reinstall rocm-opencl-icd",
    "nvidia": "apt-get install --reinstall nvidia-opencl-icd",
}
OPEN = {  # kernel driver of a render node -> what gives it OpenCL
    "panfrost": "apt-get install mesa-opencl-icd, then set RUSTICL_ENABLE=panfrost",
    "panthor": "apt-get install mesa-opencl-icd (Mesa 24.1 or newer), then set RUSTICL_ENABLE=panfrost",
    "i915": "apt-get install intel-opencl-icd",
    "xe": "apt-get install intel-opencl-icd",
    "amdgpu": "apt-get install mesa-opencl-icd and set RUSTICL_ENABLE=radeonsi, or rocm-opencl-icd",
}
NO_OPENCL = {"v3d": "VideoCore", "vc4": "VideoCore", "lima": "Mali-400 or 450", "etnaviv": "Vivante"}
GROUPS = "sudo usermod -aG render,video $USER, then log in again"
TRY = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
LOADER = "pip install 'pipeall[opencl]'"
LIMIT_S = 30.0  # to load a library


def opencl(machine: Machine, section: Section) -> None:
    gpu = _chip(machine, section)
    nodes = _nodes(machine, section)
    libraries = _drivers(machine, section)
    _libmali(machine, section, libraries)
    _package(section, wanted=bool(gpu or nodes or libraries))
    if not machine.live:
        section.fact("devices", "not asked: these are files of another machine")
        usable = any("mali" in library.lower() or "rusticl" in library.lower() for library in libraries)
    else:
        usable = _devices(section)
    if gpu and not usable:
        _no_driver(section, gpu, nodes, _mali_files(machine))
    if "rusticl" in " ".join(libraries).lower() and not os.environ.get("RUSTICL_ENABLE"):
        section.fact("Rusticl", "shows no device unless RUSTICL_ENABLE names its drivers (panfrost, llvmpipe)")


def _chip(machine: Machine, section: Section) -> str | None:
    """What the device tree says of a GPU that OpenCL can use: a Mali from Midgard on."""
    places = (f"{tree}/{above}{name}*/compatible" for tree in TREES for above in ABOVE for name in CHIPS)
    for path in machine.found(*places):
        names = machine.strings(path)
        text = ", ".join(names)
        section.fact("GPU", text)
        if "mali" in text and not re.search(r"mali-(400|450)|utgard", text):
            return names[0]
    return None


def _nodes(machine: Machine, section: Section) -> dict[str, str]:
    """Device nodes by the kernel driver behind each."""
    found: dict[str, str] = {}
    closed = []
    for node in machine.found("dev/mali[0-9]*", "dev/dri/renderD*"):
        event = machine.text(f"sys/class/drm/{node.name}/device/uevent") or ""
        driver = "mali" if node.name.startswith("mali") else (re.findall(r"^DRIVER=(\S+)", event, re.M) or ["?"])[0]
        if driver == "RKNPU":
            continue
        found[driver] = machine.shown(node)
        section.fact(machine.shown(node), f"driver {driver}")
        if not machine.usable(node):
            closed.append(machine.shown(node))
    if closed:
        section.fault(f"{', '.join(closed)}: no permission, so the GPU cannot be used", GROUPS)
    if not found:
        section.fact("device nodes", "none of a GPU (/dev/mali0, /dev/dri/renderD*)")
    for driver, chip in NO_OPENCL.items():
        if driver in found:
            section.fact(chip, "has no OpenCL driver that could be used: pipelines run on the CPU's clusters")
    return found


def _drivers(machine: Machine, section: Section) -> list[str]:
    """The libraries that files of drivers name, and that are there."""
    forced = [name for name in FORCED if os.environ.get(name)] if machine.live else []
    folders = [Path(part) for name in forced for part in os.environ[name].split(os.pathsep)]
    folders = folders or [machine.root / folder.lstrip("/") for folder in VENDORS]
    for name in forced:
        section.fact(name, os.environ[name])
    files = [file for place in folders for file in (sorted(place.glob("*.icd")) if place.is_dir() else [place])]
    good = []
    for file in (file for file in files if file.is_file()):
        shown = machine.shown(file)
        library = (file.read_text(errors="replace").splitlines() or [""])[0].strip()
        why = _missing(machine, library, file.parent) if library else "it is empty"
        section.fact(shown, f"{library or 'nothing'}{f': {why}' if why else ''}")
        if why:
            section.fault(f"{shown} names the OpenCL driver {library or '(none)'}: {why}", _install(library, shown))
        else:
            good.append(library)
    if not good:
        section.fact("OpenCL drivers", f"none that can be loaded ({', '.join(VENDORS)})")
    return good


def _missing(machine: Machine, library: str, beside: Path) -> str | None:
    """Why a driver's library cannot be loaded, as far as can be seen."""
    if machine.live:
        near = beside / library
        command = [sys.executable, "-c", TRY, str(near if near.is_file() else library)]
        try:
            tried = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            return f"it does not load within {LIMIT_S:g} s"
        if tried.returncode < 0:
            return f"it ends the process that loads it (signal {-tried.returncode})"
        return (
            (tried.stderr.strip().splitlines() or ["it cannot be loaded"])[-1].removeprefix("OSError: ")
            if (tried.returncode)
            else None
        )
    if library.startswith("/"):
        return None if (machine.root / library[1:]).exists() else "there is no such file"
    there = machine.found(*(f"{folder}/{library}" for folder in LIBRARIES))
    return None if there else "no such library in /usr/lib"


def _install(library: str, icd: str) -> str:
    known = next((command for part, command in PACKAGES.items() if part in library.lower()), None)
    return f"{known or 'install the package of that library'}; or remove {icd}"


def _mali_files(machine: Machine) -> list[Path]:
    return machine.found(*(f"{folder}/libmali*.so*" for folder in LIBRARIES))


def _libmali(machine: Machine, section: Section, libraries: list[str]) -> None:
    """Arm's own driver: of which release, for which window system, and what the kernel's half is."""
    files = _mali_files(machine)
    if not files:
        return
    names = sorted({file.resolve().name for file in files})
    kernel = machine.text("sys/module/mali_kbase/version") or machine.text("sys/module/bifrost_kbase/version")
    section.fact("libmali", f"{', '.join(names)}; kernel driver {kernel or 'of no told release'}")
    releases = [int(found) for name in names for found in re.findall(r"-[gr](\d+)p\d", name)]
    of_kernel = re.search(r"\b[gr](\d+)p\d", kernel or "")
    if releases and of_kernel and min(releases) > int(of_kernel[1]):
        section.fault(
            f"libmali is of release {min(releases)}, the kernel's driver of {of_kernel[1]}: it refuses a newer libmali",
            "install the libmali of the kernel's release, or the board's newer kernel",
        )
    window = [name for name in names if re.search("x11|wayland", name)]
    if window:
        section.fact("window system", f"{', '.join(window)} needs its libraries; a -gbm or -dummy one needs none")
    csf = any("g610" in name or "g310" in name or "g720" in name for name in names)
    if csf and not machine.found(
        "lib/firmware/mali_csffw.bin", "usr/lib/firmware/mali_csffw.bin", "vendor/firmware/mali_csffw.bin"
    ):
        section.fault(
            "this Mali needs /lib/firmware/mali_csffw.bin, which is not there",
            "install the board's package of the Mali's firmware (apt-cache search mali firmware)",
        )
    if not any("mali" in library.lower() for library in libraries):
        section.fault(
            f"libmali is there, and no file in {VENDORS[0]} names it",
            f"echo {machine.shown(files[0])} | sudo tee {VENDORS[0]}/mali.icd",
        )


def _package(section: Section, wanted: bool) -> None:
    """``wanted``: there is a GPU or a driver that the loader would find."""
    if find_spec("pyopencl") is None:
        if wanted:
            section.fault("no OpenCL loader: pyopencl is not installed", LOADER)
        else:
            section.fact("OpenCL loader", f"none, and no GPU that would need one ({LOADER})")


def _devices(section: Section) -> bool:
    """Lists them; whether one is a GPU."""
    if env.opencl() == "off":
        section.fact("devices", "switched off by PIPEALL_OPENCL=off")
        return True
    if find_spec("pyopencl") is None:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # the same as the error
            found = cl_devices.devices()
            chosen = cl_devices.choose(found)
    except (DeviceError, MissingExtraError) as error:
        if "ends the process" in str(error) or "does not answer" in str(error):
            section.fault(str(error), "install another version of that driver, or set PIPEALL_OPENCL=off")
        elif isinstance(error, MissingExtraError):
            section.fault(f"no OpenCL loader: {error.__cause__}", "apt-get install ocl-icd-libopencl1")
        else:
            section.fact("devices", str(error))
        return False
    for info in found:
        name = "gpu" if info == chosen else f"device {info.index}"
        section.fact(name, f"{info}; driver {info.driver}; {cl_devices.why(info, chosen)}")
    return any(not info.stand_in for info in found)


def _no_driver(section: Section, chip: str, nodes: dict[str, str], libraries: list[Path]) -> None:
    if "mali" in nodes and not libraries:
        remedy = "install the maker's libmali for it (apt-cache search mali), of the release of the kernel's driver"
    elif known := next((OPEN[driver] for driver in nodes if driver in OPEN), None):
        remedy = known
    elif nodes:
        remedy = "see the lines of the driver above"
    else:
        remedy = (
            "use an image whose kernel has a driver: /dev/mali0, with the maker's libmali (apt-cache search mali), "
            "or /dev/dri/renderD128 of panfrost or panthor, with Mesa's (apt-get install mesa-opencl-icd)"
        )
    section.fault(f"the board has a GPU, {chip}, and no OpenCL driver that shows it", remedy)
