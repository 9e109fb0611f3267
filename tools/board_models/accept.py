"""Makes boards of reports that were sent: checks each file of tools/board_models/reports/, and moves it to the models.

python -m tools.board_models.accept           all, or none where one is refused
python -m tools.board_models.accept --check   moves nothing
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from pipeall import Board, PipeallError
from pipeall.pipeline.boards.models.board_model import FOLDER
from pipeall.pipeline.measuring.report import PATH

REPORTS = Path(__file__).parent / "reports"
MOST_BYTES = 2**20
FEWEST_NETWORKS = 3  # of which prices of others follow
LARGEST_ERROR = 0.5  # of a plan that the report's own profile predicts
TOLD = ("model", "cores", "machine", "pipeall", "date", "peaks", "networks")


def reports() -> list[Path]:
    return sorted(REPORTS.glob("*.json"))


def check(path: Path, models: Path = FOLDER) -> None:
    """Raises ValueError, which names the file and what is wrong with it."""

    def want(true: bool, expected: str, got: object) -> None:
        if not true:
            raise ValueError(f"{path.name}: expected {expected}, got {got}")

    want(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", path.stem) is not None, "a name of a-z, 0-9 and -", repr(path.stem))
    want(not (models / path.name).exists(), "a name of its own", "that of a board of the package")
    want(path.stat().st_size <= MOST_BYTES, f"at most {MOST_BYTES} bytes", path.stat().st_size)
    try:
        model = Board.load(path).model
    except PipeallError as error:
        raise ValueError(str(error)) from None
    assert model is not None  # or it is no file of a board
    report = model.report
    absent = [key for key in TOLD if not report.get(key)]
    want(not absent, "a report, as `pipeall profile board` writes it", f"none of {', '.join(absent)}")
    want(len(report["networks"]) >= FEWEST_NETWORKS, f"{FEWEST_NETWORKS} networks or more", len(report["networks"]))
    found = PATH.search(json.dumps(report))
    want(found is None, "no path of the machine", found and found[0])
    for network in report["networks"]:
        for plan in network["plans"]:
            name = f"{network['network']} by {plan['plan']}"
            want(not plan["disturbed"], f"{name} on a board without other work", "one that was disturbed")
            off = abs(plan["error_percent"]) / 100
            want(off <= LARGEST_ERROR, f"{name} within {LARGEST_ERROR:.0%} of its prediction", f"{off:.0%}")


def main() -> None:
    refused = []
    for path in reports():
        try:
            check(path)
        except ValueError as error:
            refused.append(f"error: {error}")
    if refused:
        sys.exit("\n".join(refused))
    for path in reports():
        if sys.argv[1:] != ["--check"]:
            path.rename(FOLDER / path.name)
        print(path.stem)


if __name__ == "__main__":
    main()
