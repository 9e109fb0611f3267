"""What commands print fits a screen: 24 lines of components and of the first help, 48 of a command's, 80 columns."""

import json
import re
import time

import click
import numpy as np
import pytest
from commands import document, invoke, picture, quick_net, toy_board, two_clusters
from graphs import frames
from hypothesis import given
from hypothesis import strategies as st
from recorded_boards import BOARDS, write_tree
from rich.cells import cell_len

from pipeall._kernels.opencl import cl_devices as opencl
from pipeall.cli import output
from pipeall.cli.app import app
from pipeall.cli.tables import fold, table_lines

LINES, COLUMNS = 24, 80
MALI = opencl.DeviceInfo(0, "ARM Platform", "Mali-G52 r1p0", "ARM", "OpenCL 2.1 v1.r26p0", 2, True, True, False)


@pytest.fixture
def narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", str(COLUMNS))


@pytest.fixture
def two_clusters_and_a_gpu(tmp_path, monkeypatch):
    """A Khadas VIM3: four Cortex-A73, two Cortex-A53 and a Mali-G52."""
    write_tree(json.loads((BOARDS / "vim3.json").read_text()), tmp_path)
    monkeypatch.setenv("PIPEALL_SYSFS", str(tmp_path))
    monkeypatch.delenv("PIPEALL_OPENCL", raising=False)
    monkeypatch.setattr(opencl, "devices", lambda: (MALI,))


