"""Shared fixtures: where the test data lies, and the boards that pipelines run on."""

import atexit
import gc
import importlib.util
import os
import shutil
import signal
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from expected_skips import ExpectedSkips

os.environ["PIPEALL_TUNE"] = "off"  # the same algorithms on every machine and in every run; test_tune turns it on
LEASES = tempfile.mkdtemp(prefix="pipeall-leases-")  # other programs of this machine disturb no test, nor tests them
os.environ["PIPEALL_LEASES"] = LEASES
atexit.register(shutil.rmtree, LEASES, ignore_errors=True)
if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):  # else each process that a test starts compiles pipeall anew
    COMPILED = os.environ["PYTHONPYCACHEPREFIX"] = tempfile.mkdtemp(prefix="pipeall-compiled-")
    atexit.register(shutil.rmtree, COMPILED, ignore_errors=True)
os.environ.pop("COLUMNS", None)  # pytest-xdist sets it in its workers, and text would fold by the terminal's width

if importlib.util.find_spec("hypothesis"):  # not in the emulated Python
    from hypothesis import HealthCheck, settings

    # The same examples in every run, however slow the machine is
    slow = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
    settings.register_profile("fixed", derandomize=True, **slow)
    settings.load_profile("fixed")


KERNEL = ("row", "isa", "core")  # parameters that say which kernel a test runs
SHORT = 4  # one case in so many of each test, without --full; a kernel has at least one


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="all tests, all cases; else the set of the README's command")
    parser.addoption(
        "--every", type=int, help=f"one case in so many of each test and kernel: 1 with --full, else {SHORT}"
    )
    parser.addoption("--sweep", action="store_true", help="all cases, also where kernels are emulated or simulated")


def function_and_kernel(item: pytest.Item) -> tuple[str, ...]:
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    return item.nodeid.partition("[")[0], *(str(parameters.get(name)) for name in KERNEL)


def every(config: pytest.Config) -> int:
    return config.getoption("--every") or (1 if config.getoption("--full") else SHORT)


@pytest.hookimpl(trylast=True)  # of what other options have left
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    cases: dict[tuple[str, ...], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if config.getoption("--full") or not item.get_closest_marker("full"):
            cases[function_and_kernel(item)].append(item)
    kept = {item for some in cases.values() for item in some[:: every(config)]}
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


@pytest.fixture(scope="session")
def some(pytestconfig: pytest.Config) -> Callable[[Iterable], list]:
    """Of cases that one test goes through, as many as ``--every`` says."""
    return lambda cases: list(cases)[:: every(pytestconfig)]


@pytest.fixture
def thinned(pytestconfig: pytest.Config) -> Callable[[int], tuple[str, str]]:
    """Options of a pytest that a test runs on slow kernels: one case in so many, and all with ``--sweep``."""
    return lambda every: ("--every", "1" if pytestconfig.getoption("--sweep") else str(every))


def pytest_collection_finish() -> None:
    """The garbage collector need not look at thousands of tests again and again: some of them call it many times."""
    gc.collect()
    gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    """``PIPEALL_EXPECTED_SKIPS``: a file such as expected_skips.txt. Any other skip fails the run."""
    config.addinivalue_line("markers", "full: runs with --full alone: minutes, and what it finds others rarely miss")
    # Tests have several pipelines open; test_leases looks at what is told of that.
    config.addinivalue_line("filterwarnings", "ignore:.* held by another pipeline of this process:RuntimeWarning")
    if listed := os.environ.get("PIPEALL_EXPECTED_SKIPS"):
        config.pluginmanager.register(ExpectedSkips(Path(listed)))


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of trained models, photos and published outputs; tests that need it skip where it is absent."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("PIPEALL_TEST_DATA", default))
    if not folder.is_dir():
        pytest.skip(f"no test data at {folder}: set PIPEALL_TEST_DATA to the folder with models/ and photos/")
    return folder


@pytest.fixture(scope="session")
def board():
    """Two CPU components, big and little."""
    from pipeall import Board

    board = Board.detect(gpu=False)
    if "little" not in board.components:
        pytest.skip("one core only: a pipeline of two CPU components needs two")
    return board


@pytest.fixture(scope="session")
def three_clusters(board):
    """Big, mid and little, all on the same cores: lanes of three CPU stages on any machine."""
    from dataclasses import replace

    from pipeall import Board

    cluster = board.component("big").device.cluster
    return Board([replace(cluster, name=name) for name in ("big", "mid", "little")], gpu=False)


@pytest.fixture(scope="session")
def board_with_gpu():
    """All three components; without a GPU the CPU device of PoCL stands in."""
    from pipeall import Board

    board = Board.detect()
    missing = [name for name in ("big", "little", "gpu") if name not in board.components]
    if missing:
        pytest.skip(
            f"no {', '.join(missing)}: two cores are needed, and pip install 'pyopencl[pocl]' ({board.gpu_missing})"
        )
    return board


@pytest.fixture(scope="module")
def opencl_info(tmp_path_factory):
    """An OpenCL device, also one that stands in for a GPU; programs are compiled anew in each module of tests."""
    from pipeall import MissingExtraError
    from pipeall._kernels.opencl import cl_devices as opencl

    try:
        available = opencl.devices()
    except MissingExtraError as error:
        pytest.skip(f"no OpenCL: {error}; pip install 'pyopencl[pocl]' runs the kernels on any CPU")
    if not available:
        pytest.skip("no OpenCL device: pip install 'pyopencl[pocl]' adds one that runs on any CPU")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIPEALL_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield opencl.choose(available)


@pytest.fixture
def half_board(monkeypatch):
    """A board whose cores compute in fp16: by reference kernels, unless they are Arm's."""
    from pipeall import Board

    if "asimdhp" not in Board.detect(gpu=False).components["big"].device.cluster.isas:
        monkeypatch.setenv("PIPEALL_ISA", "ref")
    return Board.detect(gpu=False)


@pytest.fixture(scope="session")
def chain():
    """Ten equal groups, in microseconds a frame."""
    from toy_board import chain_net

    return chain_net()


@pytest.fixture
def tiny(monkeypatch):
    """MODEL "tiny": ``quick_net``. No OpenCL device, so that each platform has the same links."""
    from commands import quick_net

    from pipeall.cli.model_argument import ZOO

    monkeypatch.setitem(ZOO, "tiny", quick_net)
    monkeypatch.setenv("PIPEALL_OPENCL", "off")


@pytest.fixture
def keeping(tmp_path, monkeypatch):
    """Times and profiles are kept, in a folder of the test's own."""
    monkeypatch.setenv("PIPEALL_TUNE", "on")
    monkeypatch.setenv("PIPEALL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def ctrl_c():
    """As in a terminal: what runs in the background may have been started to ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
