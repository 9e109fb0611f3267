"""Paper 002's "sweet spot": accuracy against how many neurons at the ranks' borders travel.

    python -m bench.mlp.mlp_ghost_width DATA.npz [--ranks 8] [--epochs 3] [--samples 10000] [--plot FILE.png]

A network is trained in ghost mode at each ghost width, gradients dropped (as in the paper) and exchanged, and in full
mode; ranks are the simulator's, so that the result is that of MPI. Shown are the weights kept, bytes that a rank sends
for a sample, and the accuracy on the test samples after the last epoch.
"""

import numpy as np

from bench.common import Record, parser
from pipeall.mlp import Perceptron
from pipeall.mlp.data import LabelledSamples, Split, load
from pipeall.mlp.layout import bounds_of
from pipeall.mlp.simulator import simulate
from pipeall.mlp.train import Settings, report, train

BATCH = 32
COLUMNS = ("width", "gradient", "kept [%] .1f", "sent [bytes] .0f", "loss .4f", "accuracy [%] .2f")


def trained(sizes, ranks, data, test, epochs, seed, **layout):
    """The last epoch of a network, and what its layout costs."""

    def program(comm):
        net = Perceptron("cross-entropy", seed)
        net.add_layer("input", sizes[0])
        for neurons in sizes[1:-1]:
            net.add_layer("hidden", neurons, "relu")
        net.add_layer("output", sizes[-1], "softmax")
        net.initialize(comm, **layout)
        history = train(net, Split(data, test), Settings(epochs, BATCH, 0.1, 0.5))
        return history[-1], report(net, history, len(data))

    return simulate(ranks, program)[0]


def draw(path, points):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), dpi=130, layout="constrained")
    axes = figure.subplots()
    for gradient in ("drop", "exchange"):
        axes.semilogx(*zip(*points[gradient], strict=True), "o-", base=2, label=f"ghost, gradients {gradient}")
    axes.axhline(points["full"][0][1], color="k", ls=":", label="full")
    axes.set_xlabel("ghost width: neurons at each border")
    axes.set_ylabel("test accuracy, %")
    axes.legend(frameon=False)
    figure.savefig(path)


def main():
    options = parser(__doc__)
    options.add_argument("data")
    options.add_argument("--hidden", default="256-256")
    options.add_argument("--ranks", type=int, default=8)
    options.add_argument("--epochs", type=int, default=3)
    options.add_argument("--samples", type=int, default=10000, help="of training")
    options.add_argument("--seeds", type=int, default=1)
    options.add_argument("--plot")
    options = options.parse_args()
    data, test = load(options.data)
    data = LabelledSamples(data.x[: options.samples], data.labels[: options.samples], data.classes, data.scale)
    sizes = [data.x.shape[1], *map(int, options.hidden.split("-")), data.classes]
    part = bounds_of(max(sizes[1:-1]), options.ranks)[1]
    widths = [2**i for i in range(part.bit_length()) if 2**i < part] + [part]
    runs = [(width, gradient) for width in widths for gradient in ("drop", "exchange")] + [(None, "full")]
    points = {}
    with Record(options, *COLUMNS) as record:
        record.say(f"{'-'.join(map(str, sizes))}, {options.ranks} ranks, {len(data)} samples, {options.epochs} epochs")
        for width, gradient in runs:
            layout = {"mode": "ghost", "ghost_width": width, "ghost_gradient": gradient} if width else {}
            seeds = range(options.seeds)
            found = [trained(sizes, options.ranks, data, test, options.epochs, seed, **layout) for seed in seeds]
            accuracy = 100 * float(np.median([last.accuracy for last, _ in found]))
            loss, cost = float(np.median([last.loss for last, _ in found])), found[0][1]
            record.add(width, gradient, 100 * cost["weights_kept"], cost["bytes"] / BATCH, loss, accuracy)
            points.setdefault(gradient, []).append((width or part, accuracy))
    if options.plot:
        draw(options.plot, points)


if __name__ == "__main__":
    main()
