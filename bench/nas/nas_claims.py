"""What paper 003 claims and can be checked here, reported as found; a search for a board against one without.

    python -m bench.nas.nas_claims baselines DATA...  scores of a constant guess and logistic regression beside table II
    python -m bench.nas.nas_claims lambda DATA...  lambda of the greatest complexity, by a fit, beside the paper's two
    python -m bench.nas.nas_claims starts DATA...  chaos-on-edge against random hyperparameters (figs. 2, 5, 6)
    python -m bench.nas.nas_claims pruning DATA...  generations at pruning 0.5 and 0.7, order of difficulty (table II)
    python -m bench.nas.nas_claims weights DATA...  children that try several trained sets of weights (fig. 4)
    python -m bench.nas.nas_claims board cifar10.npz  accuracy alone against accuracy and speed on an A311D
    python -m bench.nas.nas_claims faster               operations and time that vector-wise pruning saves

DATA are digits or files of ``pipeall nas --data``. Searches are small ones, so that all of it fits an hour of one core:
trees of 7 blocks on 192 samples, 8 generations of 10. The paper's absolute figures cannot be compared with.
"""

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

from bench.common import Record, in_turns, milliseconds, parser
from pipeall import Board, Engine
from pipeall.cli.nas.nas_plot import draw_starts
from pipeall.graph.ops import macs
from pipeall.nas.architecture_search import Search, activities, winner
from pipeall.nas.datasets import DataSet, Samples, load
from pipeall.nas.placement import Target, place
from pipeall.nas.search import edge_of_chaos
from pipeall.nas.search.evolve import Settings
from pipeall.nas.spaces.conv_space import ConvSpace
from pipeall.nas.spaces.genome import LEVELS, STATES, Candidate, hyper_of
from pipeall.nas.spaces.tree_space import TreeSpace
from pipeall.nas.training.augment import TrainingRecipe
from pipeall.nas.training.evaluation import Pruning, Training
from pipeall.nas.training.fitness import Fitness, deviations, printed_score
from pipeall.nas.training.prune import prune_vectors
from pipeall.nas.training.simple_models import baselines
from pipeall.nas.training.training_loop import predict, train
from pipeall.nas.training.weighted_network import create, to_graph

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


def stem(name):
    return Path(name).name.split(".")[0]


def median(generation):
    """Fitness of the middle: a network that nearly diverged makes any mean meaningless."""
    return float(np.median([member.score.fitness for member in generation.members]))


def paired(first, second):
    """p of the one-sided Wilcoxon signed-rank test that the first is less."""
    from scipy.stats import wilcoxon

    difference = np.subtract(first, second)
    return 1.0 if not difference.any() else float(wilcoxon(difference, alternative="less").pvalue)


BASELINES = (
    "data", "model", "100 (1 - error) .2f", "tested [%] .1f", "table II .2f",
)  # fmt: skip
TABLE_2 = {"mnist": 96.48, "cifar10_10k": 87.56, "boston_housing": 77.61, "imdb_3k": 81.49, "reuters_r8_train": 92.87}


def both_baselines(record: Record, options: argparse.Namespace) -> None:
    """What is reached without a search. F of what has no blocks is its error."""
    for name in options.data:
        for model, found in baselines(load(name)).items():
            record.add(stem(name), model, printed_score(found.error), 100 * found.tested, TABLE_2.get(stem(name)))
    record.say("table II: best fitness of paper 003 after 200 generations. Tested: accuracy; for numbers R2.")


LAMBDA = ("data", "fitted .3f", "standard error .3f", "greatest point .3f", "paper .3f")


def critical_lambda(record: Record, options: argparse.Namespace) -> None:
    """The fit of ``edge_of_chaos.peak``, and the point of the plateau that happens to be the greatest."""
    for name in options.data:
        with tempfile.TemporaryDirectory() as folder:
            training = Training(TreeSpace(), name, folder, 2 * SAMPLES)
            found = edge_of_chaos.sweep(activities(training, 0), np.random.default_rng([0, 1]))
        paper = edge_of_chaos.LAMBDA_IMAGE if training.load().pictures else edge_of_chaos.LAMBDA_TEXT
        greatest = found.lam[int(np.argmax(found.complexity))]
        record.add(stem(name), found.critical, found.error, greatest, paper)
    record.say("27 values of lambda, each of 20 populations of 10 over 10 generations")


STARTS = (
    "data", "start", "median F first .4f", "best F last .4f", "median last .4f", "diversity last .4f", "wins", "p .3f",
)  # fmt: skip


