"""The command line. ``main`` is its entry; everything that needs click, rich or Pillow is imported behind it."""

import sys

from ..errors import missing_extra
from .status import INTERRUPTED

PACKAGES = ("click", "rich", "PIL")  # of the extra "cli"


def main() -> None:
    """Runs the command in ``sys.argv`` and exits with its status: 0, 2 after an error, 130 after Ctrl-C."""
    if sys.stdout is None:
        print("error: stdout: expected an open file, it is closed", file=sys.stderr)
        sys.exit(2)
    sys.stdout.reconfigure(errors="backslashreplace")  # for a name that the terminal's encoding lacks
    try:
        from .app import app

        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in PACKAGES:
            raise
        print(f"error: {missing_extra(package, 'cli', 'the command line')}", file=sys.stderr)
        sys.exit(2)
