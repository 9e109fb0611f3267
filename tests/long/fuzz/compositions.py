"""Random compositions of operators, computed here in every way there is and by onnxruntime.

    python tests/long/fuzz/compositions.py --minutes 60 [--seed 1]
    python tests/long/fuzz/compositions.py --replay FINDING.onnx

Each case is a graph of 3 to 12 nodes that ``composed.py`` makes of its seed. ``judged.py`` says what is right.
Cases run in child processes, so that a crash and a hang are verdicts too. A finding is made smaller and written as
NAME.onnx and NAME.npz into ``--findings`` (default: under PIPEALL_CACHE). Exit status 1 if there was any.
Needs onnx and onnxruntime.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import selectors
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[2]), str(HERE)]
os.environ.setdefault("PIPEALL_TUNE", "off")

import composed  # noqa: E402
import judged  # noqa: E402
from composed import Case  # noqa: E402
from judged import Verdict  # noqa: E402

BATCH = 100  # cases of one child process
SECONDS = 60  # a case that takes longer hangs


def child(arguments: list[str]) -> Iterator[tuple[int, Verdict]]:
    """The verdicts of a child process by seed; the last one is its end, if that was none of its own will."""
    command = [sys.executable, str(HERE / "compositions.py"), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        lines = selectors.DefaultSelector()
        lines.register(process.stdout, selectors.EVENT_READ)
        seed, last = -1, ""
        while lines.select(SECONDS):
            if not (line := process.stdout.readline()):
                break
            seed, *last = json.loads(line)
            if last:
                yield seed, Verdict(*last)
        else:
            process.kill()
            yield seed, Verdict("hang", f"no end after {SECONDS} s")
            return
        errors = process.stderr.read()
        if process.wait():
            yield seed, Verdict("crash", f"exit status {process.returncode}: {errors[-500:]}")


def batch(first: int, count: int) -> None:
    """In a child process: says a seed before its case is judged, and its verdict after."""
    for seed in range(first, first + count):
        print(json.dumps([seed]), flush=True)
        print(json.dumps([seed, *judged.judge(composed.case(seed))]), flush=True)


def smaller(case: Case, verdict: Callable[[Case], Verdict]) -> Case:
    """The case with as few outputs and nodes as still give a verdict of its kind."""
    kind = verdict(case).kind
    for name in reversed(case.activations()):
        if verdict(alone := case.between(outputs=[name])).kind == kind:
            case = alone
            break
    done = False
    while not done:
        done = True
        for name in case.activations():
            if verdict(less := case.between(given=[name])).kind == kind and len(less.nodes) < len(case.nodes):
                case, done = less, False
                break
    return case


def in_child(case: Case, folder: Path) -> Verdict:
    """What a child process makes of the case."""
    case.write(folder / "trial.onnx")
    return next((verdict for _, verdict in child(["--replay", str(folder / "trial.onnx"), "--json"])), Verdict("right"))


def write(seed: int, verdict: Verdict, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    judging = judged.judge if verdict.kind not in ("crash", "hang") else lambda case: in_child(case, folder)
    path = folder / f"{seed}.onnx"
    found = smaller(composed.case(seed), judging)
    found.write(path)
    operators = ", ".join(node.op_type for node in found.nodes)
    print(f"\nseed {seed}: {verdict.kind} {verdict.detail}\n  {operators}\n  {sys.argv[0]} --replay {path}", flush=True)


def without_names(message: str) -> str:
    """A message as one of its kind: no names, numbers or lists."""
    return re.sub(r"'[^']*'|\([^()]*\)|\[[^\[\]]*\]|-?\d+", "*", message)[:150]


def report(verdicts: Counter[str], refusals: Counter[str], minutes: float) -> None:
    cases = sum(verdicts.values())
    counts = ", ".join(f"{count} {kind}" for kind, count in verdicts.most_common())
    print(f"\n{cases} cases in {minutes:.1f} minutes: {counts}")
    for message, count in refusals.most_common(25):
        print(f"  {count / cases:6.2%} {message}")


def fuzz(minutes: float, seed: int, findings: Path) -> int:
    begin, first = time.monotonic(), seed
    verdicts: Counter[str] = Counter()
    refusals: Counter[str] = Counter()
    while time.monotonic() - begin < 60 * minutes:
        end = first + BATCH
        while first < end:
            for number, verdict in child(["--batch", str(first), str(end - first)]):
                first = number + 1
                verdicts[verdict.kind] += 1
                if verdict.kind == "refused":
                    refusals[without_names(verdict.detail)] += 1
                elif verdict.kind not in judged.HARMLESS:
                    write(number, verdict, findings)
        report(verdicts, refusals, (time.monotonic() - begin) / 60)
    return sum(count for kind, count in verdicts.items() if kind not in (*judged.HARMLESS, "refused"))


def main() -> None:
    from pipeall import env

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--findings", type=Path, default=env.cache_dir() / "fuzz" / "compositions-findings")
    parser.add_argument("--replay", type=Path, metavar="FILE.onnx")
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--batch", type=int, nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.batch:
        batch(*arguments.batch)
    elif arguments.replay:
        verdict = judged.judge(Case.read(arguments.replay))
        print(json.dumps([0, *verdict]) if arguments.json else f"{verdict.kind} {verdict.detail}")
        sys.exit(verdict.kind not in judged.HARMLESS and not arguments.json)
    else:
        sys.exit(fuzz(arguments.minutes, arguments.seed, arguments.findings) > 0)


if __name__ == "__main__":
    main()
