"""The demonstration: trained networks of the extra ``demo`` read the photographs that come with the repository."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from build_trees import REPOSITORY
from commands import invoke

from pipeall import Engine, MissingExtraError, Pipeline, demo, tasks

# What is printed on the page, by eye.
LINES = [
    "Region-based segmentation",
    "Let us first determine markers of the coins and the",
    "background. These markers are pixels that we can label",
    "unambiguously as either object or background. Here,",
    "the markers are found at the two extreme parts of the",
    "histogram of grey values:",
    ">>> markers = np.zeros_like(coins)",
]
FILES = sorted((REPOSITORY / "examples" / "lines").glob("*.png"))

needs_networks = pytest.mark.skipif(
    not importlib.util.find_spec("rapidocr"), reason="the trained networks: pip install 'pipeall[demo]'"
)


def pixels(path: Path) -> np.ndarray:
    image = pytest.importorskip("PIL.Image", reason="decoding photos needs Pillow: pip install 'pipeall[cli]'")
    return np.ascontiguousarray(image.open(path).convert("RGB"))


def test_there_is_a_picture_of_every_line():
    assert len(FILES) == len(LINES)
    for file, line in zip(FILES, LINES, strict=True):
        words = re.findall("[a-z]+", file.stem)
        assert re.findall("[a-z]+", line.lower())[: len(words)] == words


def test_every_picture_has_a_licence():
    text = (REPOSITORY / "examples" / "LICENCES.md").read_text()
    pictures = [path.relative_to(REPOSITORY / "examples") for path in (REPOSITORY / "examples").rglob("*.png")]
    named = [path for path in pictures if f"`{path}`" in text or f"`{path.parent}/*.png`" in text]
    assert pictures and named == pictures


@needs_networks
@pytest.mark.parametrize("plan", ["big", "big-little:20"])
def test_the_lines_are_read(plan):
    graph = demo.text_reader()
    read = tasks.task(graph)
    assert (read.decoder.task, read.decoder.name) == ("text", "ctc")
    lines = [pixels(file) for file in FILES]
    with Pipeline(graph, plan, input=read.picture) as pipe:
        outputs = list(pipe.map(lines))
    answers = [read(y, read.picture.placed(line.shape[:2], read.size)) for y, line in zip(outputs, lines, strict=True)]
    assert [text.text for answer in answers for text in answer.texts] == LINES
    assert all(text.score > 0.9 for answer in answers for text in answer.texts)


@needs_networks
def test_the_page_is_read():
    finder, reader = demo.text_finder(), demo.text_reader()
    find, read = tasks.task(finder), tasks.task(reader)
    page = pixels(REPOSITORY / "examples" / "pages" / "page.png")
    said = []
    with Engine(finder, "big", input=find.picture) as finds, Engine(reader, "big", input=read.picture) as reads:
        for line in find(finds(page), find.picture.placed(page.shape[:2], find.size)).texts:
            strip = np.ascontiguousarray(tasks.cut_out(page, line.corners))
            said += [text.text for text in read(reads(strip), read.picture.placed(strip.shape[:2], read.size)).texts]
    assert said == LINES


@needs_networks
def test_a_schedule_of_both_reads_the_page(tmp_path):
    page = REPOSITORY / "examples" / "pages" / "page.png"
    (tmp_path / "ocr.toml").write_text(
        f'[networks.find]\nmodel = "text-finder"\nsource = "{page}"\n'
        '[networks.read]\nmodel = "text-reader"\nfrom = "find"\n'
    )
    done = invoke("schedule", tmp_path / "ocr.toml")
    assert done.exit_code == 0, done.stderr
    said = [line.partition(f" box {number}: ")[2] for number, line in enumerate(read_lines(done.stdout))]
    assert said == LINES


def read_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("read: ")]


@needs_networks
def test_the_command_of_the_readme_shows_what_is_printed(board_with_gpu):
    (words,) = re.findall(
        r"^    tools/setup .* \.venv/bin/pipeall (run .*)$", (REPOSITORY / "README.md").read_text(), re.M
    )
    source = "examples/lines"
    done = invoke(*words.replace(source, str(REPOSITORY / source)).split())
    assert done.exit_code == 0, done.output
    shown = " ".join(done.output.split())
    assert all(" ".join(line.split()) in shown for line in LINES), done.output


@needs_networks
def test_the_package_is_looked_up_but_not_imported():
    code = "import sys, pipeall; pipeall.demo.text_reader(); print({'rapidocr', 'cv2'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True, cwd=REPOSITORY) == "set()\n"


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(demo, "PACKAGE", "no_such_package")
    with pytest.raises(MissingExtraError, match=r"no_such_package.*pip install 'pipeall\[demo\]'"):
        demo.text_reader()
    done = invoke("info", "text-reader")
    assert done.exit_code == 2 and "pip install 'pipeall[demo]'" in done.output


def test_another_version_of_the_package_is_told(monkeypatch):
    monkeypatch.setattr(demo, "PACKAGE", "pipeall")
    with pytest.raises(MissingExtraError, match=r"PP-OCRv6.*: not in this version.*pip install 'pipeall\[demo\]'"):
        demo.text_finder()
