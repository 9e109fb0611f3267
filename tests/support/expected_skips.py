"""A plugin of pytest: a run fails when a test skips that is not expected to (expected_skips.txt)."""

from fnmatch import fnmatchcase
from pathlib import Path

import pytest


class ExpectedSkips:
    """Compares the skips of a session with the lines of ``listed``, each "test id pattern : reason pattern"."""

    def __init__(self, listed: Path):
        try:
            lines = listed.read_text().splitlines()
        except OSError as error:
            raise pytest.UsageError(f"PIPEALL_EXPECTED_SKIPS: expected a file, got {listed}: {error}") from error
        self.patterns = []
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.startswith("#"):
                continue
            test, found, reason = line.partition(" : ")
            if not found:
                raise pytest.UsageError(f"{listed}, line {number}: expected 'test id : reason', got {line!r}")
            self.patterns.append((test.strip(), reason.strip()))
        self.listed, self.unexpected = listed, []

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if not report.skipped or hasattr(report, "wasxfail"):
            return
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if not any(fnmatchcase(report.nodeid, test) and fnmatchcase(reason, why) for test, why in self.patterns):
            self.unexpected.append(f"{report.nodeid} : {reason}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.unexpected and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter) -> None:
        if self.unexpected:
            terminalreporter.section(f"skips that {self.listed} does not expect")
            terminalreporter.write("\n".join(self.unexpected) + "\n")
