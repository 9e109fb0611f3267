"""The rules of the source itself: who may import whom, file sizes, style, and what `import pipeall` costs."""

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = REPOSITORY / "pipeall"

LEAVES = {"arguments", "cache", "env", "errors", "files", "journal", "notebook", "picture", "progress", "steps"}
GRAPH = LEAVES | {"graph", "graph/onnx"}
CPU = {"_kernels/cpu", *(f"_kernels/cpu/{folder}" for folder in ("drivers", "f16", "f32", "s8", "simd"))}
KERNELS = LEAVES | CPU | {"_kernels", "_kernels/opencl"}
MODELS = GRAPH | {"pipeline/planning"}
DEVICES = MODELS | KERNELS | {"pipeline/devices"}
BOARDS = DEVICES | {"pipeline/boards", "pipeline/boards/models"}
RUNTIME = BOARDS | {"pipeline"}
PIPELINE = RUNTIME | {"pipeline/measuring"}
FACES = {"diagnosis", "quantization", "pruning", "tasks", "media", "sizing"}

ROOMS = {  # room -> the other rooms it may import; a room is a folder or a module of the package
    **dict.fromkeys(("errors", "notebook", "progress"), set()),
    **dict.fromkeys(("arguments", "env", "steps"), {"errors"}),
    **dict.fromkeys(("files", "picture"), {"arguments", "errors"}),
    **dict.fromkeys(("arrays", "journal"), {"arguments", "errors", "files"}),
    "cache": {"__init__", "env", "errors", "files"},
    **dict.fromkeys(("_kernels", "graph"), LEAVES),
    "_kernels/cpu": LEAVES | {"_kernels", "_kernels/cpu/drivers"},
    "_kernels/cpu/drivers": {"_kernels", "_kernels/cpu", "_kernels/cpu/simd"},
    **dict.fromkeys(
        ("_kernels/cpu/f16", "_kernels/cpu/f32", "_kernels/cpu/s8"), {"_kernels", "_kernels/cpu", "_kernels/cpu/simd"}
    ),
    "_kernels/cpu/simd": {"_kernels/cpu"},
    "_kernels/opencl": LEAVES | {"_kernels"},
    "graph/onnx": LEAVES | {"graph"},
    "sizing": GRAPH,
    "pipeline/planning": GRAPH,
    "pipeline/devices": MODELS | KERNELS,
    "pipeline/devices/cpu": DEVICES,
    "pipeline/devices/opencl": DEVICES,
    "pipeline/boards/models": DEVICES,
    "pipeline/boards": DEVICES | {"pipeline/boards/models", "pipeline/devices/cpu"},  # every board has clusters
    "pipeline": BOARDS,
    "pipeline/measuring": RUNTIME,
    "quantization": PIPELINE | {"tasks"},
    **dict.fromkeys(("media", "pruning"), PIPELINE | {"tasks", "quantization"}),
    "tasks": GRAPH | {"picture"},
    "mlp": GRAPH | KERNELS | {"arrays"},
    "nas": BOARDS | {"arrays", "sizing", "tasks"},
    **dict.fromkeys(("diagnosis", "testing"), PIPELINE | {"__init__"}),
    "cli": PIPELINE | FACES | {"mlp", "nas", "arrays", "__init__"},
    "__init__": PIPELINE | FACES | {"testing"},
    "__main__": {"cli"},
}
CIRCLES = [{"graph.ir", "graph.partition"}]  # Graph.groups and Graph.cuts are part of a graph's face
OPTIONAL = {  # package outside of the standard library -> the file or folder that may import it, or several
    "onnx": "graph/onnx",
    "google": "graph/onnx/read/reader.py",
    "pyopencl": "_kernels/opencl/cl_devices.py",
    "mpi4py": "mlp/comm_mpi.py",
    "distributed": "nas/executors.py",
    "tensorboardX": "cli/train/train_log.py",
    **dict.fromkeys(("click", "rich"), "cli"),
    "tomli": "cli/schedule/schedule_file.py",  # before Python 3.11, which has its own
    "PIL": "media/images.py",
    "av": "media/video.py",
    "matplotlib": "cli/figures.py",
    "torch": ("nas/training/training_loop.py", "pruning/torch_graph.py", "sizing/module.py", "sizing/torch_network.py"),
    "sklearn": "nas/datasets.py",
}
PYTHONS_OWN = {"_exit", "_replace", "_repr_html_"}  # public in spite of the name: os._exit, named tuples, notebooks
CYTHON, CYTHON_FILES = {"cython", "libc", "cpython", "posix"}, {".pyx", ".pxd", ".pxi"}
MAX_LINES = 400
MAX_FUNCTION = 50  # lines, without the docstring: a screen
LONG = {"random_graph", "_onnx_nodes"}  # generators of test cases: a small function or a case for each op

