"""The source distribution by itself: complete, builds and installs offline, and its wheel needs no compiler."""

import subprocess
import sys
import tarfile
import zipfile

import pytest
from build_trees import REPOSITORY, copy_tree, run

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


@pytest.mark.full
def test_wheel_from_the_sdist_offline_without_a_compiler_to_use_it(sdist, tmp_path):
    compiler = tmp_path / "cc"  # does not optimize for minutes: what the wheel holds is looked at, not its speed
    compiler.write_text('#!/bin/sh\nexec gcc "$@" -O0 -g0\n')
    compiler.chmod(0o755)
    build = ("--no-index", "--no-build-isolation", "--no-deps", "-w", str(tmp_path))
    run(sdist, "-m", "pip", "wheel", "-q", *build, ".", CC=str(compiler))
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
    sources = [name for name in names if name.endswith((".c", ".h", ".inc", ".pyx", ".pxd", ".pxi"))]
    assert sources == ["pipeall/_kernels/program.h"]  # what devices outside are compiled with
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
