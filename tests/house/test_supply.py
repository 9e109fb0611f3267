"""The source distribution by itself: complete, builds and installs offline, and its wheel needs no compiler."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from build_trees import REPOSITORY, copy_tree, run
from setuptools import Distribution

import pipeall
from tools.distributions import Sdist, sbom

SOURCES = (".py", ".pyx", ".pxd", ".pxi", ".c", ".h", ".inc", ".cl", ".json", ".npz", ".html")
TRY = """
import numpy, pipeall
from pipeall._kernels import opencl
assert pipeall.__file__.startswith({site!r}), pipeall.__file__
graph = pipeall.zoo.squeezenet()
with pipeall.Engine(graph, "big", board=pipeall.Board.detect(gpu=False)) as engine:
    y = engine(numpy.zeros(graph.inputs[0].shape, numpy.float32))
assert abs(float(y.sum()) - 1) < 1e-5
print(len(pipeall.Board.load("a311d-armcl").components), "components")
"""


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    """The archive, unpacked."""
    tree, folder = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("sdist")
    copy_tree(tree)
    run(tree, "-c", f"from setuptools.build_meta import build_sdist; build_sdist({str(folder)!r})")
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    (unpacked,) = (path for path in folder.iterdir() if path.is_dir())
    return unpacked


def test_sdist_has_every_source_and_nothing_built(sdist):
    generated = {path.with_suffix(".c") for path in REPOSITORY.glob("pipeall/**/*.pyx")}
    expected = {
        path.relative_to(REPOSITORY)
        for root in ("pipeall", "tests", "bench", "tools", "docs")
        for path in (REPOSITORY / root).rglob("*")
        if path.suffix in SOURCES and path not in generated
    }
    held = {path.relative_to(sdist) for path in sdist.rglob("*") if path.is_file()}
    assert expected <= held, sorted(map(str, expected - held))
    assert {"README.md", "LICENSE", "pyproject.toml", "setup.py", "docs/index.md"} <= set(map(str, held))
    assert not [path for path in held if path.suffix in (".so", ".pyc")]


@pytest.mark.parametrize("given, at", [("1800000000", {1800000000}), ("", {1000, 2000})])
def test_an_archive_made_twice_has_the_same_bytes(given, at, tmp_path, monkeypatch):
    """Of another folder, written in another order, by somebody who lets nobody else read the files."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", given)
    made = []
    for name, umask, files in (("one", 0o022, ("a.py", "tool", "b/c.py")), ("two", 0o077, ("b/c.py", "tool", "a.py"))):
        for file in files:
            path = tmp_path / name / "pipeall-0.1.0" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(file)
            path.chmod((0o777 if file == "tool" else 0o666) & ~umask)
        for path in (tmp_path / name / "pipeall-0.1.0").rglob("*"):
            os.utime(path, (umask, 2000 if path.is_file() else 1000))
        os.utime(tmp_path / name / "pipeall-0.1.0", (1000, 1000))
        monkeypatch.chdir(tmp_path / name)
        archive = Path(Sdist(Distribution()).make_archive("dist/pipeall-0.1.0", "gztar", base_dir="pipeall-0.1.0"))
        made.append(archive.read_bytes())
        with tarfile.open(archive) as packed:
            assert {(member.mtime, member.uid, member.uname) for member in packed} == {(time, 0, "") for time in at}
            modes = {member.name.partition("/")[2]: member.mode for member in packed}
            assert modes == {"": 0o755, "a.py": 0o644, "b": 0o755, "b/c.py": 0o644, "tool": 0o755}
    assert made[0] == made[1]


def test_the_list_of_what_is_in_a_wheel_is_of_its_standard():
    schema = pytest.importorskip("cyclonedx.schema", reason="pip install 'cyclonedx-python-lib[json-validation]'")
    from cyclonedx.validation.json import JsonStrictValidator

    validator = JsonStrictValidator(schema.SchemaVersion.V1_6)
    made = sbom(pipeall.__version__)
    assert validator.validate_str(json.dumps(made)) is None
    assert validator.validate_str(json.dumps(made | {"author": "us"})) is not None
    assert {part["name"]: part["licenses"][0]["license"]["id"] for part in made["components"]} == {
        "Cython": "Apache-2.0",
        "Optical Recognition of Handwritten Digits": "CC-BY-4.0",
    }
    listed = {part["bom-ref"] for part in (made["metadata"]["component"], *made["components"])}
    assert {row["ref"] for row in made["dependencies"]} == listed
    assert sbom("0.2.0")["serialNumber"] != made["serialNumber"]


@pytest.mark.full
def test_wheel_from_the_sdist_offline_without_a_compiler_to_use_it(sdist, tmp_path):
    compiler = tmp_path / "cc"  # does not optimize for minutes: what the wheel holds is looked at, not its speed
    compiler.write_text('#!/bin/sh\nexec gcc "$@" -O0\n')
    compiler.chmod(0o755)
    wheels = []
    for name in ("one", "two"):  # built in another folder it has the same bytes
        tree, out = tmp_path / name / "tree", tmp_path / name / "out"
        shutil.copytree(sdist, tree)
        build = ("--no-index", "--no-build-isolation", "--no-deps", "-w", str(out))
        run(tree, "-m", "pip", "wheel", "-q", *build, ".", CC=str(compiler), SOURCE_DATE_EPOCH="1800000000")
        wheels += out.glob("*.whl")
    assert wheels[0].read_bytes() == wheels[1].read_bytes()
    wheel = wheels[0]
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        (listed,) = (name for name in names if "/sboms/" in name)
        assert listed == f"pipeall-{pipeall.__version__}.dist-info/sboms/pipeall.cdx.json"
        assert json.loads(packed.read(listed)) == sbom(pipeall.__version__)
    sources = [name for name in names if name.endswith((".c", ".h", ".inc", ".pyx", ".pxd", ".pxi"))]
    assert sorted(sources) == [f"pipeall/_kernels/{name}.h" for name in ("parts", "program")]  # for devices outside
    assert sum(name.endswith(".so") for name in names) == 3
    assert any(name.endswith("/boards/models/a311d-armcl.json") for name in names) and any(
        name.endswith(".cl") for name in names
    )
    assert "pipeall/media/view.html" in names
    site = tmp_path / "site"
    nothing = {"PATH": str(tmp_path / "nothing"), "CC": "/no/compiler"}
    install = ("--no-index", "--no-deps", "--only-binary=:all:", "--target", str(site))
    run(tmp_path, "-m", "pip", "install", "-q", *install, str(wheel), **nothing)
    done = subprocess.run(
        [sys.executable, "-c", TRY.format(site=str(site))], cwd=tmp_path, env=nothing | {"PYTHONPATH": str(site)},
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0 and "components" in done.stdout, done.stdout
