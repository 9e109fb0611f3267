"""A source folder that is not built: what it says to who started Python in it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pipeall

PACKAGE = Path(pipeall.__file__).parent


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """The package without what a compiler made."""
    folder = tmp_path_factory.mktemp("clone")
    shutil.copytree(PACKAGE, folder / "pipeall", ignore=shutil.ignore_patterns("*.so", "__pycache__", "*.c", "*.h"))
    return folder


def started(clone, *arguments):
    return subprocess.run([sys.executable, *arguments], cwd=clone, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    "code", ["import pipeall; pipeall.Board", "from pipeall import Pipeline", "import pipeall; pipeall.profile"]
)
def test_python_says_where_to_start(clone, code):
    done = started(clone, "-c", code)
    *_, last = done.stderr.splitlines()
    assert done.returncode == 1 and str(clone / "pipeall") in last
    assert "not built" in last and "another folder" in last and "pip install -e ." in last
    assert done.stderr.count("File") == 2  # the line typed, and the one that says it


def test_the_command_says_it_in_one_line(clone):
    done = started(clone, "-m", "pipeall", "devices")
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1 and "not built" in done.stderr


def test_networks_are_read_without_it(clone):
    assert "squeezenet" in started(clone, "-c", "import pipeall; print(pipeall.zoo.squeezenet())").stdout
