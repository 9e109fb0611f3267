"""The PIPEALL_* variables: defaults, values, and one-line errors that name the variable and what came."""

import re
from pathlib import Path

import pytest

from pipeall import env
from pipeall.errors import ArgumentError

ACCESSORS = {
    "PIPEALL_ISA": env.isa,
    "PIPEALL_CORE": env.core,
    "PIPEALL_OPENCL": env.opencl,
    "PIPEALL_TUNE": env.tune,
    "PIPEALL_CACHE": env.cache_dir,
    "PIPEALL_TUNING": env.tuning,
    "PIPEALL_LEASES": env.leases,
    "PIPEALL_VERBOSE": env.verbose,
    "PIPEALL_FAULT": env.fault,
    "PIPEALL_SYSFS": env.sysfs,
}
DEFAULTS = {
    "PIPEALL_CACHE": Path.home() / ".cache" / "pipeall",
    "PIPEALL_TUNE": True,
    "PIPEALL_VERBOSE": False,
    "PIPEALL_SYSFS": Path("/"),
}


def test_every_variable_is_listed_once():
    assert [variable.name for variable in env.VARIABLES] == list(ACCESSORS)


def test_the_package_reads_no_other_variable():
    package = Path(env.__file__).parent
    sources = [path for ending in ("py", "pyx") for path in package.rglob(f"*.{ending}")]
    found = {name for path in sources for name in re.findall(r"\bPIPEALL_[A-Z_]+\b", path.read_text())}
    assert found == set(ACCESSORS)


@pytest.mark.parametrize("value", [None, "", "  "])
@pytest.mark.parametrize("name", ACCESSORS)
def test_unset_and_empty_give_the_default(monkeypatch, name, value):
    if value is None:
        monkeypatch.delenv(name, raising=False)
    else:
        monkeypatch.setenv(name, value)
    assert ACCESSORS[name]() == DEFAULTS.get(name)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("PIPEALL_ISA", "avx2", "avx2"),
        ("PIPEALL_ISA", "AVX2", "avx2"),
        ("PIPEALL_CORE", "cortex-a53", "cortex-a53"),
        ("PIPEALL_OPENCL", "off", "off"),
        ("PIPEALL_CACHE", "/nowhere/cache", Path("/nowhere/cache")),
        ("PIPEALL_CACHE", "~/there", Path.home() / "there"),
        ("PIPEALL_LEASES", "/run/pipeall", Path("/run/pipeall")),
        ("PIPEALL_TUNING", __file__, Path(__file__)),
        ("PIPEALL_VERBOSE", "1", True),
        ("PIPEALL_VERBOSE", "0", False),
        ("PIPEALL_FAULT", "2:17", (2, 17)),
    ],
)
def test_values(monkeypatch, name, value, expected):
    monkeypatch.setenv(name, value)
    assert ACCESSORS[name]() == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PIPEALL_ISA", "sse2"),
        ("PIPEALL_VERBOSE", "yes"),
        ("PIPEALL_FAULT", "1"),
        ("PIPEALL_FAULT", "1:"),
        ("PIPEALL_FAULT", ":1"),
        ("PIPEALL_FAULT", "-1:3"),
        ("PIPEALL_FAULT", "1:2:3"),
        ("PIPEALL_FAULT", "1:²"),
        ("PIPEALL_CACHE", __file__),
        ("PIPEALL_TUNING", "/nowhere/tuning.json"),
        ("PIPEALL_SYSFS", "/nowhere/at/all"),
    ],
)
def test_malformed_values_are_named(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(ArgumentError) as raised:
        ACCESSORS[name]()
    message = str(raised.value)
    assert name in message and value in message and "\n" not in message
