"""The words of the source: file names say which file, and words that were retired for the field's stay out."""

import ast
from collections import Counter

from build_trees import REPOSITORY

PACKAGE = REPOSITORY / "pipeall"
SUFFIXES = {".py", ".pyx", ".pxd", ".pxi", ".c", ".h", ".inc", ".cl"}
GENERATED = {path.with_suffix(".c") for path in PACKAGE.rglob("*.pyx")}
FILES = [path for path in PACKAGE.rglob("*") if path.suffix in SUFFIXES and path not in GENERATED]
RETIRED = {  # a word of ours -> the field's
    "Found": "SearchResult",
    "Lineup": "Baselines",
    "Seen": "LiveResult",
    "Twin": "Emulator",
    "guide": "bayesian",
    "lent": "run_inline",
    "lineup": "baselines",
    "overran": "late",
    "overran_share": "late_share",
    "parse_unit": "Unit.parse",
    "spread_ms": "half_iqr_ms",
    "teams": "unit_sets",
    "without_precision": "Unit.parse",
}


def identifiers(path):
    """The names that a Python file gives to something."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def test_a_file_name_says_which_file():
    names = Counter(path.name for path in FILES if path.stem != "__init__")
    assert not [name for name, count in names.items() if count > 1]


def test_retired_words_name_nothing():
    files = list(PACKAGE.rglob("*.py"))
    uses = [f"{file}: {word}, say {RETIRED[word]}" for file in files for word in identifiers(file) if word in RETIRED]
    uses += [f"{file}: say {RETIRED[file.stem]}" for file in FILES if file.stem in RETIRED]
    assert len(files) > 200 and not uses
