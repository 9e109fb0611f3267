"""Habits of a release: versions, changelog, citation, workflows, issue forms, and public names that do not vanish."""

import re
import subprocess
import sys

import pytest
import yaml
from build_trees import REPOSITORY

import pipeall
from tools.public_names import public_names
from tools.release import SECTIONS, changelog, check, notes

CHANGELOG = (REPOSITORY / "docs" / "changelog.md").read_text()
NAMES = REPOSITORY / "tests" / "house" / "public_names.txt"
WORKFLOWS = sorted((REPOSITORY / ".github" / "workflows").glob("*.yml"))


# ---- public names ----


def vanished(before: set[str], now: set[str], text: str) -> list[str]:
    """Names of the last release that are gone, though no earlier version's section Deprecated names them."""
    versions = list(changelog(text).values())
    told = "".join(
        re.sub(r"(?s).*^### Deprecated\n(.*?)(?=^### |\Z).*|.*", r"\1", body, flags=re.M) for body in versions[1:]
    )
    return sorted(name for name in before - now if f"`{name}`" not in told)


def test_public_names_of_the_last_release_are_there():
    gone = vanished(set(NAMES.read_text().splitlines()), set(public_names()), CHANGELOG)
    assert not gone, (
        "names that users type have vanished; let them warn for a minor version first, or, before the first release, "
        f"run python -m tools.public_names > tests/house/public_names.txt: {gone}"
    )


def test_a_name_may_go_one_minor_version_after_it_was_deprecated():
    versions = (
        "## [Unreleased]\n### {}\n- `pipeall.b`\n## [0.2.0] - 2027-01-01\n### {}\n- `pipeall.b`\n### Fixed\n`pipeall.c`"
    )
    before, now = {"pipeall.a", "pipeall.b", "pipeall.c"}, {"pipeall.a"}
    assert vanished(before, now, versions.format("Removed", "Deprecated")) == ["pipeall.c"]
    assert vanished(before, now, versions.format("Deprecated", "Added")) == ["pipeall.b", "pipeall.c"]
    assert vanished(before, before | {"pipeall.d"}, "") == []


def test_names_are_of_everything_that_users_type():
    assert {
        "pipeall.Pipeline.submit", "pipeall.Board.detect(gpu)", "pipeall.tasks.Box.left", "pipeall run --plan",
        "pipeall profile board -o", "pipeall[opencl]", "PIPEALL_CACHE", "pipeall.load(input_shape)",
    } <= set(public_names())  # fmt: skip


# ---- versions ----


def test_version_is_semantic_and_the_citation_has_it():
    assert re.fullmatch(r"\d+\.\d+\.\d+", pipeall.__version__)
    citation = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text())
    assert citation["version"] == pipeall.__version__


def test_the_citation_names_the_four_papers():
    page = (REPOSITORY / "docs" / "explain" / "papers.md").read_text()
    rows = dict(re.findall(r"^\| (paper \d+) \|.*\*(.*)\*", page, re.M))
    references = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text())["references"]
    assert len(rows) == 4
    assert {reference["notes"].partition(",")[0]: reference["title"] for reference in references} == rows


def test_the_changelog_has_the_form_of_keep_a_changelog():
    assert (REPOSITORY / "CHANGELOG.md").read_text() == CHANGELOG
    versions = changelog(CHANGELOG)
    assert versions
    for heading, body in versions.items():
        assert re.fullmatch(r"\[Unreleased\]|\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", heading)
        assert set(re.findall(r"^### (.+)$", body, re.M)) <= set(SECTIONS)


@pytest.fixture
def tree(tmp_path):
    """Of version 0.2.0, as far as a tag is compared with it."""
    for folder in ("pipeall", "docs"):
        (tmp_path / folder).mkdir()
    (tmp_path / "pipeall" / "__init__.py").write_text('__version__ = "0.2.0"\n')
    (tmp_path / "CITATION.cff").write_text("version: 0.2.0\n")
    (tmp_path / "docs" / "changelog.md").write_text(
        "# C\n\n## [0.2.0] - 2027-01-31\n\n### Fixed\n\n- x\n\n## [0.1.0] - 2026-12-01\n"
    )
    return tmp_path


