"""The command line. ``main`` is its entry; everything that needs click, rich or Pillow is imported behind it."""

import sys

from ..errors import missing_extra
from . import ends

PACKAGES = ("click", "rich", "PIL")  # of the extra "cli"


def main() -> None:
    """Runs the command in ``sys.argv`` and exits with its status: 0, 2 after an error, 128 and the number of the signal
    that ended it: 130 after Ctrl-C."""
    ends.open_streams()
    ends.end_as_by_ctrl_c()
    sys.stdout.reconfigure(errors="backslashreplace")  # for a name that the terminal's encoding lacks
    try:
        from .app import app

        app()
    except KeyboardInterrupt:
        sys.exit(ends.interrupted())
    except SystemExit:
        if ends.signalled():  # what it could not write then, to a terminal that is gone, does not count
            sys.exit(ends.interrupted())
        raise
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in PACKAGES:
            raise
        print(f"error: {missing_extra(package, 'cli', 'the command line')}", file=sys.stderr)
        sys.exit(2)
    except ImportError as error:
        if error.name is not None:  # none: the package says itself that it is not built
            raise
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
