"""What paper 003 claims and can be checked here, reported as found; a search for a board against one without.

    python bench/nas_claims.py starts DATA...       chaos-on-edge against random hyperparameters (figs. 2, 5, 6)
    python bench/nas_claims.py pruning DATA...      generations at pruning 0.5 and 0.7, order of difficulty (table II)
    python bench/nas_claims.py board cifar10.npz    accuracy alone against accuracy and speed on an A311D
    python bench/nas_claims.py faster               operations and time that vector-wise pruning saves

DATA are digits or files of ``pipeall nas --data``. Searches are small ones, so that all of it fits an hour of one core:
trees of 7 blocks on 192 samples, 8 generations of 10. The paper's absolute figures cannot be compared with.
"""

import tempfile
from pathlib import Path
from time import perf_counter

import click
import numpy as np

from pipeall.cli.output import print_table
from pipeall.cli.plot_nas import draw_starts
from pipeall.nas.data import DataSet, Samples
from pipeall.nas.evaluate import Pruning, Training
from pipeall.nas.evolve import Settings
from pipeall.nas.fitness import Fitness, deviations, printed_score
from pipeall.nas.genome import LEVELS, STATES, Candidate, hyper_of
from pipeall.nas.network import create, to_graph
from pipeall.nas.placement import Target, place
from pipeall.nas.prune import prune_vectors
from pipeall.nas.search import Search, winner
from pipeall.nas.stages import StageSpace
from pipeall.nas.train import predict, train
from pipeall.nas.tree import TreeSpace

TREE = TreeSpace(3, 33)
SMALL = LEVELS._replace(learning_rate=(1e-3, 3e-2, 1.0), cycles=(1, 3, 9))
SAMPLES = 192
CONVERGED = 1.02  # times the least fitness of a search
EPOCHS = 50  # of fig. 2


def run(training, settings, seed, start="edge"):
    """Generations of evolution alone."""
    search = Search(training, settings, seed, start)
    archive = search.open()
    found = []
    for generation in search.generations(archive):
        if generation.phase != "evolution":
            break
        found.append(generation)
        if generation.number == settings.generations:
            break
    return found


def generations_needed(found):
    """Until the best fitness is within 2 % of the last generation's best."""
    best = [generation.best.score.fitness for generation in found]
    return next(place for place, fitness in enumerate(best) if fitness <= CONVERGED * best[-1])


def median(generation):
    """Fitness of the middle: a network that nearly diverged makes any mean meaningless."""
    return float(np.median([member.score.fitness for member in generation.members]))


def paired(first, second):
    """p of the one-sided Wilcoxon signed-rank test that the first is less."""
    from scipy.stats import wilcoxon

    difference = np.subtract(first, second)
    return 1.0 if not difference.any() else float(wilcoxon(difference, alternative="less").pvalue)


@click.group()
def main():
    """See the head of the file."""


@main.command()
@click.argument("names", nargs=-1, required=True)
@click.option("--seeds", default=10)
@click.option("--generations", default=8)
@click.option("--plot", help="Draw figs. 2, 5 and 6 of the last data set.")
def starts(names, seeds, generations, plot):
    """Fitness of the first generation and of the last, by start: means over the seeds; and whose best is less."""
    rows = []
    for name in names:
        measured = {"edge": [], "random": []}
        for start, values in measured.items():
            for seed in range(seeds):
                with tempfile.TemporaryDirectory() as folder:
                    training = Training(TREE, name, folder, SAMPLES, levels=SMALL)
                    found = run(training, Settings(generations=generations, levels=SMALL, guided=0), seed, start)
                    values.append(
                        [median(found[0]), found[-1].best.score.fitness, median(found[-1]), found[-1].diversity]
                    )
        edge, random = (np.array(values) for values in measured.values())
        stem = Path(name).name.split(".")[0]
        for start, values in (("edge", edge), ("random", random)):
            rows.append((stem, start, *(f"{value:.4f}" for value in values.mean(axis=0)), "", ""))
        wins = int((edge[:, 1] < random[:, 1]).sum())
        rows.append((stem, "edge below", *[""] * 4, f"{wins} of {seeds}", f"{paired(edge[:, 1], random[:, 1]):.3f}"))
        click.echo(f"{stem} done", err=True)
    headings = ["data", "start", ">median F first", ">best F last", ">median last", ">diversity last", ">wins", ">p"]
    print_table(f"Starts, {seeds} seeds, {generations} generations", headings, rows)
    if plot:
        _draw(plot, names[-1], generations)


