"""What ``pipeall nas`` prints for people: accuracy; of those who read paper 003, its figures too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite

from ... import env
from ...nas.architecture_search import Search, Winner
from ...nas.search.archive import Member
from ...nas.search.evolve import Generation
from ...nas.spaces.genome import Candidate
from ...nas.training.fitness import Baseline, printed_score
from ...nas.training.score import Score
from ..plans import fps_text
from ..tables import print_table, print_text

MEASURES = {"classes": "accuracy", "numbers": "R2", "boxes": "mAP"}  # by what a network predicts
MEAN = "how far an output is from its target in the mean, which is no share of wrong answers"
LOWERED = {"classes": MEAN, "numbers": MEAN, "boxes": "1 - mAP"}


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
    paper = _of_the_paper(search)
    if paper:
        print_text(_observed(generations, best.member.score.fitness))
    _show_winner(search, best, plan, paper)
    _show_beside(search, best, beside, paper)
    if front:
        rows = [
            (m.candidate.code, _percent(m.score.accuracy), f"{m.score.fps:.1f}", f"{m.score.memory_bytes:,}")
            for m in front
        ]
        print_table("Pareto front", ["candidate", f">{_measure(search)}", ">FPS", ">bytes"], rows)
    if command:
        print_text(command)


def _of_the_paper(search: Search) -> bool:
    """Whether to show what only readers of paper 003 know: F, the genome, diversity."""
    return env.verbose() or search.training.fitness.variant == "printed"


def _measure(search: Search) -> str:
    return MEASURES[search.training.load().targets]


def before(search: Search, workers: int) -> tuple[str, str]:
    """A first network, and what the search will take."""
    look, data = search.first_look(), search.training.load()
    passes = "/".join(map(str, search.training.levels.cycles))
    return (
        f"A first network after one pass over {look.samples} samples: {_measure(search)} {100 * look.accuracy:.1f} %, "
        f"{look.parameters:,} weights.",
        f"About {search.candidates} networks, {passes} passes over {len(data.train.x):,} samples each: some "
        f"{_long(look.seconds * search.candidates / workers)} here. Fewer: --samples, --cycles ..., --budget ...; "
        "interrupted, the same command goes on.",
    )


def without_search(beside: Mapping[str, Baseline]) -> str:
    """What every network has to beat."""
    figures = ", ".join(f"{name} {100 * known.judged:.1f} %" for name, known in beside.items())
    return f"Without a search: {figures} on the validation samples."


def trained(search: Search, number: int, candidate: Candidate, score: Score, seconds: float) -> str:
    """A line for a network that was trained, the ``number``-th in so many seconds."""
    paper, left = _of_the_paper(search), search.candidates - number
    genome = f" {candidate.code}" if paper else ""
    figures = _figures(search, score, paper) if isfinite(score.fitness) else "not usable"
    rest = f"; {_long(seconds / number * left)} left" if left > 0 else ""
    return f"network {number} of {search.candidates}{genome}: {figures}{rest}"


def _long(seconds: float) -> str:
    return f"{seconds / 3600:.1f} hours" if seconds > 5400 else f"{max(1, seconds / 60):.0f} minutes"


def line(search: Search, generation: Generation) -> str:
    paper = _of_the_paper(search)
    spread = ""
    if paper and generation.phase == "evolution":
        ends = generation.predicted.by
        spread = f"; mean F {generation.mean:.4f}, diversity {generation.diversity:.2f}, end by {ends}"
    best = _figures(search, generation.best.score, paper)
    return f"{generation.phase} {generation.number}, {generation.evaluations} trained: best {best}{spread}"


def _figures(search: Search, score: Score, paper: bool) -> str:
    """What a network does on the validation samples, how large and how fast it is."""
    known = score.accuracy is not None and not paper  # not in a history of before
    words = [f"{_measure(search)} {100 * score.accuracy:.1f} %"] if score.accuracy is not None else []
    words += [] if known else [f"F {score.fitness:.4f}", f"error {score.error:.4f}"]
    words += [f"{score.weights:,} weights"]
    words += [] if score.fps is None else [f"{score.fps:.0f} FPS"]
    return ", ".join(words)


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
    rows += [("weights, pruned", f"{best.network.parameters:,}, {100 * score.pruned:.0f} %"), ("plan", plan)]
    if best.placed:
        prediction = best.placed.choice.prediction
        rows.append(
            ("predicted", f"{prediction.fps:.1f} FPS, {prediction.latency_ms:.2f} ms, {score.memory_bytes:,} bytes")
        )
        if best.placed.interval:
            rows.append(("FPS in 4 of 5 cases", fps_text(best.placed.interval)))
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
        f"{what} {100 * best.tested:.1f} % ({name} {100 * linear.tested:.1f} %): the winner {verdict} it. {what} on "
        f"the test set tells what a network is worth. The search lowers F: {LOWERED[search.training.load().targets]}, "
        "and a little for weights and for what misses a target."
    )
