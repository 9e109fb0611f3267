"""Programs run by mpirun, on fewer cores than ranks."""

import os
import subprocess
import sys

from build_trees import REPOSITORY

HERE = REPOSITORY / "tests/support"
LIMIT_S = 240  # of a run that takes seconds on an idle machine
RUNS = {  # as root, on fewer cores than ranks, and without binding what shares them
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
}


def mpirun(ranks, *command):
    path = os.pathsep.join([str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | RUNS | {"PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}
    command = ["mpirun", "-n", str(ranks), sys.executable, *map(str, command)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
