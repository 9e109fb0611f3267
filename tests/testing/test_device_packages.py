"""The packages of examples/devices, installed as a user would, and their own tests. A quick form; all with --full."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from build_trees import REPOSITORY

QUICK = {
    "onnxruntime": "(crosses and B-N-L and False) or one_error",
    "litert": "(crosses and B-N-L and False) or one_error or that_does_not_work",
    "rknn": "every_place or timeout or one_slice",
}
DATA = Path(os.environ.get("PIPEALL_TEST_DATA", REPOSITORY.parent / "shared" / "data"))
MODULES = {"litert": "ai_edge_litert", "rknn": "onnxruntime"}


def installed(name, folder):
    """A package as a user installs it; what runs Python with it."""
    source, site = folder / name, folder / "site"
    shutil.copytree(REPOSITORY / "examples" / "devices" / name, source)
    paths = {"PYTHONPATH": os.pathsep.join(map(str, (site, REPOSITORY))), "PIPEALL_TEST_DATA": str(DATA)}

    def run(*arguments):
        line = [sys.executable, "-m", *map(str, arguments)]
        done = subprocess.run(line, env=os.environ | paths, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
        return done.stdout

    run("pip", "install", "-q", "--no-build-isolation", "--no-deps", "--no-index", "--target", site, source)
    return run


@pytest.mark.parametrize("name", QUICK)
def test_a_device_package(name, tmp_path, pytestconfig):
    module = MODULES.get(name, name)
    pytest.importorskip(module, reason=f"{module} is not installed")
    run, source = installed(name, tmp_path), tmp_path / name
    most = "" if DATA.is_dir() else "not known_networks"
    some = ["-k", most if pytestconfig.getoption("--full") else QUICK[name]]
    printed = run("pytest", "-q", "-p", "no:cacheprovider", "--rootdir", source, source / "tests", *some)
    assert " passed" in printed and "skipped" not in printed


@pytest.mark.full
def test_its_readme_on_photos(tmp_path, data_dir):
    """A search with the npu; ResNet-50 with a stage in onnxruntime: each photo in its turn, its class, the trace."""
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one core only")
    run, model, photos = installed("onnxruntime", tmp_path), data_dir / "models" / "resnet50.onnx", data_dir / "photos"
    found = json.loads(run("pipeall", "search", model, "--units", "big,npu", "--seconds", "0.2", "--json"))
    assert any("npu" in row["plan"] for row in found["ranked"])
    trace = tmp_path / "trace.json"
    lines = run("pipeall", "run", model, photos, "--plan", "big-npu-little:5,11", "--json", "--trace", trace)
    answers = [row for row in map(json.loads, lines.splitlines()) if "classes" in row]
    labels = json.loads((photos / "labels.json").read_text())
    assert [Path(row["source"]).name for row in answers] == sorted(labels)
    for row in answers:
        assert row["classes"][0]["category_id"] in labels[Path(row["source"]).name], row["source"]
    events = json.loads(trace.read_text())["traceEvents"]
    (npu,) = (one["tid"] for one in events if one.get("args", {}).get("name") == "npu: groups 6 to 11")
    frames = [one["args"]["frame"] for one in events if (one.get("cat"), one["ph"], one["tid"]) == ("frame", "X", npu)]
    assert frames == list(range(len(labels)))
