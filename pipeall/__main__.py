"""``python -m pipeall``: the command line."""

from .cli import main

if __name__ == "__main__":  # workers of mpi4py.futures import the main module too
    main()