def starts(record: Record, options: argparse.Namespace) -> None:
    """Fitness of the first generation and of the last, by start: means over the seeds; and whose best is less."""
    settings = Settings(generations=options.generations, levels=SMALL, guided=0)
    for name in options.data:
        measured = {"edge": [], "random": []}
        for start, values in measured.items():
            for seed in range(options.seeds):
                with tempfile.TemporaryDirectory() as folder:
                    found = run(Training(TREE, name, folder, SAMPLES, levels=SMALL), settings, seed, start)
                last = found[-1]
                values.append([median(found[0]), last.best.score.fitness, median(last), last.diversity])
        edge, random = (np.array(values) for values in measured.values())
        for start, values in (("edge", edge), ("random", random)):
            record.add(stem(name), start, *values.mean(axis=0), None, None)
        wins = int((edge[:, 1] < random[:, 1]).sum())
        record.add(stem(name), "edge below", *[None] * 4, wins, paired(edge[:, 1], random[:, 1]))
    record.say(f"{options.seeds} seeds, {options.generations} generations")
    if options.plot:
        _draw(options.plot, options.data[-1], options.generations)


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
                values = train(network, training.load().train, genes, 0)[1]
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


PRUNING = ("data", "generations at 0.5 .2f", "at 0.7 .2f", "ratio .2f", "p less at 0.7 .3f", "score .2f")


def pruning(record: Record, options: argparse.Namespace) -> None:
    """Generations until the best fitness is within 2 % of its last, by pruned fraction; score 100 (1 - F).

    Every candidate is pruned: on so few samples most would never come below a threshold.
    """
    settings = Settings(generations=options.generations, levels=SMALL, guided=0)
    for name in options.data:
        needed, scores = {0.5: [], 0.7: []}, []
        for fraction, values in needed.items():
            pruned = Pruning(fraction, threshold=1.0)
            for seed in range(options.seeds):
                with tempfile.TemporaryDirectory() as folder:
                    found = run(Training(TREE, name, folder, SAMPLES, levels=SMALL, pruning=pruned), settings, seed)
                values.append(generations_needed(found))
                scores.append(printed_score(found[-1].best.score.fitness))
        half, most = (np.mean(values) for values in needed.values())
        p = paired(needed[0.7], needed[0.5])
        record.add(stem(name), half, most, most / half if half else None, p, np.mean(scores))
    order = sorted(record.rows, key=lambda row: row[-1], reverse=True)
    record.say(f"{options.seeds} seeds, {options.generations} generations")
    record.say("easiest first: " + ", ".join(row[0] for row in order))


WEIGHTS = ("data", "a child tries", "tested [%] .1f", "standard error .1f", "wins", "losses", "p more .3f")
LEARNING = LEVELS._replace(learning_rate=(1e-2, 3e-2, 1e-1), cycles=(1, 3, 9))  # none that diverges
SETS = {0: "new weights", 1: "its parent's", 2: "2 sets", 4: "4 sets", 8: "8 sets"}


def weights(record: Record, options: argparse.Namespace) -> None:
    """Test accuracy of what evolution found, by how many trained sets a child tries; wins, losses and p beside one."""
    settings = Settings(generations=options.generations, levels=LEARNING, guided=0)
    for name in options.data:
        found = {}
        for sets in SETS:
            found[sets] = np.zeros(options.seeds)
            for seed in range(options.seeds):
                with tempfile.TemporaryDirectory() as folder:
                    training = Training(TREE, name, folder, 2 * SAMPLES, levels=LEARNING, inherit=sets)
                    last = run(training, settings, seed)[-1]
                    found[sets][seed] = 100 * winner(training, last.best).tested
        for sets, title in SETS.items():
            tested, one = found[sets], found[1]
            beside = int((tested > one).sum()), int((tested < one).sum()), paired(one, tested)
            error = tested.std(ddof=1) / options.seeds**0.5
            record.add(stem(name), title, tested.mean(), error, *((None,) * 3 if sets == 1 else beside))
    record.say(f"{options.seeds} seeds, {options.generations} generations of 10; {2 * SAMPLES} samples to train on")
    record.say("p more: of a one-sided Wilcoxon signed-rank test that accuracy is more than with the parent's set")


SPACES = {  # of the searches for a board: networks, their hyperparameters, samples of a training step
    "tree": (
        TreeSpace(),
        LEVELS._replace(learning_rate=(2e-2, 3e-2, 5e-2), momentum=(0.5, 0.7, 0.9), cycles=(5, 6, 8)),
        32,
    ),
    "conv": (
        ConvSpace((1, 1, 1), (4, 8, 12, 16), (1, 3)),
        LEVELS._replace(learning_rate=(1e-2, 3e-2, 6e-2), cycles=(5, 8, 10)),
        16,
    ),
}


BOARD = (
    "search for", "trained", "accuracy judged [%] .1f", "tested [%] .1f", "predicted [FPS] .0f", "weights", "winner",
)  # fmt: skip


