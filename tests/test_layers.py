"""The rules of the source itself: who may import whom, file sizes, style, and what `import pipeall` costs."""

import ast
import importlib.util
import re
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGE = REPOSITORY / "pipeall"

LAYERS = {  # layer -> the other layers it may import; a layer is a folder or a module of the package
    "errors": set(),
    "env": {"errors"},
    "atomic": {"errors"},
    "arrays": {"errors"},
    "_kernels": {"env", "errors"},
    "graph": {"env", "errors"},
    "pipeline": {"_kernels", "graph", "atomic", "env", "errors"},
    "mlp": {"_kernels", "graph", "arrays", "atomic", "env", "errors"},
    "nas": {"pipeline", "graph", "arrays", "atomic", "env", "errors"},
    "cli": {"pipeline", "mlp", "nas", "_kernels", "graph", "atomic", "env", "errors", "__init__"},
    "__init__": {"pipeline", "graph", "env", "errors"},
    "__main__": {"cli"},
}
OPTIONAL = {  # package outside of the standard library -> the one file or folder that may import it
    "onnx": "graph/onnx_import.py",
    "google": "graph/onnx_import.py",
    "pyopencl": "_kernels/opencl.py",
    "mpi4py": "mlp/comm_mpi.py",
    "click": "cli",
    "rich": "cli",
    "PIL": "cli",
    "matplotlib": "cli/plot.py",
    "torch": "nas/train.py",
    "sklearn": "nas/text.py",
}
CYTHON = {"cython", "libc", "cpython"}
MAX_LINES = 500

GENERATED = {path.with_suffix(".c") for path in PACKAGE.rglob("*.pyx")}
SOURCES = sorted(
    path
    for root in ("pipeall", "tests", "bench", "setup.py")
    for path in [REPOSITORY / root, *(REPOSITORY / root).rglob("*")]
    if path.suffix in {".py", ".pyx", ".pxd", ".c", ".h", ".inc", ".cl"} and path not in GENERATED
)
MODULES = [path for path in SOURCES if PACKAGE in path.parents]


def relative_name(path):
    return path.relative_to(REPOSITORY).as_posix()


def layer_of(path):
    """The layer a file of the package belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def python_imports(path):
    """(level, dotted name) of every import; ``from x import a`` gives x.a, a being a module or a name in x."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((0, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.level, f"{node.module or ''}.{alias.name}".strip(".")) for alias in node.names)


def cython_imports(path):
    """The same for Cython, line by line."""
    for line in path.read_text().splitlines():
        if match := re.match(r"\s*from\s+(\.*)([\w.]*)\s+c?import\s+\(?\s*([\w, ]*)", line):
            for name in match[3].split(","):
                yield len(match[1]), f"{match[2]}.{name.split(' as ')[0].strip()}".strip(".")
        elif match := re.match(r"\s*c?import\s+([\w.]+)", line):
            yield 0, match[1]


def imports(path):
    return {".py": python_imports, ".pyx": cython_imports, ".pxd": cython_imports}.get(path.suffix, lambda _: ())(path)


def c_includes(path):
    """The files of the package that a C or Cython file includes by name."""
    names = re.findall(r'(?:#\s*include|extern from)\s+"([^"]+)"', path.read_text())
    candidates = [(path.parent / name).resolve() for name in names]
    return [candidate for candidate in candidates if candidate.is_file()]


def imported_layer(path, level, name):
    """The layer of an import of the package, or None for another package and for the version, which is no layer."""
    if name == "__version__":
        return None
    if level == 0:
        top, _, rest = name.partition(".")
        return (rest.split(".")[0] or "__init__") if top == "pipeall" else None
    parts = [*path.relative_to(PACKAGE).parts[:-1]]
    parts = parts[: len(parts) - (level - 1)] + name.split(".")
    first = parts[0] if parts else "__init__"
    return first if first in LAYERS else "__init__"


def test_layers():
    offences = []
    for path in MODULES:
        allowed = LAYERS[layer_of(path)] | {layer_of(path), None}
        for level, name in imports(path):
            if imported_layer(path, level, name) not in allowed:
                offences.append(f"{relative_name(path)} imports {'.' * level}{name}")
        for included in c_includes(path):
            if PACKAGE not in included.parents or layer_of(included) not in allowed:
                offences.append(f"{relative_name(path)} includes {included}")
    assert not offences


def test_optional_packages_stay_in_their_place():
    offences = []
    for path in MODULES:
        where = path.relative_to(PACKAGE)
        for level, name in imports(path):
            top = name.split(".")[0]
            if level == 0 and top not in {*sys.stdlib_module_names, *CYTHON, "numpy", "pipeall"}:
                place = Path(OPTIONAL.get(top, "nowhere"))
                if where != place and place not in where.parents:
                    offences.append(f"{where} imports {name}, which belongs to {place}")
    assert not offences


def test_no_layer_is_empty():
    """That the rules above looked at something."""
    assert {layer_of(path) for path in MODULES} == set(LAYERS)  # a new layer needs its line above
    assert any(imported_layer(path, *found) == "_kernels" for path in MODULES for found in imports(path))
    assert any(layer_of(path) == "pipeline" and c_includes(path) for path in MODULES)


@pytest.mark.parametrize(
    ("where", "source", "expected"),
    [
        ("graph/x.py", "from .._kernels import cluster", "_kernels"),
        ("graph/x.py", "from .. import _kernels", "_kernels"),
        ("graph/x.py", "import pipeall._kernels.table", "_kernels"),
        ("graph/x.py", "from .ir import Graph", "graph"),
        ("graph/x.py", "from .. import load", "__init__"),
        ("__main__.py", "from .cli import main", "cli"),
        ("_kernels/x.pyx", "from ..graph cimport ir", "graph"),
        ("_kernels/x.pyx", "    from ..pipeline.stats import Stats as S", "pipeline"),
        ("_kernels/x.pyx", "cimport cython", None),
    ],
)
def test_imports_are_recognised(tmp_path, where, source, expected):
    file = tmp_path / Path(where).name
    file.write_text(source.strip() if file.suffix == ".py" else source)
    assert [imported_layer(PACKAGE / where, *found) for found in imports(file)] == [expected]


def test_no_file_is_too_long():
    lines = {relative_name(path): len(path.read_text().splitlines()) for path in SOURCES}
    assert len(lines) > 50 and not [name for name, count in lines.items() if count > MAX_LINES]


@pytest.mark.parametrize("command", [["check"], ["format", "--check"]], ids=" ".join)
def test_ruff(command):
    if importlib.util.find_spec("ruff") is None:
        pytest.skip("no ruff: pip install ruff")
    done = subprocess.run([sys.executable, "-m", "ruff", *command, "."], cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


NUMPY_ALONE = """
import sys

class OnlyNumPy:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in {"numpy", "pipeall", *sys.stdlib_module_names}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, OnlyNumPy())
sys.path.insert(0, sys.argv[1])
import numpy
from time import perf_counter
begin = perf_counter()
import pipeall
print(perf_counter() - begin)
for name in pipeall.__all__:
    getattr(pipeall, name)
"""


def test_import_needs_numpy_alone_and_is_quick():
    """Seconds of ``import pipeall`` beyond NumPy's; the median, as other work may disturb single runs."""
    command = [sys.executable, "-c", NUMPY_ALONE, REPOSITORY]
    runs = [subprocess.run(command, capture_output=True, text=True) for _ in range(7)]
    assert all(run.returncode == 0 for run in runs), runs[0].stderr
    assert statistics.median(float(run.stdout) for run in runs) < 0.150