def _draw(path, name, generations, variants=10):
    """Fig. 2: losses of variants over epochs; figs. 5 and 6: the first and the last generation's best."""
    losses, off = {}, {}
    for start in ("edge", "random"):
        with tempfile.TemporaryDirectory() as folder:
            training = Training(TREE, name, folder, SAMPLES, levels=SMALL)
            search = Search(training, Settings(population=variants, guided=0), 0, start)
            random = np.random.default_rng(0)
            levels = search.hyper() or [hyper_of(int(state)) for state in random.integers(0, STATES, variants)]
            curves = np.full((variants, EPOCHS), np.nan)
            for row, hyper in zip(curves, levels, strict=True):
                network = create(TREE.decode(TREE.random(random)), training.load(), 0)
                genes = Candidate((0,), hyper).hyperparameters(SMALL)._replace(cycles=EPOCHS)
                values = train(network, training.load().fit, genes, 0)[1]
                row[: len(values)] = values
            losses[start] = np.where(np.isfinite(curves), curves, np.nan)
            found = run(training, Settings(generations=generations, levels=SMALL, guided=0), 0, start)
            data = training.load()
            ends = {"first generation": found[0].best, f"generation {found[-1].number}": found[-1].best}
            off[start] = {
                title: deviations(data, predict(training.result(m.candidate), data.test.x), data.test.y)
                for title, m in ends.items()
            }
    draw_starts(path, losses, off, f"{Path(name).name}: {variants} variants of each start")


@main.command()
@click.argument("names", nargs=-1, required=True)
@click.option("--seeds", default=10)
@click.option("--generations", default=8)
def pruning(names, seeds, generations):
    """Generations until the best fitness is within 2 % of its last, by pruned fraction; score 100 (1 - F).

    Every candidate is pruned: on so few samples most would never come below a threshold.
    """
    rows, order = [], []
    for name in names:
        needed = {0.5: [], 0.7: []}
        scores = []
        for fraction, values in needed.items():
            for seed in range(seeds):
                with tempfile.TemporaryDirectory() as folder:
                    training = Training(
                        TREE, name, folder, SAMPLES, levels=SMALL, pruning=Pruning(fraction, threshold=1.0)
                    )
                    found = run(training, Settings(generations=generations, levels=SMALL, guided=0), seed)
                    values.append(generations_needed(found))
                    scores.append(printed_score(found[-1].best.score.fitness))
        half, most = (np.mean(values) for values in needed.values())
        stem = Path(name).name.split(".")[0]
        ratio = most / half if half else float("nan")
        rows.append(
            (
                stem,
                f"{half:.2f}",
                f"{most:.2f}",
                f"{ratio:.2f}",
                f"{paired(needed[0.7], needed[0.5]):.3f}",
                f"{np.mean(scores):.2f}",
            )
        )
        order.append((float(np.mean(scores)), stem))
        click.echo(" ".join(rows[-1]), err=True)
    headings = ["data", ">generations at 0.5", ">at 0.7", ">ratio", ">p less at 0.7", ">score"]
    print_table(f"Pruning, {seeds} seeds, {generations} generations", headings, rows)
    click.echo("easiest first: " + ", ".join(stem for _, stem in sorted(order, reverse=True)))


SPACES = {  # of the searches for a board: networks, their hyperparameters, samples of a training step
    "tree": (
        TreeSpace(),
        LEVELS._replace(learning_rate=(2e-2, 3e-2, 5e-2), momentum=(0.5, 0.7, 0.9), cycles=(5, 6, 8)),
        32,
    ),
    "conv": (
        StageSpace((1, 1, 1), (4, 8, 12, 16), (1, 3)),
        LEVELS._replace(learning_rate=(1e-2, 3e-2, 6e-2), cycles=(5, 8, 10)),
        16,
    ),
}


