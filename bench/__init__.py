"""What is timed, by theme: ``python -m bench.FOLDER.SCRIPT`` in a clone. Benches use the helpers of the tests."""

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path += [str(TESTS / "support"), str(TESTS / "long")]
