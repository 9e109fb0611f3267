"""The documentation: its site builds without a warning, its snippets run, its commands exist, its tables are current.

Blocks of Python and of shell run in the order of their page, in a folder with the files that the page says one has:
``docs_pages.py``. A line ``$ pipeall ...``, also one that does not run, has a command and options that exist.
"""

import importlib.util
import inspect
import json
import re
import shlex
import subprocess
import sys
from functools import cache
from html import unescape
from pathlib import Path

import click
import pytest
from commands import document
from docs_pages import blocks, run

import pipeall
from pipeall.cli.app import app
from pipeall.cli.default_group import DEFAULT
from pipeall.env import VARIABLES
from pipeall.files import read_json
from pipeall.graph.onnx.read.convert import OPERATORS
from pipeall.graph.onnx.read.fold import FOLD
from pipeall.graph.ops import OPS
from pipeall.pipeline.trace import chrome
from pipeall.tasks import DECODERS
from pipeall.tasks.decoder import TASKS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
RECORDS = sorted((DOCS / "results" / "records").glob("*.json"))
CHANGED = {"networks", "quantize"}  # of changed trees: to be measured again
RECORD_KEYS = {"format", "bench", "command", "version", "commit", "date", "machine", "columns", "rows"}

needs_sphinx = pytest.mark.skipif(
    not importlib.util.find_spec("sphinx"), reason="the site is made by Sphinx: pip install 'pipeall[docs]'"
)


def pages_with(*languages: str) -> list:
    """The pages that have blocks of these languages, as parameters of a test."""
    pages = [README, *sorted(page for page in DOCS.rglob("*.md") if "_build" not in page.parts)]
    found = [page for page in pages if any(block.language in languages for block in blocks(page))]
    return [pytest.param(page, id=str(page.relative_to(ROOT))) for page in found]


@pytest.mark.parametrize("page", pages_with("python", "console"))
def test_a_page_runs_as_it_stands(page, tmp_path, monkeypatch, pytestconfig):
    monkeypatch.chdir(tmp_path)
    run(page, tmp_path, slow=pytestconfig.getoption("--sweep"))


@pytest.mark.parametrize("page", pages_with("console"))
def test_commands_exist(page):
    for block in blocks(page):
        if block.language == "console":
            for line in block.commands:
                for words in pipeall_calls(line):
                    parse(words, f"{page}: {line}")


def test_commands_of_the_papers_items_exist():
    page = DOCS / "explain" / "paper-items.md"
    commands = re.findall(r"`((?:mpirun [^`]*)?pipeall [^`]*)`", page.read_text())
    for line in commands:
        for words in pipeall_calls(line.replace("\\|", "|")):
            parse(words, f"{page}: {line}")
    assert len(commands) > 50


def test_each_item_of_the_papers_works_or_is_told():
    """All that the audit counted, once each, with what shows it; tests that are named are there."""
    text = (DOCS / "explain" / "paper-items.md").read_text()
    counts = []
    for part in text.split("## Paper ")[1:]:
        items = []
        for numbers, _, status, shown in re.findall(r"^\| (\d[^|]*) \| (.*?) \| (.*?) \| (.*?) ?\|$", part, flags=re.M):
            for some in numbers.split(", "):
                first, _, last = some.partition(" to ")
                items += range(int(first), int(last or first) + 1)
            kind = re.match("works|told|background", status)
            assert kind and (shown or kind[0] == "background"), f"{numbers}: {status}: {shown}"
            for name in re.findall(r"`(\w+/(?:test_\w+\.py)?)`", shown):
                assert (ROOT / "tests" / name).exists(), name
        assert sorted(items) == list(range(1, len(items) + 1))
        counts.append(len(items))
    assert counts == [56, 50, 49, 34]


