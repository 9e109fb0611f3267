"""What other programs take of the cores: by the kernel's counts, with nothing of this process in it."""

import subprocess
import sys
import time

import pytest

from pipeall.pipeline.measuring import background_load
from pipeall.pipeline.measuring.background_load import TICKS, BackgroundLoad, busy_s
from pipeall.pipeline.planning.profile import DISTURBED, disturbed

STAT = """cpu  999 999 999 999 999 999 999 999 999 999
cpu0 100 20 30 4000 500 6 7 8 90 10
cpu1 200 0 0 100 0 0 0 0 200 0
cpu10 1 1 1 1 1 1 1 1 1 1
intr 1 2 3
"""


def test_busy_is_all_but_idle_and_waiting_for_disks():
    assert busy_s(STAT, {0}) == (100 + 20 + 30 + 6 + 7 + 8) / TICKS  # guests are in user and nice already
    assert busy_s(STAT, {0, 1}) == (171 + 200) / TICKS
    assert busy_s(STAT, {0, 2}) is None  # a kernel that hides a core tells nothing


@pytest.mark.parametrize(
    "busy, own, cores", [(2.0, 0.0, 0.9), (2.0, 1.0, 0.4), (2.0, 2.0, 0.0), (2.0, 5.0, 0.0), (None, 0.0, None)]
)
def test_what_this_process_took_is_left_out(busy, own, cores, monkeypatch):
    times = iter([(10.0, 1.0, 100.0), (None if busy is None else 10.0 + busy, 1.0 + own, 102.0)])
    monkeypatch.setattr(background_load, "clocks", lambda: next(times))
    monkeypatch.setattr(background_load, "TICKS", 5)  # a step of 0.2 s
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0})
    with BackgroundLoad() as beside:
        pass
    assert beside.cores == (None if cores is None else pytest.approx(cores))


def test_a_busy_program_is_seen():
    with subprocess.Popen(
        [sys.executable, "-c", "print(flush=True)\nwhile True: pass"], stdout=subprocess.PIPE
    ) as other:
        try:
            other.stdout.readline()
            with BackgroundLoad() as beside:
                time.sleep(0.5)
        finally:
            other.kill()
    assert beside.cores is None or disturbed(beside.cores)


def test_a_machine_with_nothing_else_to_do_is_not_marked():
    assert not disturbed(None) and not disturbed(DISTURBED) and disturbed(DISTURBED + 0.01)
