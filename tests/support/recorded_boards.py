"""Boards that are not at hand, as what Linux says of them (boards/*.json: path -> content)."""

import json
from pathlib import Path

BOARDS = Path(__file__).parents[1] / "data/boards"


def recorded_files(name: str) -> dict[str, str]:
    """Path -> content, of one of ``BOARDS``."""
    return json.loads((BOARDS / f"{name}.json").read_text())


def write_tree(files: dict[str, str], root: Path) -> Path:
    """Writes the files below ``root``, which is returned."""
    for folder in {(root / path).parent for path in files}:
        folder.mkdir(parents=True, exist_ok=True)
    for path, content in files.items():
        (root / path).write_text(content)
    return root