def pipeall_calls(line: str) -> list[list[str]]:
    """The arguments of each ``pipeall`` in a line of shell."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.wordchars += ":,@[]"
    found: list[list[str]] = []
    words: list[str] | None = None
    for word in lexer:
        if word[0] in "|;&<>()":
            words = None
        elif words is not None:
            words.append(word)
        elif Path(word).name == "pipeall" and "install" not in line:
            found.append(words := [])
    return found


def parse(words: list[str], where: str) -> None:
    """Fails on a command, option or choice that does not exist. Nothing runs, and no file is looked for."""
    context = click.Context(app, info_name="pipeall")
    command = app
    while isinstance(command, click.Group) and words and (command is not app or not words[0].startswith("-")):
        name, *rest = words
        found = command.get_command(context, name)
        if found is None and DEFAULT in command.list_commands(context):
            name, rest, found = DEFAULT, words, command.get_command(context, DEFAULT)
        assert found, f"{where}: no command {name!r}"
        command, words = found, rest
        context = click.Context(command, parent=context, info_name=name)
    try:
        given, rest, _ = command.make_parser(context).parse_args(args=list(words))
        assert not rest or isinstance(command, click.Group), f"{where}: too many arguments: {' '.join(rest)}"
        for parameter in command.params:
            if isinstance(parameter.type, (click.Choice, click.types.IntParamType, click.types.FloatParamType)):
                parameter.type_cast_value(context, given.get(parameter.name))
    except click.UsageError as error:
        pytest.fail(f"{where}: {error.format_message()}")


@pytest.mark.parametrize(
    "page", [page for page in pages_with("python") if re.match("README|docs.(start|how-to)", page.id)]
)
def test_a_page_for_users_needs_public_names_alone(page):
    """What is documented is ``pipeall.X``; pages that extend the package may go deeper."""
    for block in blocks(page):
        if block.language == "python":
            assert not re.findall(r"(?:from|import) pipeall\.[\w.]+", block.text)
            used = set(re.findall(r"(?<![\"'])\bpipeall\.(\w+)", block.text))
            assert used <= {*pipeall.__all__, "__version__"}, f"{page}:{block.line}"


def test_blocks_of_python_say_so():
    """Else they would not run."""
    others = [(page.id, block.line) for page in pages_with("{code-block} python") for block in blocks(page.values[0])]
    assert not others, "write ```python, with <!-- not run: REASON --> before it where it cannot run"


def test_public_functions_document_every_parameter_result_and_error():
    functions = [value for name in pipeall.__all__ if inspect.isfunction(value := getattr(pipeall, name))]
    assert len(functions) > 12
    for function in functions:
        text, signature = inspect.getdoc(function), inspect.signature(function)
        sections = dict(re.findall(r"^(\w+)\n-+\n(.*?)(?=^\w+\n-+\n|\Z)", text, re.M | re.S))
        entries = re.findall(r"^\S.*", sections["Parameters"], re.M)
        named = [name.strip(" *") for entry in entries for name in entry.partition(" : ")[0].split(",")]
        assert named == list(signature.parameters), function
        assert "Raises" in sections and ("Returns" in sections) == (signature.return_annotation != "None"), function


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-d", folder / "doctrees"]
    done = subprocess.run([*build, DOCS, folder / "html"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "html"


def text_of(page: Path) -> str:
    return unescape(re.sub(r"<[^>]*>", "", page.read_text()))


@needs_sphinx
def test_the_site_needs_no_network(site):
    for page in site.rglob("*.html"):
        found = re.findall(r"""(?:src|<link[^>]* href)=["'](?:https?:)?//[^"']*""", page.read_text())
        assert not found, f"{page}: {found}"


def options_of(command: click.Command) -> list[str]:
    """All names but of hidden options, which are for those who know them from before."""
    return [name for p in command.params if not getattr(p, "hidden", False) for name in p.opts]


@needs_sphinx
@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("api-*", pipeall.__all__),
        ("cli", app.lazy),
        ("cli", [name for lazy in app.lazy.values() for name in options_of(lazy.load()) if "-" in name]),
        ("tasks", [*DECODERS, *TASKS]),
        ("operators", [*OPERATORS, *FOLD, *OPS]),
        ("environment", [variable.name for variable in VARIABLES]),
        ("kernels", ["x86-64", "aarch64", "every processor"]),
        ("boards", ["a311d-armcl", "rk3399pro"]),
    ],
)  # fmt: skip
def test_pages_of_the_reference_name_everything(site, page, names):
    pages = (site / "reference").glob(f"{page}.html")
    words = {word for path in pages for word in re.findall(r"[\w-]+", text_of(path))}
    expected = {word for name in names for word in re.findall(r"[\w-]+", name)}
    assert expected <= words, sorted(expected - words)