GENERATED = {path.with_suffix(".c") for path in PACKAGE.rglob("*.pyx")}
SOURCES = sorted(
    path
    for root in ("pipeall", "tests", "bench", "tools", "setup.py")
    for path in [REPOSITORY / root, *(REPOSITORY / root).rglob("*")]
    if path.suffix in {".py", *CYTHON_FILES, ".c", ".h", ".inc", ".cl"} and path not in GENERATED
)
MODULES = [path for path in SOURCES if PACKAGE in path.parents]


def relative_name(path):
    return path.relative_to(REPOSITORY).as_posix()


def room_of(path):
    """The room a file of the package belongs to: the innermost one."""
    inside = path.relative_to(PACKAGE).with_suffix("")
    return next(name for place in (inside, *inside.parents) if (name := place.as_posix()) in ROOMS)


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
    readers = {".py": python_imports} | dict.fromkeys(CYTHON_FILES, cython_imports)
    return readers.get(path.suffix, lambda _: ())(path)


def included(path):
    """The files of the package that a C or Cython file includes by name: beside it, or from the package's folder."""
    names = re.findall(r'(?:#\s*include|extern from|^include)\s+"([^"]+)"', path.read_text(), flags=re.MULTILINE)
    candidates = [(folder / name).resolve() for name in names for folder in (path.parent, PACKAGE)]
    return [candidate for candidate in candidates if candidate.is_file()]


def dotted(path, level, name):
    """The dotted name inside of the package that is imported; None for another package and for the version."""
    if name == "__version__":
        return None
    if level == 0:
        top, _, rest = name.partition(".")
        return rest if top == "pipeall" else None
    parts = path.relative_to(PACKAGE).parts[:-1]
    return ".".join((*parts[: len(parts) - (level - 1)], *filter(None, name.split("."))))


def imported_room(path, level, name):
    """The room of an import of the package; None for another package."""
    found = dotted(path, level, name)
    if found is None:
        return None
    parts = found.split(".")
    while parts and "/".join(parts) not in ROOMS:
        parts.pop()
    return "/".join(parts) or "__init__"


def test_rooms():
    offences = []
    for path in MODULES:
        allowed = ROOMS[room_of(path)] | {room_of(path), None}
        for level, name in imports(path):
            if imported_room(path, level, name) not in allowed:
                offences.append(f"{relative_name(path)} imports {'.' * level}{name}")
        for file in included(path):
            if PACKAGE not in file.parents or room_of(file) not in allowed:
                offences.append(f"{relative_name(path)} includes {file}")
    assert not offences


def module_name(path):
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")


def module_graph():
    """module -> the modules of the package that it imports, also inside of functions and for type checkers."""
    modules = {module_name(path): path for path in MODULES if path.suffix in (".py", ".pyx")}
    edges = {name: set() for name in modules}
    for name, path in modules.items():
        for level, imported in imports(path):
            found = dotted(path, level, imported)
            while found and found not in modules:
                found = found.rpartition(".")[0]
            if found and found != name:
                edges[name].add(found)
    return edges


