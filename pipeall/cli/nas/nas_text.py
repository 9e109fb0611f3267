"""What ``pipeall nas`` prints for people: accuracy; of those who read paper 003, its figures too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf, isfinite
from pathlib import Path
from statistics import fmean
from time import monotonic

from ... import env
from ...nas.architecture_search import Search, Winner
from ...nas.datasets import DataSet
from ...nas.search.archive import Archive, Member
from ...nas.search.evolve import Generation
from ...nas.spaces.genome import Candidate
from ...nas.training.fitness import Baseline, printed_score
from ...nas.training.score import Score
from ..plans import fps_text
from ..tables import print_table, print_text

MEASURES = {"classes": "accuracy", "numbers": "R2", "boxes": "mAP"}  # by what a network predicts
MEAN = "how far an output is from its target in the mean, which is no share of wrong answers"
LOWERED = {"classes": MEAN, "numbers": MEAN, "boxes": "1 - mAP"}
WIDTHS = (10, 12, 12, 10, 12, 18)  # of the columns of ``Table``


def show(
    search: Search,
    generations: list[Generation],
    best: Winner,
    beside: Mapping[str, Baseline],
    plan: str,
    front: Sequence[Member],
    command: str | None,
) -> None:
    """The winner beside what is no network, the Pareto front, and how to run the winner; of the paper's reader also how
    the search went beside what was predicted of it."""
    paper = of_the_paper(search)
    if paper:
        print_text(_observed(generations, best.member.score.fitness))
    _show_winner(search, best, plan, paper)
    _show_beside(search, best, beside, paper)
    if front:
        rows = [
            (m.candidate.code, _percent(m.score.accuracy), f"{m.score.fps:,.0f}", _megabytes(m.score)) for m in front
        ]
        print_table("No other is better in all three", ["network", f">{_measure(search)}", ">FPS", ">memory"], rows)
    if command:
        print_text(command)


def of_the_paper(search: Search) -> bool:
    """Whether to show what only readers of paper 003 know: F, the genome, diversity."""
    return env.verbose() or search.training.fitness.variant == "printed"


def _measure(search: Search) -> str:
    return MEASURES[search.training.load().targets]


def samples(search: Search, finish: int) -> str:
    """What networks are trained on and judged by."""
    data, whole = search.training.load(), search.training.whole()
    of = f" of {len(whole.train):,}" if len(data.train) < len(whole.train) else ""
    more = f"; the best one is then trained on all {len(whole.train):,}" if of and finish else ""
    judges = f"{len(data.validation):,} others judge them, {len(data.test):,} test the best one"
    return f"{data.name}: networks are trained on {len(data.train):,}{of} samples (--samples). {judges}{more}."


def without_search(data: DataSet, beside: Mapping[str, Baseline]) -> str:
    """What every network has to beat."""
    figures = ", ".join(f"{name} {100 * known.judged:.1f} %" for name, known in beside.items())
    return f"To beat, {MEASURES[data.targets]} on the samples that judge: {figures}."


class Table:
    """Lines of the networks of a search as they come; ``clock``: seconds."""

    def __init__(self, search: Search, archive: Archive, finish: int, clock: Callable[[], float] = monotonic):
        self.search, self.archive, self.clock, self.paper = search, archive, clock, of_the_paper(search)
        self.begin, self.done = clock(), 0.0  # the time, and the work until then, from which on the rate counts
        samples = fmean(search.training.levels.cycles) * len(search.training.load().train)  # that a network is shown
        self.networks = search.candidates + finish * len(search.training.whole().train) / samples  # that take as long
        self.before = self.number = len(archive.history.scores)
        self.best = min((score.fitness for score in archive.history.scores.values()), default=inf)

    def head(self, history: Path) -> Iterator[str]:
        """Above the first row."""
        if self.before:
            yield f"{self.before} networks are in {history} from before; the search goes on."
        else:
            yield "Interrupted, the same command goes on. Shorter: --budget, --samples, --cycles."
        if target := self.search.training.target:
            yield f"FPS and memory are predicted for {target.board}."
        speed = ("FPS", "memory") if target else (None, None)
        yield self._line("network", _measure(self.search), "weights", *speed, "time left")

    def row(self, candidate: Candidate, score: Score) -> str:
        """Of a network that was trained."""
        self.number += 1
        news = "  best so far" if score.fitness < self.best else ""
        self.best = min(self.best, score.fitness)
        if self.paper:
            news = f"  F {score.fitness:.4f}, error {score.error:.4f}, {candidate.code}"
        speed = (f"{score.fps:,.0f}", _megabytes(score)) if score.fps is not None else (None, None)
        right = _percent(score.accuracy) if isfinite(score.fitness) else "not usable"
        number = f"{self.number} of {self.search.candidates}"
        return self._line(number, right, f"{score.weights:,}", *speed, self._left()) + news

    def _left(self) -> str:
        """By the work since the first network. The first also pays what is paid once, so that it gives a bound; where
        several are trained at once, its end is no beginning of the others, and all count."""
        now, done, first = self.clock(), self.archive.done, self.number == self.before + 1
        seconds = (now - self.begin) / (done - self.done) * self.archive.left(self.networks)
        if first and self.archive.executor is None:
            self.begin, self.done = now, done
        return ("under " if first else "") + _duration(seconds)

    def _line(self, *cells: str | None) -> str:
        return "".join(f"{cell:>{width}}" for cell, width in zip(cells, WIDTHS, strict=True) if cell is not None)


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 3600:.1f} hours" if seconds > 5400 else f"{seconds / 60:.0f} minutes"


def searched(search: Search, hours: float, device: str, finish: int) -> str:
    """What it took, and what follows."""
    took, count = f"The search took {hours:.2f} {device} hours.", len(search.training.whole().train)
    return f"{took} Now its best network makes {finish} passes over all {count:,} samples." if finish else took


def line(generation: Generation) -> str:
    """A generation, for readers of paper 003."""
    best, spread = generation.best.score, ""
    if generation.phase == "evolution":
        ends = generation.predicted.by
        spread = f"; mean F {generation.mean:.4f}, diversity {generation.diversity:.2f}, end by {ends}"
    trained = f"{generation.phase} {generation.number}, {generation.evaluations} trained"
    return f"{trained}: best F {best.fitness:.4f}, error {best.error:.4f}, {best.weights:,} weights{spread}"


def _megabytes(score: Score) -> str:
    return f"{score.memory_bytes / 1e6:.1f} MB"


def _percent(share: float | None) -> str:
    """Of a history of before there is no accuracy."""
    return "-" if share is None else f"{100 * share:.1f} %"


def _observed(generations: list[Generation], least: float) -> str:
    """The Markov chain's prediction from the first generation beside what happened; ``least``: the winner's fitness."""
    evolved = [generation for generation in generations if generation.phase == "evolution"]
    first, last = evolved[0], evolved[-1]
    first_at = next(
        (generation.number for generation in generations if generation.best.score.fitness == least), "the last, cut off"
    )
    fixed = next((g.number for g in evolved if g.diversity == 0), None)
    ended = (
        f"all bits fixed in {fixed}" if fixed is not None else f"diversity {last.diversity:.2f} left in {last.number}"
    )
    return (
        f"generations until selection and drift fix every bit: predicted {first.predicted.expected:.1f}, 95 % by "
        f"{first.predicted.by}; observed: {ended}, winner found in {first_at}"
    )


def _show_winner(search: Search, best: Winner, plan: str, paper: bool) -> None:
    score = best.member.score
    rows = [(f"{_measure(search)} on the test set", f"{100 * best.tested:.1f} %")]
    if paper:
        rows += [
            ("candidate", best.member.candidate.code),
            ("F, mean absolute error", f"{score.fitness:.4f}, {score.error:.4f}"),
        ]
    rows += [("weights", f"{best.network.parameters:,}")]
    rows += [("pruned", f"{100 * score.pruned:.0f} %")] if score.pruned else []
    if best.placed:
        prediction, board = best.placed.choice.prediction, Path(search.training.target.board).stem
        speed = f"{prediction.fps:,.1f} FPS, {prediction.latency_ms:.2f} ms, {_megabytes(score)}"
        rows.append((f"predicted for {board}", speed))
        if best.placed.interval:
            rows.append(("FPS in 4 of 5 cases", fps_text(best.placed.interval)))
    rows.append(("plan", plan))
    print_table("Winner", ["", ">"], rows)


def _show_beside(search: Search, best: Winner, beside: Mapping[str, Baseline], paper: bool) -> None:
    """Of a constant guess F is the error alone: it has no weights and is not pruned."""
    what = _measure(search)
    rows = [("winner", best.member.score.fitness, best.judged, best.tested)]
    rows += [(name, figures.error, figures.judged, figures.tested) for name, figures in beside.items()]
    shown = [
        (name, f"{100 * b:.2f} %", f"{100 * a:.2f} %", *([f"{printed_score(f):.2f}"] if paper else []))
        for name, f, a, b in rows
    ]
    headings = ["", f">{what}, test", ">validation", *([">100 (1 - F), as table II"] if paper else [])]
    print_table("Beside what needs no search", headings, shown)
    name, linear = list(beside.items())[-1]  # the stronger one
    verdict = "beats" if best.tested > linear.tested else "does not beat"
    print_text(
        f"{what} {100 * best.tested:.1f} % on samples that no training saw ({name} {100 * linear.tested:.1f} %): the "
        f"winner {verdict} it."
    )
    if paper:
        lowered = LOWERED[search.training.load().targets]
        print_text(f"The search lowers F: {lowered}, and a little for weights and for what misses a target.")
