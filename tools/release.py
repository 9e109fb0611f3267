"""A release, by its tag.

python tools/release.py check v0.2.0     fails unless the package, the changelog and CITATION.cff are of that version
python tools/release.py notes v0.2.0     prints what the changelog says of it

Needs no package: the workflow runs it before anything is installed.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SECTIONS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")  # those of Keep a Changelog


def changelog(text: str) -> dict[str, str]:
    """Heading, such as "[0.2.0] - 2027-01-31" or "[Unreleased]" -> what is below it."""
    parts = re.split(r"^## (.+)\n", text, flags=re.M)
    return {heading: body.strip() for heading, body in zip(parts[1::2], parts[2::2], strict=True)}


def notes(version: str, text: str) -> str:
    """What a changelog says of a version. Raises ValueError where it has no dated heading of it, or nothing below."""
    for heading, body in changelog(text).items():
        if re.fullmatch(rf"\[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d", heading) and body:
            return body
    raise ValueError(
        f"docs/changelog.md: expected a heading '## [{version}] - YYYY-MM-DD' with text below it, got none"
    )


def check(version: str, root: Path = ROOT) -> None:
    """Raises ValueError where a file is of another version."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise ValueError(f"tag: expected vX.Y.Z, got 'v{version}'")
    places = {"pipeall/__init__.py": r'^__version__ = "(.*)"$', "CITATION.cff": r"^version: (.*)$"}
    for name, pattern in places.items():
        (found,) = re.findall(pattern, (root / name).read_text(), re.M)
        if found != version:
            raise ValueError(f"{name}: expected version {version}, as the tag, got {found}")
    notes(version, (root / "docs" / "changelog.md").read_text())


def main() -> None:
    if len(sys.argv) != 3 or sys.argv[1] not in ("check", "notes") or not sys.argv[2].startswith("v"):
        sys.exit(__doc__)
    command, version = sys.argv[1], sys.argv[2].removeprefix("v")
    try:
        if command == "check":
            check(version)
        else:
            print(notes(version, (ROOT / "docs" / "changelog.md").read_text()))
    except ValueError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
