"""What runs for minutes or hours: ``python -m tests.long.SCRIPT`` in a clone. Tests import the same modules."""

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path += [str(TESTS / "support"), str(TESTS / "long")]
