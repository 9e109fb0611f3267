"""The search of ``test_nas_mpi``: mpirun -n RANKS python -m mpi4py.futures nas_mpi.py; prints its members."""

from mpi4py.futures import MPIPoolExecutor
from nas_landscapes import members_of_a_search

if __name__ == "__main__":
    with MPIPoolExecutor() as executor:
        print("\n".join(map(repr, members_of_a_search(executor))))
