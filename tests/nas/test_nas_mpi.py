"""A search whose candidates are evaluated by the ranks of MPI."""

from mpi_run import HERE, mpirun
from nas_landscapes import members_of_a_search


def test_ranks_give_the_search_of_one_process():
    done = mpirun(3, "-m", "mpi4py.futures", HERE / "nas_mpi.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:-1] == [repr(member) for member in members_of_a_search(None)]
