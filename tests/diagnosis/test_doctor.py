"""``pipeall.doctor`` and its command: each planted fault is named with its remedy, on recorded boards and here."""

import errno
import importlib.util
import json
import os
import re

import pytest
from build_trees import REPOSITORY, WITH_TESTS, run
from commands import invoke
from planted_kernels import planted
from recorded_boards import BOARDS, recorded_files, write_tree

import pipeall
from pipeall import ArgumentError, doctor
from pipeall._kernels.cpu import cluster, cores, self_check
from pipeall._kernels.cpu.table import choose
from pipeall.diagnosis import opencl
from pipeall.diagnosis.examined_machine import Machine

NAMES = sorted(path.stem for path in BOARDS.glob("*.json"))
CPU = "sys/devices/system/cpu"
POLICY = f"{CPU}/cpufreq/policy2"
MALI = {"proc/device-tree/soc/gpu@ffe40000/compatible": "amlogic,meson-g12a-mali\0arm,mali-bifrost\0"}
ICD = "etc/OpenCL/vendors/mali.icd"
LIBRARY = "usr/lib/aarch64-linux-gnu/libmali.so"
ZONE, COOLING = "sys/class/thermal/thermal_zone0", "sys/class/thermal/cooling_device0"


def board(tmp_path, files=(), name="vim3"):
    return write_tree(recorded_files(name) | dict(files), tmp_path)


def looked_at(tmp_path, files=(), name="vim3"):
    """A recorded board with these files more."""
    return doctor(root=board(tmp_path, files, name))


@pytest.mark.parametrize("name", NAMES)
def test_every_recorded_board_is_in_order(name, tmp_path):
    found = looked_at(tmp_path, name=name)
    text = str(found)
    assert found.ok and text.endswith("OK: nothing is wrong here."), text
    for part in cluster.detect(root=tmp_path):
        assert f"{part.name}: cores {cluster.format_cores(part.cores)}, {part.core_type}" in text and part.why in text
    assert "these are files of another machine" in text