def test_page_of_files_names_every_key(tmp_path):
    page = (DOCS / "reference" / "files.md").read_text()
    graph = pipeall.zoo.squeezenet()
    model = pipeall.Board.load("a311d-armcl").model
    profile = model.profile(graph).to_dict()
    board = model.to_dict()
    pipeall.Plan.parse("B-L:3").save(tmp_path / "plan.json", graph)
    plan = json.loads((tmp_path / "plan.json").read_text())
    trace = chrome([], {})
    unit, link, network, part = (
        next(iter(profile["units"].values())), profile["links"][0], board["networks"][0], board["components"]["big"]
    )  # fmt: skip
    keys = {*profile, *board, *plan, *trace, *unit, *link, *network, *part, *RECORD_KEYS}
    assert not [key for key in sorted(keys) if f"`{key}`" not in page]


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    "arguments",
    [
        "bench tiny --board rk3588 --seconds 0.02",
        "simulate tiny --board rk3588 --frames 20",
        "search tiny --board rk3588",
        "devices",
        "cost tiny --algorithms",
    ],
)
def test_page_of_files_names_what_commands_print(arguments):
    page = (DOCS / "reference" / "files.md").read_text()
    printed = document(*arguments.split())
    assert f"`{printed['format']}`" in page
    assert not [key for key in printed if f"`{key}`" not in page]


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_record_says_where_its_figures_come_from(path):
    record = read_json(path, "record")
    assert record.keys() - {"about"} == RECORD_KEYS
    assert all(record[key] for key in ("bench", "command", "version", "date", "machine", "columns", "rows"))
    assert all({"name"} <= column.keys() <= {"name", "unit"} for column in record["columns"])
    assert all(len(row) == len(record["columns"]) for row in record["rows"])
    assert isinstance(record.get("about", []), list)
    assert ("dirty" in record["commit"]) == (path.stem in CHANGED)


def test_tables_are_those_of_their_records(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    import results

    for page in results.pages():
        assert results.with_tables(page.read_text()) == page.read_text(), f"{page}: run python tools/results.py"
    assert sorted(name for page in results.pages() for name in results.shown(page)) == sorted(p.stem for p in RECORDS)


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_s_command_exists(path):
    """A script may be gone: then it lies in the record's commit."""
    record = read_json(path, "record")
    if record["command"].startswith(("pipeall", "mpirun")):
        for words in pipeall_calls(record["command"]):
            parse(words, path.stem)
    script = re.search(r"bench/\S+\.py", record["command"])
    assert script is None or (ROOT / script[0]).exists() or re.match(r"[0-9a-f]{7,}", record["commit"])


@cache
def sources() -> list[str]:
    folders = (ROOT / name for name in ("pipeall", "tests", "bench", "tools", "docs", "examples"))
    return [str(path.relative_to(ROOT)) for folder in folders for path in folder.rglob("*.*")]


@pytest.mark.parametrize("page", [README, *sorted(DOCS.rglob("*.md"))], ids=lambda path: str(path.relative_to(ROOT)))
def test_files_that_a_page_names_are_there(page):
    """A path in the text or ahead of a diff; GitHub shows a link without words as nothing."""
    text = re.sub(r"<!-- bench-table.*?<!-- end -->", "", page.read_text(), flags=re.DOTALL)
    assert "[](" not in text
    paths = re.findall(r"--- a/(\S+)", text) + re.findall(r"(?<![\w/.*])((?:\w+/)+\w+\.(?:py|c|h|inc|pyx|cl))\b", text)
    new = re.findall(r"--- /dev/null\n\+\+\+ b/(\S+)", text)
    for path in {path.removeprefix("a/").removeprefix("b/") for path in paths} - {*new}:
        assert any(one == path or one.endswith(f"/{path}") for one in sources()), f"{page}: {path}"


@cache
def words() -> set[str]:
    """Every word of the sources."""
    texts = (path for path in sources() if Path(path).suffix in {".py", ".pyx", ".pxi", ".c", ".h", ".inc", ".cl"})
    return {
        word for path in texts if not path.startswith("docs") for word in re.findall(r"\w+", (ROOT / path).read_text())
    }


@pytest.mark.parametrize("page", sorted((DOCS / "extend").glob("*.md")), ids=lambda path: path.name)
def test_names_on_pages_that_extend_it_exist(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    names = re.findall(r"`([A-Za-z_][\w.]*)(?:\([^`]*\))?`", text)
    missing = {name for name in names for word in name.split(".") if len(word) > 4 and word not in words()}
    assert not missing


def test_lines_are_of_120_columns():
    """Of all pages; tables, blocks, and what a bench writes are as long as they are."""
    folders = [DOCS, ROOT / "examples", ROOT / "tools"]
    for page in [*ROOT.glob("*.md"), *(page for folder in folders for page in folder.rglob("*.md"))]:
        text = re.sub(r"<!-- bench-table.*?<!-- end -->|^\s*```.*?```$", "", page.read_text(), flags=re.S | re.M)
        prose = [line for line in text.splitlines() if not line.startswith(("|", "    "))]
        assert [line for line in prose if len(line) > 120] == [], page


def test_readme_is_short_and_its_links_lead_somewhere():
    text = README.read_text()
    assert text.count("\n") <= 80
    for link in re.findall(r"\]\(([^)#]+)", text):
        assert (ROOT / link).exists(), link
