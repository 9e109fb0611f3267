"""Strong scaling of paper 002's networks: here on 1 to n ranks, to 1,024 by counters and a model of Blue Gene/Q.

    python -m bench.mlp.mlp_scaling [--models S M L] [--ranks 1 2] [--batch 1 32] [--rounds 7] [--plot FILE.png]

What ``pipeall train scaling`` prints, as a record. Measured is a dense step (forward, backward, update), in turns with
NumPy's on one core, and with the ranks' work without their messages, which bounds them: a step reads the weights twice
(forward, and on the way back) and writes them once. L needs 2 GB.
"""

from dataclasses import astuple

from bench.common import Record, parser
from pipeall.cli.train.train_plot import draw_scaling
from pipeall.mlp import traffic
from pipeall.mlp.scaling import in_turns, measured_rows, planned
from pipeall.mlp.traffic import PAPER
from pipeall.pipeline.measuring.background_load import BackgroundLoad

MEASURED = (
    "model", "engine", "mode", "ranks", "batch", "median [ms] .3f", "best [ms] .3f", "of 1 rank [x] .2f",
    "of 1 rank, bests [x] .2f", "sent [bytes] .0f", "messages .0f", "under way, max [us] .0f",
    "under way, mean [us] .0f", "overlap [%] .0f", "best, no messages [ms] .3f", "memory [GB/s] .1f",
)  # fmt: skip
MODELLED = (
    "model", "workers", "paper [s] .4g", "paper [x] .4g", "kept [share] .3f", "work [x] .1f", "ghost [s] .3g",
    "ghost, messages [s] .3g", "ghost sent [bytes]", "full [s] .3g", "full, messages [s] .3g", "full sent [bytes]",
    "speed-up [x] .1f",
)  # fmt: skip


def main() -> None:
    options = parser(__doc__, rounds=7, seconds=0.5)
    options.add_argument("--models", nargs="+", choices=PAPER, default=["S", "M"])
    options.add_argument("--ranks", nargs="+", type=int, default=[1, 2])
    options.add_argument("--batch", nargs="+", type=int, default=[1, 32])
    options.add_argument("--plot")
    options = options.parse_args()
    modelled = {model: traffic.scaled(model) for model in PAPER}
    with Record(options, *MODELLED, part="modelled", keys=2) as record:
        for row in (row for of in modelled.values() for row in of):
            record.add(*astuple(row))
    with Record(options, *MEASURED, part="measured", keys=5) as record:
        with BackgroundLoad() as others:
            turns = in_turns(planned(options.models, options.ranks, options.batch), options.rounds, options.seconds)
        measured = measured_rows(turns)
        for row in measured:
            record.add(
                row["model"], row["engine"], row["mode"], row["ranks"], row["batch"], 1e3 * row["median_seconds"],
                1e3 * row["best_seconds"], row["gain"], row["gain_of_bests"], row["bytes"], row["messages"],
                1e6 * row["way_max_seconds"], 1e6 * row["way_mean_seconds"],
                None if row["overlap"] is None else 100 * row["overlap"], 1e3 * row["silent_seconds"],
                row["memory_rate"] / 1e9,
            )  # fmt: skip
        record.say(f"other programs took {others.cores or 0:.2f} cores meanwhile")
    if options.plot:
        draw_scaling(options.plot, modelled, measured)


if __name__ == "__main__":
    main()
