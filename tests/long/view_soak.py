"""The live page for minutes: memory of the server and of a browser must not grow.

    python -m tests.long.view_soak --minutes 10 [--fps 30]

Two pages stay open in Chromium where it is installed, two steady viewers look, one comes, takes a picture and vanishes
in each second, one reads 50 kB a second. Exits with 1 where memory grew by more than 8 MB after the first fifth, the
page's by more than 4 MB, threads or descriptors by any, or an exception was thrown.
"""

import argparse
import gc
import os
import sys
import threading
import time

from chromium import Chromium, program
from process import resident_bytes
from view_clients import FIGURES, Viewer, asked, jpeg, threads

from pipeall.media.view import View


def steady(address: str, stop: threading.Event, seen: list[int]) -> None:
    with Viewer(address) as viewer:
        while not stop.is_set():
            viewer.next()
            seen[0] += 1


def passing(address: str, stop: threading.Event, seen: list[int]) -> None:
    while not stop.wait(1):
        viewer = Viewer(address)
        viewer.next()
        viewer.vanish()
        seen[0] += 1


def slow(address: str, stop: threading.Event, seen: list[int]) -> None:
    while not stop.is_set():
        with asked(address, receive_bytes=4096) as peer:
            while not stop.wait(0.1) and len(peer.recv(5000)):
                seen[0] += 1


def produce(view: View, fps: float, stop: threading.Event, shown: list[int]) -> None:
    """Pictures of two colours; the longest time that ``show`` took, in microseconds, is the second number."""
    pictures = [jpeg(colour, (1280, 720)) + bytes(100_000) for colour in ("green", "navy")]
    while not stop.wait(1 / fps):
        begin = time.perf_counter()
        view.show(pictures[shown[0] % 2], FIGURES | {"fps": shown[0], "answer": [f"frame {shown[0]}"] * 20})
        shown[1] = max(shown[1], round(1e6 * (time.perf_counter() - begin)))
        shown[0] += 1


def measured(tabs: list) -> dict[str, int]:
    """Bytes, threads and descriptors, after what can be collected was."""
    gc.collect()
    found = {"resident": resident_bytes(), "threads": threads(), "descriptors": len(os.listdir("/proc/self/fd"))}
    for tab in tabs[:1]:
        tab.send("HeapProfiler.collectGarbage")
        found["page heap"] = int(tab.send("Runtime.getHeapUsage")["usedSize"])
        found["page nodes"] = tab.value("document.getElementsByTagName('*').length")
        found["browser"] = tab.browser.resident_bytes()
    return found


def soak(view: View, minutes: float, fps: float, tabs: list) -> list[dict[str, int]]:
    stop, last = threading.Event(), threading.Event()
    counts = {name: [0, 0] for name in ("shown", "steady", "steady too", "vanished", "slow reads")}
    workers = [threading.Thread(target=produce, args=(view, fps, last, counts["shown"]))]
    roles = {"steady": steady, "steady too": steady, "vanished": passing, "slow reads": slow}
    workers += [threading.Thread(target=role, args=(view.address, stop, counts[name])) for name, role in roles.items()]
    for worker in workers:
        worker.start()
    samples, end = [], time.monotonic() + 60 * minutes
    while time.monotonic() < end:
        time.sleep(min(60 * minutes / 20, 15))
        samples.append(measured(tabs))
        print(" ".join(f"{name} {value:,}" for name, value in samples[-1].items()), flush=True)
    stop.set()
    for worker in workers[1:]:
        worker.join()
    last.set()  # viewers wait for their last picture
    workers[0].join()
    print(f"longest show {counts['shown'][1]} us;", ", ".join(f"{name} {count[0]:,}" for name, count in counts.items()))
    return samples


def grown(samples: list[dict[str, int]]) -> list[str]:
    """What grew from the first fifth to the last: the least of each, so that a moment does not count."""
    fifth = max(1, len(samples) // 5)
    allowed = {"resident": 8_000_000, "page heap": 4_000_000, "page nodes": 0, "threads": 1, "descriptors": 2}
    found = []
    for name in allowed.keys() & samples[0].keys():
        before, after = (min(sample[name] for sample in part) for part in (samples[:fifth], samples[-fifth:]))
        print(f"{name}: {before:,} at first, {after:,} at last")
        if after - before > allowed[name]:
            found.append(name)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--fps", type=float, default=30)
    given = parser.parse_args()
    failed = []
    threading.excepthook = lambda caught: failed.append(caught.exc_value)
    browser = Chromium() if program() else None
    with View() as view:
        tabs = [browser.open(view.address) for _ in range(2)] if browser else []
        for tab in tabs:
            tab.send("Network.disable")  # two events a picture, which nobody reads
        samples = soak(view, given.minutes, given.fps, tabs)
        thrown = sum(len(tab.events("Runtime.exceptionThrown")) for tab in tabs)
        begin = time.monotonic()
    print(f"closed in {time.monotonic() - begin:.2f} s, {threads()} threads left, {thrown} exceptions in the page")
    if browser:
        browser.__exit__()
    if found := grown(samples):
        sys.exit(f"grew: {', '.join(found)}")
    if thrown or failed or threads():
        sys.exit(f"exceptions in the page: {thrown}, of viewers: {failed}, threads left: {threads()}")


if __name__ == "__main__":
    main()
