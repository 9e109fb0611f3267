"""Fonts to draw answers with: Pillow's own, or one of this machine that has the letters which that lacks."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from .images import ImageFont

ENDINGS = (".ttf", ".ttc", ".otf", ".otc")
MOST = 2000  # files that are looked at
FIRST = ("cjk", "notosans", "droidsansfallback", "wqy", "unifont", "dejavusans")  # names of fonts with many letters
NOWHERE = "\uffff"  # no font has it
PROBED = 24  # height of the letters that are compared

_told: set[str] = set()


@lru_cache(maxsize=64)
def font(height: int, text: str) -> Any:
    """A font that has the letters of a text; where none has all, the one that lacks fewest, and it is said once."""
    letters = frozenset(text)
    path = _path_for(frozenset(letter for letter in letters if not _has(None, letter)))
    return _opened(path, height)


@cache
def _path_for(lacking: frozenset[str]) -> str | None:
    """The file of a font with letters that Pillow's lacks; None is that one."""
    best, fewest = None, len(lacking)
    for path in _files() if lacking else ():
        left = sum(not _has(path, letter) for letter in lacking)
        if left < fewest:
            best, fewest = path, left
        if not left:
            break
    if fewest:
        _tell("".join(sorted(letter for letter in lacking if not _has(best, letter))))
    return best


@cache
def _files() -> tuple[str, ...]:
    """Fonts in the folders where they usually are, those with many letters first."""
    paths = [path for _, path in zip(range(MOST), _all_files(), strict=False)]

    def order(path: str) -> tuple[int, str]:
        name = Path(path).stem.lower().replace("-", "").replace("_", "")
        return next((place for place, word in enumerate(FIRST) if word in name), len(FIRST)), path

    return tuple(sorted(paths, key=order))


def _all_files() -> Iterator[str]:
    own = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    shared = (os.environ.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share").split(":")
    for folder in (*(f"{data}/fonts" for data in (own, *shared)), "~/.fonts"):
        for place, _, names in os.walk(os.path.expanduser(folder)):
            yield from (os.path.join(place, name) for name in names if name.lower().endswith(ENDINGS))


@lru_cache(maxsize=64)
def _opened(path: str | None, height: int) -> Any:
    return ImageFont.load_default(height) if path is None else ImageFont.truetype(path, height)


@lru_cache(maxsize=2**16)
def _has(path: str | None, letter: str) -> bool:
    """Whether a font has a letter: what it draws for it is not what it draws for none."""
    if letter.isspace() or not letter.isprintable():
        return True
    try:
        return _drawn(path, letter) != _drawn(path, NOWHERE)
    except OSError:  # no font after all
        return False


def _drawn(path: str | None, letter: str) -> tuple[Any, bytes]:
    mask = _opened(path, PROBED).getmask(letter)
    return mask.size, bytes(mask)


def _tell(letters: str) -> None:
    """Once in a process."""
    if not _told:
        _told.add(letters)
        warnings.warn(
            f"no font here has {letters[:20]!r}: it is drawn as boxes; a font that has it, like Noto Sans CJK, "
            "is found in ~/.local/share/fonts",
            stacklevel=2,
        )