def board(record: Record, options: argparse.Namespace) -> None:
    """A search for the least error alone, then one of the same budget for error and speed; nothing else counts."""
    (name,) = options.data
    space, levels, batch = SPACES[options.space]
    fps = None
    for title in ("accuracy", "accuracy and speed"):
        with tempfile.TemporaryDirectory() as folder:
            target = Target(options.board, fps and options.faster * fps, options.weight)
            training = Training(
                space, name, folder, options.samples, levels=levels, recipe=TrainingRecipe(batch),
                fitness=Fitness(0.0, 0.0), target=target,
            )  # fmt: skip
            search = Search(training, Settings(levels=levels, guided=0), options.seed, budget=options.budget)
            archive = search.open()
            for generation in search.generations(archive):
                best = generation.best.score
                print(f"{generation.number}: F {best.fitness:.4f}, error {best.error:.4f}", file=sys.stderr)
            found = winner(training, archive.best, options.finish)
            fps = found.placed.choice.prediction.fps
            shares = 100 * found.judged, 100 * found.tested
            code = archive.best.candidate.code
            record.add(title, len(archive.members), *shares, fps, found.network.parameters, code)
    record.say(f"{Path(name).name} on {options.board}, seed {options.seed}")


FASTER = ("pruned .1f", "weights", "MACs [million] .1f", "median [ms] .3f", "least [ms] .3f", "predicted [FPS] .0f")


def faster(record: Record, options: argparse.Namespace) -> None:
    """The largest network of the space for pictures of 32 x 32, pruned in fours, on one core of this machine."""
    data = DataSet(
        "random", "classes", 10, *(Samples(np.zeros((1, 3, 32, 32), np.float32), np.zeros(1, np.int64)),) * 3
    )
    whole = create(ConvSpace((2, 2, 2)).decode((1,) * 12), data, 0)
    graphs = {0.0: to_graph(whole, data)}
    graphs |= {share: to_graph(prune_vectors(whole, share, together=4), data) for share in (0.5, 0.7)}
    frame = np.zeros((1, 3, 32, 32), np.float32)
    engines = {share: Engine(graph, "big", board=record.board, threads=1) for share, graph in graphs.items()}
    runs = {share: partial(milliseconds, engine, frame) for share, engine in engines.items()}
    warm = in_turns(runs, 3)
    rounds = round(options.seconds * len(runs) * 1e3 / sum(map(min, warm.values())))
    for share, ms in in_turns(runs, rounds).items():
        graph = graphs[share]
        parameters = sum(array.size for array in graph.constants.values())
        count = sum(macs(node, graph) for node in graph.nodes) / 1e6
        fps = place(graph, Target("a311d-armcl")).choice.prediction.fps
        record.add(share, parameters, count, np.median(ms), min(ms), fps)
    record.say("predicted: of an A311D")


CLAIMS = {
    "baselines": (both_baselines, BASELINES),
    "lambda": (critical_lambda, LAMBDA),
    "starts": (starts, STARTS),
    "pruning": (pruning, PRUNING),
    "weights": (weights, WEIGHTS),
    "board": (board, BOARD),
    "faster": (faster, FASTER),
}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("claim", choices=CLAIMS)
    options.add_argument("data", nargs="*", metavar="DATA")
    group = options.add_argument_group("starts, pruning and weights")
    group.add_argument("--seeds", type=int, default=10)
    group.add_argument("--generations", type=int, default=8)
    group.add_argument("--plot", help="starts: draw figs. 2, 5 and 6 of the last data set")
    group = options.add_argument_group("board")
    group.add_argument("--board", default="a311d-armcl")
    group.add_argument("--space", choices=SPACES, default="tree")
    group.add_argument("--samples", type=int, default=3000)
    group.add_argument("--budget", type=int, default=40)
    group.add_argument("--finish", type=int, default=5, help="passes over all samples that both winners get")
    group.add_argument("--faster", type=float, default=1.7, help="the target, times the FPS of the most accurate")
    group.add_argument("--weight", type=float, default=0.02, help="of the penalty")
    group.add_argument("--seed", type=int, default=0)
    group = options.add_argument_group("faster")
    group.add_argument("--seconds", type=float, default=1.0, help="of each network, in turns")
    given = options.parse_args()
    if (given.claim != "faster") != bool(given.data) or (given.claim == "board" and len(given.data) != 1):
        options.error(f"DATA: expected one of board, none of faster, else some; got {len(given.data)}")
    claim, columns = CLAIMS[given.claim]
    with Record(given, *columns, board=Board.detect(gpu=False), part=given.claim) as record:
        claim(record, given)


if __name__ == "__main__":
    main()