PLANTED = {  # name -> files of the board, what is said of the fault, and of its remedy
    "powersave": (
        {f"{POLICY}/scaling_governor": "powersave\n", f"{POLICY}/scaling_min_freq": "100000\n"},
        "cores 2-5: the governor powersave keeps the lowest clock, 100 of 2208 MHz",
        "sudo tee /sys/devices/system/cpu/cpufreq/policy2/scaling_governor",
    ),
    "limited": (
        {f"{CPU}/cpufreq/policy0/scaling_max_freq": "1000000\n"},
        "cores 0-1: the clock is limited to 1000 of 1800 MHz",
        "echo 1800000 | sudo tee /sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq",
    ),
    "a slow GPU": (
        {
            "sys/class/devfreq/ffe40000.gpu/governor": "powersave",
            "sys/class/devfreq/ffe40000.gpu/min_freq": "125000000",
            "sys/class/devfreq/ffe40000.gpu/available_frequencies": "125000000 800000000",
        },
        "ffe40000.gpu: the governor powersave keeps the lowest clock, 125 of 800 MHz",
        "echo simple_ondemand | sudo tee /sys/class/devfreq/ffe40000.gpu/governor",
    ),
    "offline": (
        {f"{CPU}/offline": "5\n", f"{CPU}/present": "0-5\n", f"{CPU}/online": "0-4\n"},
        "core 5 offline",
        "echo 1 | sudo tee /sys/devices/system/cpu/cpu5/online",
    ),
    "cpuset": (
        {
            "proc/self/cgroup": "0::/system.slice/camera.service\n",
            "sys/fs/cgroup/system.slice/camera.service/cpuset.cpus.effective": "0-1\n",
        },
        "cores 0-1 of 0-5 alone, by a cpuset",
        "give it all cores",
    ),
    "quota": (
        {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"},
        "a quota of 1.5 cores' time for 6 cores",
        "docker --cpus",
    ),
    "quota of the old kind": (
        {"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "200000\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"},
        "a quota of 2 cores' time",
        "CPUQuota=",
    ),
    "memory": (
        {"proc/meminfo": "MemTotal:  2000000 kB\nMemAvailable:  120000 kB\nSwapTotal: 0 kB\n"},
        "120 MB of memory are free",
        "end other programs",
    ),
    "memory of a container": (
        {
            "proc/meminfo": "MemTotal:  2000000 kB\nMemAvailable:  1200000 kB\nSwapTotal: 0 kB\n",
            "sys/fs/cgroup/memory.max": "200000000\n",
        },
        "200 MB of memory are free",
        "raise the container's limit",
    ),
    "heat": (
        {
            f"{ZONE}/type": "soc-thermal\n",
            f"{ZONE}/temp": "83000\n",
            f"{ZONE}/trip_point_0_type": "passive\n",
            f"{ZONE}/trip_point_0_temp": "85000\n",
            f"{ZONE}/trip_point_1_type": "critical\n",
            f"{ZONE}/trip_point_1_temp": "110000\n",
        },
        "soc-thermal is at 83 C, and the kernel slows down at 85 C",
        "heat sink",
    ),
    "throttled": (
        {f"{COOLING}/type": "cpufreq-cpu2\n", f"{COOLING}/cur_state": "3\n", f"{COOLING}/max_state": "9\n"},
        "cpufreq-cpu2 is at step 3 of 9: heat keeps clocks down",
        "heat sink",
    ),
    "under-voltage": (
        {"sys/devices/platform/soc/soc:firmware/get_throttled": "50005\n"},
        "the firmware throttles: under-voltage, throttled",
        "power supply",
    ),
    "a Mali without a driver": (
        MALI,
        "a GPU, amlogic,meson-g12a-mali, and no OpenCL driver",
        "apt-get install mesa-opencl-icd",
    ),
    "a Mali of Arm's driver": (MALI | {"dev/mali0": ""}, "no OpenCL driver that shows it", "the maker's libmali"),
    "a Mali of Mesa's driver": (
        MALI | {"dev/dri/renderD128": "", "sys/class/drm/renderD128/device/uevent": "DRIVER=panfrost\n"},
        "no OpenCL driver that shows it",
        "apt-get install mesa-opencl-icd, then set RUSTICL_ENABLE=panfrost",
    ),
    "a file that names a missing library": (
        {ICD: "/usr/lib/libmali.so\n"},
        "/etc/OpenCL/vendors/mali.icd names the OpenCL driver /usr/lib/libmali.so: there is no such file",
        "install the board's package of libmali again",
    ),
    "a missing library by its name": (
        {"etc/OpenCL/vendors/rusticl.icd": "libRusticlOpenCL.so.1\n"},
        "libRusticlOpenCL.so.1: no such library",
        "apt-get install --reinstall mesa-opencl-icd; or remove /etc/OpenCL/vendors/rusticl.icd",
    ),
    "an empty file": ({ICD: ""}, "names the OpenCL driver (none): it is empty", f"or remove /{ICD}"),
    "a library that nothing names": (
        {LIBRARY: ""},
        "libmali is there, and no file in /etc/OpenCL/vendors names it",
        f"echo /{LIBRARY} | sudo tee /etc/OpenCL/vendors/mali.icd",
    ),
    "a newer libmali than the kernel's half": (
        {
            "usr/lib/libmali-valhall-g610-g13p0-gbm.so": "",
            "sys/module/mali_kbase/version": "g6p0-01eac0 (UK version 1.10)\n",
            "lib/firmware/mali_csffw.bin": "",
            ICD: "libmali-valhall-g610-g13p0-gbm.so\n",
        },
        "libmali is of release 13, the kernel's driver of 6",
        "the libmali of the kernel's release",
    ),
    "no firmware": (
        {"usr/lib/libmali-valhall-g610-g13p0-gbm.so": "", ICD: "libmali-valhall-g610-g13p0-gbm.so\n"},
        "this Mali needs /lib/firmware/mali_csffw.bin",
        "package of the Mali's firmware",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_fault_of_a_board_is_named_with_its_remedy(name, tmp_path):
    files, what, remedy = PLANTED[name]
    found = looked_at(tmp_path, files)
    (fault,) = found.faults
    assert what in fault.what and remedy in fault.remedy
    assert f"  1. {fault.what}\n     -> {fault.remedy}" in str(found) and "OK" not in str(found)


def test_what_is_no_fault(tmp_path):
    """A cool board, a governor that follows the load, a driver that knows better, a Mali with its driver."""
    found = looked_at(
        tmp_path,
        MALI
        | {
            ICD: "libmali.so\n",
            LIBRARY: "",
            "dev/mali0": "",
            f"{ZONE}/type": "soc\n",
            f"{ZONE}/temp": "45000\n",
            f"{ZONE}/trip_point_0_type": "passive\n",
            f"{ZONE}/trip_point_0_temp": "85000\n",
            f"{COOLING}/type": "pwm-fan\n",
            f"{COOLING}/cur_state": "2\n",
            f"{CPU}/cpufreq/policy0/scaling_governor": "schedutil\n",
            f"{CPU}/cpufreq/policy2/scaling_governor": "powersave\n",
            f"{CPU}/cpufreq/policy2/scaling_driver": "intel_pstate\n",
            "dev/video0": "",
            "sys/class/video4linux/video0/name": "imx415\n",
            "dev/rknpu": "",
            "sys/devices/platform/soc/soc:firmware/get_throttled": "0\n",
        },
    )
    assert found.ok, str(found)
    for line in (
        "GPU: amlogic,meson-g12a-mali", "/dev/mali0: driver mali", "/dev/video0: imx415", "/dev/rknpu: an NPU",
        "soc: 45 C (passive at 85)", "firmware: no throttling",
    ):  # fmt: skip
        assert line in str(found)


def test_devices_that_may_not_be_used(tmp_path, monkeypatch):
    """As for a user who is not in the groups."""
    monkeypatch.setattr(Machine, "usable", lambda *_: False)
    gpu, camera = looked_at(tmp_path, {"dev/mali0": "", "dev/video0": "", "dev/video1": ""}).faults
    assert gpu.what.startswith("/dev/mali0: no permission") and "usermod -aG render,video" in gpu.remedy
    assert camera.what == "/dev/video0, /dev/video1: no permission" and "usermod -aG video" in camera.remedy


# ---- this machine ----


def quick():
    return doctor(self_test=False)


def page_of(before, **variables):
    """Of a process that has done something before."""
    script = f"{before}; import pipeall; print(pipeall.doctor(self_test=False))"
    return run(REPOSITORY, "-c", script, **WITH_TESTS, **variables)


def only(found, pattern):
    """The fault that is about something."""
    (fault,) = [fault for fault in found.faults if re.search(pattern, fault.what)]
    return fault


def test_no_loader(tmp_path, monkeypatch):
    """A fault where something would need it."""
    find = importlib.util.find_spec
    monkeypatch.setattr(opencl, "find_spec", lambda name: None if name == "pyopencl" else find(name))
    fault = only(looked_at(tmp_path, MALI), "no OpenCL loader: pyopencl")
    assert fault.remedy == "pip install 'pipeall[opencl]'"
    found = doctor(root=board(tmp_path / "without"))
    assert found.ok and "OpenCL loader: none, and no GPU" in str(found)


def test_a_file_here_that_names_a_missing_library(tmp_path, monkeypatch):
    (tmp_path / "pocl.icd").write_text("/nowhere/libpocl.so.2\n")
    monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path))
    fault = only(quick(), "names the OpenCL driver /nowhere/libpocl.so.2: .*cannot open shared object file")
    assert "apt-get install --reinstall pocl-opencl-icd" in fault.remedy


def test_no_affinity(monkeypatch):
    def refused(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setaffinity", refused)
    cores.can_pin.cache_clear()
    try:
        assert "seccomp" in only(quick(), "no affinity: threads cannot be pinned").remedy
    finally:
        cores.can_pin.cache_clear()


def test_cores_that_are_taken_away():
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one core only: none can be taken away")
    said = page_of("import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})")
    assert re.search(r"may run on cores \d+ of [\d,-]+ alone, by (taskset|a cpuset)", said)


def test_a_full_disk(tmp_path):
    """No file of some size fits, as on a disk without room."""
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))"
    said = page_of(limited, PIPEALL_CACHE=str(tmp_path / "cache"))
    assert "cache takes no files: the disk is full" in said and "name another folder by PIPEALL_CACHE" in said


def test_a_cache_that_is_no_folder(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("PIPEALL_CACHE", str(tmp_path / "file"))
    assert "unset the variable" in only(quick(), "PIPEALL_CACHE: expected a folder").remedy


def test_a_wrong_kernel_is_named_and_the_rest_goes_on(tmp_path, monkeypatch):
    monkeypatch.setenv("PIPEALL_CACHE", str(tmp_path))
    monkeypatch.setenv("PIPEALL_OPENCL", "off")
    self_check.known_wrong.cache_clear()
    here = cluster.detect()[0]
    gemm = choose(here.isas, here.core_type)["gemm", "f32"]
    with planted(gemm), pytest.warns(RuntimeWarning, match=gemm):
        found = doctor()
    self_check.known_wrong.cache_clear()
    names = {part.name for part in cluster.detect()}
    for name in names:
        assert "left out" in only(found, f"kernel {gemm} gives wrong results on {name}").remedy
    assert f"pipeline: {'-'.join(('big', 'little', 'big'))}" in str(found) or len(names) == 1


def test_all_is_tried_here(tmp_path, monkeypatch):
    monkeypatch.setenv("PIPEALL_CACHE", str(tmp_path))
    text = str(doctor())
    for what in ("big: kernels: ", "big: rates: ", "frames, "):
        assert what in text, text
    assert not re.search("wrong results|does not run|comes out wrong", text), text


# ---- what is printed ----


def test_nothing_personal(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home/marguerite"))
    monkeypatch.setenv("USER", "marguerite")
    monkeypatch.setenv("PIPEALL_CACHE", str(tmp_path / "home/marguerite/cache"))
    monkeypatch.setenv("OCL_ICD_VENDORS", "/home/theophile/vendors:/nowhere")
    found = quick()
    for text in (str(found), json.dumps(found.to_dict())):
        assert not re.search("marguerite|theophile", text) and "cache: ~/cache" in text.replace('", "value": "', ": ")
        assert os.uname().nodename not in text


def test_the_command_ends_with_ok_or_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("PIPEALL_SYSFS", str(board(tmp_path)))
    good = invoke("doctor", "--quick")
    assert (good.exit_code, good.stdout.splitlines()[-1]) == (0, "OK: nothing is wrong here.")
    board(tmp_path, {f"{CPU}/offline": "3\n", f"{CPU}/present": "0-5\n"})
    bad = invoke("doctor", "--quick")
    assert bad.exit_code == 1 and bad.stdout.splitlines()[-2].startswith("  1. core 3 offline")
    said = json.loads(invoke("doctor", "--quick", "--json").stdout)
    assert said["format"] == "pipeall.doctor/1" and said["ok"] is False
    assert said["faults"][0] | {"remedy": ""} == {
        "topic": "Processors",
        "what": said["faults"][0]["what"],
        "remedy": "",
    }
    assert {"Software", "Processors", "Clocks", "Heat"} <= {section["title"] for section in said["sections"]}


def test_a_root_that_is_no_folder(tmp_path):
    with pytest.raises(ArgumentError, match="root: expected a folder"):
        doctor(root=str(tmp_path / "gone"))


def test_a_machine_without_a_core_that_may_be_used(tmp_path):
    """It is told, and the rest is looked at."""
    write_tree({"proc/cpuinfo": "", f"{CPU}/online": "\n"}, tmp_path)
    found = doctor(root=tmp_path)
    assert "no CPU core to run on" in found.faults[0].what and "Heat" in str(found)
    assert isinstance(found, pipeall.Diagnosis)
