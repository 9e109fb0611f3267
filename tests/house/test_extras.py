"""Every extra of pyproject.toml can be installed from wheels on each processor and Python that the package is for."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PLATFORMS = ("aarch64-manylinux_2_28", "x86_64-manylinux_2_28")
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")


def resolve(platform: str, python: str) -> subprocess.CompletedProcess:
    """What an installer would choose there, markers and wheel tags included, for all extras at once."""
    return subprocess.run(
        [sys.executable, "-m", "uv", "pip", "compile", "-q", "pyproject.toml", "--all-extras", "--only-binary", ":all:",
         "--python-platform", platform, "--python-version", python, "--no-header", "--no-annotate"],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=600,
    )  # fmt: skip


@pytest.fixture(scope="module")
def resolved(request: pytest.FixtureRequest) -> dict[tuple[str, str], subprocess.CompletedProcess]:
    """Of the cases that run."""
    tests = [item for item in request.session.items if item.fspath == request.node.fspath]
    cases = [(test.callspec.params["platform"], test.callspec.params["python"]) for test in tests]
    with ThreadPoolExecutor(len(cases)) as pool:  # they wait for the index, not for a core
        return dict(zip(cases, pool.map(resolve, *zip(*cases, strict=True)), strict=True))


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("python", PYTHONS)
def test_every_extra_resolves_to_wheels(resolved, platform, python):
    done = resolved[platform, python]
    if "Failed to fetch" in done.stderr or "error sending request" in done.stderr:
        pytest.skip("no package index answers: connect this machine to one, such as PyPI or a mirror")
    assert done.returncode == 0, done.stderr
    chosen = {line.split("==")[0] for line in done.stdout.splitlines() if "==" in line}
    assert {"pyopencl", "onnx", "click", "mpi4py", "torch"} <= chosen
    assert ("pocl-binary-distribution" in chosen) == platform.startswith("x86_64")