def circles(edges):
    """Sets of two or more nodes that reach each other (Tarjan's strongly connected components)."""
    number, low, stack, found = {}, {}, [], []

    def visit(node):
        number[node] = low[node] = len(number)
        stack.append(node)
        for after in edges[node]:
            if after not in number:
                visit(after)
            low[node] = min(low[node], low[after]) if after in stack else low[node]
        if low[node] == number[node]:
            members = {stack.pop()}
            while node not in members:
                members.add(stack.pop())
            if len(members) > 1:
                found.append(members)

    for node in edges:
        if node not in number:
            visit(node)
    return found


def test_import_circles():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a", "c"}}) == [{"a", "b", "c"}]
    assert circles(module_graph()) == CIRCLES


def test_optional_packages_stay_in_their_place():
    offences = []
    for path in MODULES:
        where = path.relative_to(PACKAGE)
        for level, name in imports(path):
            top = name.split(".")[0]
            if level == 0 and top not in {*sys.stdlib_module_names, *CYTHON, "numpy", "pipeall"}:
                places = OPTIONAL.get(top, "nowhere")
                places = {Path(place) for place in ([places] if isinstance(places, str) else places)}
                if places.isdisjoint((where, *where.parents)):
                    offences.append(f"{where} imports {name}, which belongs elsewhere")
    assert not offences


def test_no_room_is_empty():
    """That the rules above looked at something."""
    assert {room_of(path) for path in MODULES} == set(ROOMS)  # a new room needs its line above
    assert any(imported_room(path, *found) == "_kernels/cpu" for path in MODULES for found in imports(path))
    assert any(room_of(path) == "pipeline" and included(path) for path in MODULES)
    assert sum(map(len, module_graph().values())) > 300


@pytest.mark.parametrize(
    ("where", "source", "expected"),
    [
        ("graph/x.py", "from .._kernels.cpu import cluster", "_kernels/cpu"),
        ("graph/x.py", "from .. import _kernels", "_kernels"),
        ("graph/x.py", "import pipeall._kernels.cpu.table", "_kernels/cpu"),
        ("graph/x.py", "from .ir import Graph", "graph"),
        ("graph/x.py", "from .. import load", "__init__"),
        ("__main__.py", "from .cli import main", "cli"),
        ("pipeline/boards/x.py", "from ..planning.plan import Plan", "pipeline/planning"),
        ("pipeline/boards/x.py", "from .. import runtime", "pipeline"),
        ("_kernels/x.pyx", "from ..graph cimport ir", "graph"),
        ("_kernels/cpu/x.pxi", "    from ...pipeline.stats import Stats as S", "pipeline"),
        ("_kernels/x.pyx", "cimport cython", None),
    ],
)
def test_imports_are_recognized(tmp_path, where, source, expected):
    file = tmp_path / Path(where).name
    file.write_text(source.strip() if file.suffix == ".py" else source)
    assert [imported_room(PACKAGE / where, *found) for found in imports(file)] == [expected]