def commands(group=app, words=()):
    """Every command with the words that call it, groups too."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield (*words, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))


def lines_of(*arguments):
    """The lines that a command printed, each checked to fit."""
    result = invoke(*arguments)
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert [line for line in lines if cell_len(line) > COLUMNS] == []
    return lines


# ---- help ----


def test_the_help_is_one_screen(narrow):
    lines = lines_of("--help")
    assert len(lines) <= LINES and "See:" in lines and "Make networks:" in lines
    assert not any(line.endswith("...") for line in lines[1:])


@pytest.mark.parametrize(
    ("words", "command"), list(commands()), ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_help_of_a_command_is_two_screens_and_begins_with_an_example(words, command, narrow):
    lines = lines_of(*words, "--help")
    assert lines[0].startswith(f"Usage: pipeall {' '.join(words)}")
    assert lines[2].strip().endswith(".") and lines[3] == "" and "pipeall " in lines[4]
    context = click.Context(
        command, info_name=" ".join(("pipeall", *words)), terminal_width=98
    )  # as click takes of 100
    assert len(command.get_help(context).splitlines()) <= 2 * LINES
    assert not any(line.endswith("...") for line in lines[1:])


def test_the_help_has_the_first_line_of_each_command():
    for name, lazy in app.lazy.items():
        assert app.get_command(click.Context(app), name).help.splitlines()[0] == lazy.help


# ---- components ----


@pytest.mark.usefixtures("narrow", "two_clusters_and_a_gpu")
def test_components_are_one_screen():
    lines = lines_of("devices")
    assert len(lines) <= LINES
    text = "\n".join(lines)
    for word in ("big", "cortex-a73", "little", "cortex-a53", "gpu", "Mali-G52", "fp16", "neon", "--kernels"):
        assert word in text
    more = lines_of("devices", "--kernels")
    assert len(more) > LINES and "Kernels of little" in more and "Variables" in more
    names = [row["component"] for row in document("devices")["components"]]
    assert names == ["big", "little", "gpu"]


# ---- 80 columns ----


@pytest.mark.usefixtures("narrow", "tiny")
@pytest.mark.parametrize(
    "arguments",
    [
        "devices",
        "devices --kernels",
        "info squeezenet --plan G-B-L:3,5",
        "info tiny --plan B --here",
        "cost googlenet --layers --convention fvcore --explain --algorithms --processor Mali-G52",
        "cost train alexnet --optimizer adam --memory 32GB --gpu-memory 11GB",
        "cost epoch alexnet --samples 1000 --gmacs 10",
        "cost threads tiny --seconds 0.01",
        "profile tiny --board TOY",
        "profile layers tiny --units B --seconds 0.01",
        "search tiny --board TOY",
        "search googlenet --board a311d-armcl --floating --top 3",
        "simulate tiny --board TOY --frames 50",
        "bench tiny --board TOY --seconds 0.05",
        "run squeezenet PICTURE --plan B",
        "train digits --epochs 1 --report",
    ],
)
def test_nothing_is_wider_than_the_terminal(arguments, tmp_path):
    paths = {"TOY": toy_board(tmp_path / "toy.json"), "PICTURE": picture(tmp_path)}
    lines_of(*(paths.get(word, word) for word in arguments.split()))


@two_clusters
@pytest.mark.usefixtures("narrow", "tiny")
def test_measured_plans_fit_too():
    lines_of("search", "tiny", "--units", "B,L", "--verify", "2", "--seconds", "0.01")


# ---- tables ----

TEXTS = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "Zs"]), max_size=40).map(
    lambda text: " ".join(text.split())
)


@given(st.lists(st.tuples(TEXTS, TEXTS, TEXTS, st.integers().map(str)), max_size=4), st.integers(24, 100))
def test_a_table_fits_and_keeps_all_of_its_text(rows, width):
    lines = table_lines(["name", "what it is", ">how large", ">count"], rows, width)
    assert all(cell_len(line) <= width for line in lines)
    shown = sorted("".join(lines).replace(" ", ""))
    for row in rows:
        assert all(shown.count(letter) >= "".join(row).count(letter) for letter in "".join(row).replace(" ", ""))


def test_columns_that_do_not_fit_go_on_below():
    rows = [("squeezenet", "big", *("1234.56" for _ in range(5))), ("x", "little", *("1.00" for _ in range(5)))]
    assert table_lines(["network", "unit", *(f">{ms} ms" for ms in "abcde")], rows, 46) == [
        "network     unit       a ms     b ms     c ms",
        "─────────────────────────────────────────────",
        "squeezenet  big     1234.56  1234.56  1234.56",
        "x           little     1.00     1.00     1.00",
        "",
        "network        d ms     e ms",
        "────────────────────────────",
        "squeezenet  1234.56  1234.56",
        "x              1.00     1.00",
        "",
    ]


def test_headings_fold_before_texts():
    assert table_lines(["name", ">predicted FPS"], [("a long name of a plan", "1.5")], 33) == [
        "                       predicted",
        "name                         FPS",
        "────────────────────────────────",
        "a long name of a plan        1.5",
        "",
    ]


@given(TEXTS, st.integers(4, 60), st.integers(0, 8))
def test_a_folded_line_keeps_its_words(text, width, hang):
    lines = fold(text, width, hang)
    assert all(cell_len(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_a_pipe_is_not_folded(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert any(cell_len(line) > COLUMNS for line in invoke("devices", "--kernels").stdout.splitlines())


def test_progress_is_told_in_lines_where_there_is_no_terminal(monkeypatch, capsys):
    monkeypatch.setattr(output, "EVERY_S", 0.01)
    with output.progress() as bar:
        task = bar.add_task("squeezenet: verifying", total=4)
        bar.advance(task)
        deadline = time.monotonic() + 10
        text = ""
        while "verifying 1/4" not in text and time.monotonic() < deadline:
            time.sleep(0.01)
            text += capsys.readouterr().err
    assert "0 s: squeezenet: verifying 1/4" in text
    capsys.readouterr()
    time.sleep(0.05)
    assert capsys.readouterr() == ("", "")  # nothing after its end
    with output.progress(quiet=True) as bar:
        bar.add_task("x", total=2)
        time.sleep(0.05)
    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
@pytest.mark.parametrize(
    "arguments",
    [
        "profile tiny --units B --seconds 0.2",
        "search tiny --units B --verify 1 --seconds 0.2",
        "bench tiny --components B --seconds 0.2",
        "quantize tiny FRAMES -o OUT",
        "train digits --epochs 30",
    ],
    ids=lambda arguments: arguments.split()[0],
)
def test_long_work_tells_its_progress_on_stderr(arguments, as_json, monkeypatch, tmp_path):
    """Also with --json, which has stdout for itself."""
    monkeypatch.setattr(output, "EVERY_S", 0.005)
    np.save(tmp_path / "frames.npy", frames(quick_net(), 4)[0])
    paths = {"FRAMES": tmp_path / "frames.npy", "OUT": tmp_path / "net.int8.onnx"}
    result = invoke(*(paths.get(word, word) for word in arguments.split()), *(["--json"] if as_json else []))
    assert result.exit_code == 0, result.stderr
    assert re.search(r"^\d+ s: \w", result.stderr, re.MULTILINE) and not re.search(r"^\d+ s: ", result.stdout)
    assert not as_json or json.loads(result.stdout)["format"].startswith("pipeall.")