def test_a_tag_of_this_version_passes(tree):
    check("0.2.0", tree)
    assert notes("0.2.0", (tree / "docs" / "changelog.md").read_text()) == "### Fixed\n\n- x"


@pytest.mark.parametrize(
    "file, text, error",
    [
        ("pipeall/__init__.py", '__version__ = "0.3.0"\n', "expected version 0.2.0, as the tag, got 0.3.0"),
        ("CITATION.cff", "version: 0.1.0\n", "CITATION.cff: expected version 0.2.0, as the tag, got 0.1.0"),
        ("docs/changelog.md", "## [Unreleased]\n\n- x\n", "expected a heading '## [0.2.0] - YYYY-MM-DD'"),
        ("docs/changelog.md", "## [0.2.0] - 2027-01-31\n\n## [0.1.0] - 2026-12-01\n", "with text below it, got none"),
    ],
)  # fmt: skip
def test_a_tag_of_another_version_is_refused(tree, file, text, error):
    (tree / file).write_text(text)
    with pytest.raises(ValueError, match=re.escape(error)):
        check("0.2.0", tree)


def test_the_command_of_the_workflow_refuses_a_wrong_tag():
    command = [sys.executable, "tools/release.py", "check", "v99.0.0"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "expected version 99.0.0" in done.stderr


# ---- workflows and forms: actionlint, in pre-commit, checks their grammar ----


def steps(workflow: dict) -> list[dict]:
    return [step for job in workflow["jobs"].values() for step in job.get("steps", ())]


def test_workflows_may_read_and_run_what_is_pinned():
    assert {path.stem for path in WORKFLOWS} == {"docs", "release", "tests", "wheels"}
    workflows = {path: yaml.safe_load(path.read_text()) for path in WORKFLOWS}
    assert all(workflow["permissions"] == {"contents": "read"} for workflow in workflows.values())
    for path, step in ((path, step) for path, workflow in workflows.items() for step in steps(workflow)):
        if "uses" in step:
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", step["uses"]), (
                f"{path.name}: pin {step['uses']} by its commit"
            )
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"] == {"persist-credentials": False}
        assert "secrets." not in str(step)
        for named in re.findall(r"(?:tools|\.ci|docs)/[\w./-]+", step.get("run", "")):
            assert (REPOSITORY / named).exists() or named == "docs/_build", f"{path.name}: no {named}"


def test_only_a_tag_publishes_and_by_an_identity_alone():
    allowed = {}
    for path in WORKFLOWS:
        for name, job in yaml.safe_load(path.read_text())["jobs"].items():
            for scope, level in job.get("permissions", {}).items():
                allowed[path.name, name, scope] = level
    assert allowed == {
        ("docs.yml", "publish", "id-token"): "write",
        ("docs.yml", "publish", "pages"): "write",
        ("release.yml", "announce", "contents"): "write",
        ("release.yml", "publish", "id-token"): "write",
    }
    release = yaml.safe_load((REPOSITORY / ".github" / "workflows" / "release.yml").read_text())
    assert release[True] == {"push": {"tags": ["v*"]}}  # YAML reads `on` as true
    (publish,) = (step for step in steps(release) if step.get("uses", "").startswith("pypa/"))
    assert publish["with"] == {"attestations": True}


def test_every_form_of_an_issue_about_a_machine_asks_for_doctor():
    forms = sorted((REPOSITORY / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    assert {form.stem for form in forms} == {"board", "bug", "config", "feature"}
    for form in forms:
        if form.stem != "config":
            fields = yaml.safe_load(form.read_text())["body"]
            (doctor,) = (field for field in fields if "`pipeall doctor`" in field["attributes"]["label"])
            assert doctor.get("validations", {}).get("required", False) == (form.stem != "feature")
