"""The OpenCL kernels in Oclgrind, which simulates a device and reports every access outside a buffer and every race."""

from pathlib import Path

import pytest
from build_trees import run

REPOSITORY = Path(__file__).resolve().parents[2]
WRONG = """
import pyopencl as cl
device = next(d for platform in cl.get_platforms() if platform.name == "Oclgrind" for d in platform.get_devices())
context = cl.Context([device])
queue, buffer = cl.CommandQueue(context), cl.Buffer(context, 0, size=16)
source = "__kernel void wrong(__global int *out) { out[get_global_id(0) + 1] = 0; out[0] = get_global_id(0); }"
cl.Program(context, source).build().wrong(queue, (4,), (4,), buffer)
queue.finish()
"""


@pytest.fixture
def simulated(tmp_path):
    """Variables under which OpenCL has the simulator alone, and the file it reports to."""
    pytest.importorskip("pyopencl", reason="no OpenCL: pip install pyopencl")
    libraries = sorted(Path("/usr/lib").glob("**/liboclgrind-rt-icd.so"))
    if not libraries:
        pytest.skip("no Oclgrind: apt-get install oclgrind")
    (tmp_path / "oclgrind.icd").write_text(f"{libraries[0]}\n")
    log = tmp_path / "log"
    variables = dict(OCL_ICD_VENDORS=tmp_path, PIPEALL_CACHE=tmp_path, PIPEALL_OPENCL="oclgrind")
    return {k: str(v) for k, v in (variables | dict(OCLGRIND_DATA_RACES=1, OCLGRIND_LOG=log)).items()}, log


def test_it_reports(simulated):
    variables, log = simulated
    run(REPOSITORY, "-c", WRONG, **variables)
    assert "Invalid write" in log.read_text() and "data race" in log.read_text()


# Kinds on pixels, and moves. Oclgrind itself crashes when it lists the kernels of some typed programs (reductions).
PIXELS = "conv fc maxpool avgpool lrn softmax layernorm shuffle concat transpose pad leakyrelu hardswish sigmoid erf"


def test_every_kernel_over_the_case_table(simulated, thinned, pytestconfig):
    variables, log = simulated
    chosen = f"({' or '.join(PIXELS.split())}) and not int and not bool and not logsoftmax"
    chosen = f"(test_case and not stored_in_half and {chosen} or test_winograd)"
    if not pytestconfig.getoption("--sweep"):
        chosen += " and not many"  # tiles: a minute of them
    cases = ("tests/opencl/test_opencl.py", *thinned(24), "-k", chosen)  # of every kind some
    printed = run(REPOSITORY, "-m", "pytest", "-q", "-p", "no:cacheprovider", *cases, **variables)
    assert "passed" in printed and "skipped" not in printed, printed
    assert not log.read_text()


def test_kernels_on_strided_operands(simulated):
    """Some of each: rows that several work items share, tables, indices outside of the tensor."""
    variables, log = simulated
    cases = "(layernorm or test_softmax or matmul) and tiled or where or cumsum or resize or gather_elements or outside"
    files = ("tests/opencl/test_opencl_strided.py", "tests/opencl/test_opencl_products.py")
    printed = run(REPOSITORY, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files, "-k", cases, **variables)
    assert "passed" in printed and "skipped" not in printed, printed
    assert not log.read_text()
