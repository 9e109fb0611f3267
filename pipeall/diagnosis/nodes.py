"""Device nodes of cameras and NPUs."""

from __future__ import annotations

from .examined_machine import Machine
from .findings import Section

NPUS = {  # nodes -> what they belong to
    "dev/rknpu*": "Rockchip's RKNPU",
    "dev/galcore": "VeriSilicon's (Amlogic, NXP)",
    "dev/hailo[0-9]*": "Hailo",
    "dev/apex_[0-9]*": "Coral",
    "dev/ethosu[0-9]*": "Arm Ethos-U",
    "dev/accel/accel[0-9]*": "of the kernel's accel subsystem",
}


def cameras(machine: Machine, section: Section) -> None:
    nodes = machine.found("dev/video[0-9]*")
    for node in nodes:
        name = machine.text(f"sys/class/video4linux/{node.name}/name")
        section.fact(machine.shown(node), name or "a video device")
    closed = [machine.shown(node) for node in nodes if not machine.usable(node)]
    if closed:
        section.fault(f"{', '.join(closed)}: no permission", "sudo usermod -aG video $USER, then log in again")
    if not nodes:
        section.fact("video devices", "none (/dev/video*)")


def npus(machine: Machine, section: Section) -> None:
    found = {machine.shown(node): what for pattern, what in NPUS.items() for node in machine.found(pattern)}
    for node, what in found.items():
        section.fact(node, f"an NPU, {what}: pipeall uses it by a package of its own (examples/devices)")
    if not found:
        section.fact("NPU", "no node of one")
