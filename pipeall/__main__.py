"""``python -m pipeall``: the command line."""

from .cli import main

main()
