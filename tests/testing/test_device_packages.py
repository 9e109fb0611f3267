"""The packages of examples/devices, installed as a user would, and their own tests. A quick form; all with --full."""

import os
import shutil
import subprocess
import sys

import pytest
from build_trees import REPOSITORY

QUICK = {
    "onnxruntime": "(crosses and B-N-L and False) or one_error",
    "litert": "(crosses and B-N-L and False) or one_error or that_does_not_work",
    "rknn": "every_place or timeout or one_slice",
}
MODULES = {"litert": "ai_edge_litert", "rknn": "onnxruntime"}


@pytest.mark.parametrize("name", QUICK)
def test_a_device_package(name, tmp_path, pytestconfig):
    module = MODULES.get(name, name)
    pytest.importorskip(module, reason=f"{module} is not installed")
    source, site = tmp_path / name, tmp_path / "site"
    shutil.copytree(REPOSITORY / "examples" / "devices" / name, source)
    paths = {"PYTHONPATH": os.pathsep.join(map(str, (site, REPOSITORY)))}

    def run(*arguments):
        line = [sys.executable, "-m", *map(str, arguments)]
        done = subprocess.run(line, env=os.environ | paths, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
        return done.stdout

    run("pip", "install", "-q", "--no-build-isolation", "--no-deps", "--no-index", "--target", site, source)
    some = [] if pytestconfig.getoption("--full") else ["-k", QUICK[name]]
    printed = run("pytest", "-q", "-p", "no:cacheprovider", "--rootdir", source, source / "tests", *some)
    assert " passed" in printed and "skipped" not in printed
