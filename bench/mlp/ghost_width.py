"""How wide ghosts must be, and whether ghost networks over-fit less than the dense one, as paper 002 supposes.

    python -m bench.mlp.ghost_width digits [--hidden 128-128] [--ranks 8] [--seeds 5]

Ranks are threads of one process: what is looked at are weights, not times. Over-fitting is the accuracy on the training
samples less the accuracy on the test samples. Means over the seeds, and half a 95 % interval of the difference.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import t

from bench.common import Record, parser
from pipeall.mlp.comm import Comm
from pipeall.mlp.data import Split, split
from pipeall.mlp.network import Perceptron
from pipeall.mlp.simulator import simulate
from pipeall.mlp.traffic import dense_weights, ghost_weights
from pipeall.mlp.train import EpochResult, Settings, train

COLUMNS = ("mode", "width", "weights kept [%] .1f", "training [%] .2f", "test [%] .2f",
           "over-fitting [points] .2f", "+- [points] .2f")  # fmt: skip


def main() -> None:
    options = parser(__doc__)
    options.add_argument("data", help="digits or a .npz file")
    options.add_argument("--hidden", default="128-128")
    options.add_argument("--ranks", type=int, default=8)
    options.add_argument("--widths", type=int, nargs="+", default=[1, 2, 4, 8])
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--epochs", type=int, default=40)
    options.add_argument("--samples", type=int, help="of the training samples, the first so many")
    options = options.parse_args()
    data, test, _ = split(options.data)
    if options.samples:
        data = type(data)(data.x[: options.samples], data.labels[: options.samples], data.classes, data.scale)
    sizes = [data.x.shape[1], *map(int, options.hidden.split("-")), data.classes]
    with Record(options, *COLUMNS, keys=2) as record:
        for width in (*options.widths, None):
            found = [_last(sizes, Split(data, test), width, seed, options) for seed in range(options.seeds)]
            training, on_test = (100 * np.array(part, float) for part in zip(*found, strict=True))
            gap = training - on_test
            half = t.ppf(0.975, len(gap) - 1) * gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else None
            kept = 1.0 if width is None else ghost_weights(sizes, options.ranks, width) / dense_weights(sizes)
            mode = "full" if width is None else "ghost"
            record.add(mode, width, 100 * kept, training.mean(), on_test.mean(), gap.mean(), half)
        record.say(f"{'-'.join(map(str, sizes))}, {len(data)} samples, {options.ranks} ranks, {options.seeds} seeds")


def _last(sizes: list[int], samples: Split, width: int | None, seed: int, options) -> tuple[float, float]:
    """Accuracy on training and test samples after the last epoch."""

    def program(comm: Comm) -> EpochResult:
        net = Perceptron("cross-entropy", seed, engine="numpy")
        net.add_layers(sizes, "relu", "softmax")
        net.initialize(comm, **({"mode": "ghost", "ghost_width": width} if width else {}))
        return train(net, samples, Settings(options.epochs, 32, 0.1, 0.0), look_at_training=True)[-1]

    last = simulate(1 if width is None else options.ranks, program)[0]
    return last.on_training, last.accuracy


if __name__ == "__main__":
    main()