def private_names(source):
    """Names with an underscore that are reached for from outside: read, imported, or replaced by their text."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                continue
            case ast.Attribute(attr=name):
                names = [name]
            case ast.ImportFrom(module=module, names=aliases) if (module or "").startswith("pipeall"):
                names = [alias.name for alias in aliases]
            case ast.Call(
                func=ast.Attribute(attr="setattr" | "delattr") | ast.Name(id="getattr" | "setattr"), args=given
            ):
                names = [part.value for part in given if isinstance(part, ast.Constant) and isinstance(part.value, str)]
            case _:
                continue
        for name in (name.rpartition(".")[2] for name in names):
            if name.startswith("_") and not name.startswith("__") and name not in PYTHONS_OWN | {"_kernels"}:
                yield name


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("pipe._lanes[0].native", ["_lanes"]),
        ("from pipeall.sizing.size import _row, cost", ["_row"]),
        ("from pipeall import _kernels", []),
        ("patch.setattr(module, '_peak', 1)", ["_peak"]),
        ("patch.setattr('pipeall.sizing._peak', 1)", ["_peak"]),
        ("self._own = os._exit(type(x).__name__ + '_text')", []),
    ],
)
def test_private_names_are_recognized(source, expected):
    assert list(private_names(source)) == expected


def test_tests_use_what_is_public():
    """A seam that a test needs has a name and a docstring in the package, or the test has its own helper."""
    found = {path.name: set(private_names(path.read_text())) for path in (REPOSITORY / "tests").rglob("*.py")}
    assert not {name: names for name, names in found.items() if names}


def test_no_file_is_too_long():
    lines = {relative_name(path): len(path.read_text().splitlines()) for path in SOURCES}
    assert len(lines) > 50 and not [name for name, count in lines.items() if count > MAX_LINES]


def long_functions(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            documented = len((ast.get_docstring(node, clean=False) or "").splitlines())
            if node.end_lineno - node.lineno + 1 - documented > MAX_FUNCTION:
                yield node.name


def test_functions_fit_a_screen():
    assert {name for path in SOURCES if path.suffix == ".py" for name in long_functions(path)} == LONG


@pytest.mark.parametrize("command", [["check"], ["format", "--check"]], ids=" ".join)
def test_ruff(command):
    if importlib.util.find_spec("ruff") is None:
        pytest.skip("no ruff: pip install ruff")
    done = subprocess.run([sys.executable, "-m", "ruff", *command, "."], cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


WITHOUT_NATIVE_CODE = """
import pkgutil, sys
from contextlib import suppress
from importlib import import_module

class NoKernels:
    def find_spec(self, name, path=None, target=None):
        if name.startswith(("pipeall._kernels", "pipeall.pipeline.runtime")):
            raise ModuleNotFoundError(f"{name} is native", name=name)

sys.meta_path.insert(0, NoKernels())
from pipeall.errors import MissingExtraError

for room in ("pipeall.graph", "pipeall.sizing", "pipeall.pipeline.planning", "pipeall.tasks"):
    for module in pkgutil.walk_packages(import_module(room).__path__, f"{room}."):
        with suppress(MissingExtraError):  # of torch, which no extra for tests has
            import_module(module.name)
print(len([name for name in sys.modules if name.startswith("pipeall.")]))
"""


def test_graphs_costs_planning_and_tasks_work_without_native_code():
    done = subprocess.run([sys.executable, "-c", WITHOUT_NATIVE_CODE], cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0 and int(done.stdout) > 40, done.stderr


WITHOUT_TORCH = """
import os, sys, pytest

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")

sys.meta_path.insert(0, NoTorch())
os.environ.pop("PIPEALL_EXPECTED_SKIPS", None)  # CI installs torch, and expects no skip for want of it
sys.exit(pytest.main(sys.argv[1:]))
"""


def test_tests_are_collected_without_torch():
    """The second command of the README installs none; what needs it skips."""
    files = [path for path in (REPOSITORY / "tests").rglob("test_*.py") if "torch" in path.read_text()]
    command = [sys.executable, "-c", WITHOUT_TORCH, "--collect-only", "-q", *map(str, files)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0 and len(files) > 10, done.stdout[-5000:]


NUMPY_ALONE = """
import sys

class OnlyNumPy:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in {"numpy", "pipeall", *sys.stdlib_module_names}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, OnlyNumPy())
sys.path.insert(0, sys.argv[1])
import numpy
from resource import RUSAGE_SELF, getrusage
before, begin = set(sys.modules), getrusage(RUSAGE_SELF).ru_utime
import pipeall
print(getrusage(RUSAGE_SELF).ru_utime - begin, len(sys.modules.keys() - before))
for name in pipeall.__all__:
    getattr(pipeall, name)
"""


def test_import_needs_numpy_alone_and_is_quick():
    """Beyond NumPy: a few modules, and 0.15 s of the processor, the least of some runs, whatever else it does."""
    command = [sys.executable, "-c", NUMPY_ALONE, REPOSITORY]
    runs = [subprocess.run(command, capture_output=True, text=True) for _ in range(5)]
    assert all(run.returncode == 0 for run in runs), runs[0].stderr
    seconds, modules = zip(*(map(float, run.stdout.split()) for run in runs), strict=True)
    assert min(seconds) < 0.150 and max(modules) < 10