@main.command()
@click.argument("name")
@click.option("--board", default="a311d")
@click.option("--space", type=click.Choice(list(SPACES)), default="tree")
@click.option("--samples", default=3000)
@click.option("--budget", default=40)
@click.option("--finish", default=5, help="Passes over all samples that both winners get.")
@click.option("--faster", default=1.7, help="The target, times the FPS of the winner by accuracy alone.")
@click.option("--weight", default=0.02, help="Of the penalty.")
@click.option("--seed", default=0)
def board(name, board, space, samples, budget, finish, faster, weight, seed):
    """A search for the least error alone, then one of the same budget for error and speed; nothing else counts."""
    space, levels, batch = SPACES[space]
    settings = Settings(levels=levels, guided=0)
    rows, fps = [], None
    for title in ("accuracy", "accuracy and speed"):
        with tempfile.TemporaryDirectory() as folder:
            target = Target(board, fps and faster * fps, weight)
            training = Training(
                space, name, folder, samples, levels=levels, batch=batch, fitness=Fitness(0.0, 0.0), target=target
            )
            archive = Search(training, settings, seed, budget=budget).open()
            for generation in Search(training, settings, seed, budget=budget).generations(archive):
                best = generation.best.score
                click.echo(
                    f"{generation.number}: F {best.fitness:.4f}, error {best.error:.4f}, {best.fps:.0f}", err=True
                )
            found = winner(training, archive.best, finish)
            fps = found.placed.choice.prediction.fps
            shares = (f"{100 * share:.1f}" for share in (found.judged, found.tested))
            rows.append(
                (
                    title,
                    len(archive.members),
                    *shares,
                    f"{fps:.0f}",
                    f"{found.network.parameters:,}",
                    archive.best.candidate.code,
                )
            )
    headings = ["search for", ">trained", ">accuracy judged %", ">tested %", ">FPS predicted", ">weights", "winner"]
    print_table(f"{Path(name).name} on {board}, seed {seed}", headings, rows)


@main.command()
@click.option("--seconds", default=1.0, help="Of each network, in turns.")
def faster(seconds):
    """The largest network of the space for pictures of 32 x 32, pruned, on one core of this machine."""
    from pipeall import Board, Engine
    from pipeall.graph.ops import macs

    data = DataSet(
        "random", "classes", 10, *(Samples(np.zeros((1, 3, 32, 32), np.float32), np.zeros(1, np.int64)),) * 3
    )
    whole = create(StageSpace((2, 2, 2)).decode((1,) * 12), data, 0)
    graphs = {0.0: to_graph(whole, data)}
    for fraction in (0.5, 0.7):
        graphs[fraction] = to_graph(prune_vectors(whole, fraction, together=4), data)
    engines = {
        fraction: Engine(graph, "big", board=Board.detect(gpu=False), threads=1) for fraction, graph in graphs.items()
    }
    x, times = np.zeros((1, 3, 32, 32), np.float32), {fraction: [] for fraction in graphs}
    end = perf_counter() + len(graphs) * seconds
    while perf_counter() < end:
        for fraction, engine in engines.items():
            begin = perf_counter()
            engine(x)
            times[fraction].append(1000 * (perf_counter() - begin))
    rows = []
    for fraction, graph in graphs.items():
        parameters = sum(array.size for array in graph.constants.values())
        count = sum(macs(node, graph) for node in graph.nodes) / 1e6
        fps = place(graph, Target("a311d")).choice.prediction.fps
        median, least = np.median(times[fraction]), np.min(times[fraction])
        rows.append((fraction, f"{parameters:,}", f"{count:.1f}", f"{median:.3f}", f"{least:.3f}", f"{fps:.0f}"))
    headings = ["pruned", ">weights", ">million MACs", ">ms median", ">ms least", ">FPS of an A311D, predicted"]
    print_table("Vector-wise pruning, channels in fours", headings, rows)


if __name__ == "__main__":
    main()
