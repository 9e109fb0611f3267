"""Each emulated board beside its simulation: the runtime here at the board's pace, and the model of its threads.

    python -m bench.pipelines.emulated_boards [NETWORK ...] [--boards rk3588,rpi5] [--stage-ms 200] [--frames 10]

Peak, Parallel, Pipe-All, Floating and Best of each network, at full load. The emulator computes for real, and its
threads wake up late where other programs run. So it is slowed down until the slowest unit of every lane takes
--stage-ms: then this machine need not matter. A row whose rate is off by more than 5 % runs again, in three turns at
half that pace, and has their medians. Rates and latencies are the board's, as if it ran at its
own pace. "late" is the share of stages' turns that took longer here than there: what they change is this machine's.
Latencies are from submit to when a frame is delivered in its turn.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bench.common import NETWORKS, Record, names, network, parser
from pipeall import Board, Graph, Plan
from pipeall.pipeline.measuring.comparison import MODES, baselines
from pipeall.pipeline.measuring.trial import Trial, compare
from pipeall.pipeline.planning.predict import predict, spans, unit_times
from pipeall.pipeline.planning.profile import Profile, disturbed
from pipeall.pipeline.planning.simulate import simulate
from pipeall.pipeline.planning.stage_costs import StageCosts

BOARDS = ("a311d", "a311d-armcl", "rk3399", "rk3588")
SIMULATED, AGREED, TURNS = 500, 5.0, 3  # frames; percent; of a row that does not agree
COLUMNS = (
    "board", "network", "mode", "plan", "as slow [x] .1f", "simulated [FPS] .2f", "emulated [FPS] .2f", "off [%] +.1f",
    "simulated p50 [ms] .1f", "emulated p50 [ms] .1f", "simulated p99 [ms] .1f", "emulated p99 [ms] .1f",
    "turns", "late [%] .0f", "others [cores] .1f", "mark",
)  # fmt: skip


def modes(graph: Graph, profile: Profile) -> Iterator[tuple[str, Plan]]:
    """The plan of each mode, as far as they differ."""
    found = baselines(graph, profile, list(profile.units))
    plans = {"peak": found.single[0], "parallel": found.parallel}
    plans |= {mode: choices[0].plan for mode, choices in found.searched.items()}
    seen: set[Plan | None] = {None}
    for mode, plan in plans.items():
        if plan not in seen:
            seen.add(plan)
            yield MODES[mode], plan


def off(found: float, expected: float) -> float:
    return 100 * (found / expected - 1)


@dataclass(frozen=True)
class Emulated:
    """What a plan did at the pace of a board."""

    trial: Trial
    scale: float

    @classmethod
    def of(
        cls, graph: Graph, plan: Plan, board: Board, profile: Profile, stage_ms: float, frames: int, turns: int
    ) -> "Emulated":
        """Runs ``frames`` at least in each turn, so slowly that the slowest unit of every lane takes ``stage_ms``."""
        costs, prediction = StageCosts.of(profile, plan), predict(profile, plan)
        lanes = zip(spans(profile, plan), prediction.stage_ms, strict=True)
        slowest = [max(unit_times(costs, lane, ms).values()) for lane, ms in lanes]
        scale = max(1.0, stage_ms / min(slowest))
        seconds = scale * frames / prediction.fps
        (trial,) = compare(graph, [plan], board, turns=turns, seconds=seconds, time_scale=scale)
        return cls(trial, scale)

    @property
    def fps(self) -> float:
        return self.scale * self.trial.median("fps")

    def latency_ms(self, percentile: str) -> float:
        return self.trial.median(f"latency_{percentile}_ms") / self.scale

    @property
    def mark(self) -> str | None:
        return "disturbed" if self.trial.late_share or disturbed(self.trial.others_cores) else None


def main() -> None:
    options = parser(__doc__, networks=NETWORKS)
    options.add_argument("--boards", type=names, default=list(BOARDS))
    options.add_argument("--stage-ms", type=float, default=200.0, help="of the slowest units; default %(default)s")
    options.add_argument("--frames", type=int, default=10, help="of each plan, at least; default %(default)s")
    options = options.parse_args()
    with Record(options, *COLUMNS, keys=3) as record:
        worst, again = [], 0
        for net in options.networks:
            graph = network(net)
            for name in options.boards:
                board = Board.load(name)
                profile = board.model.profile(graph)
                for mode, plan in modes(graph, profile):
                    expected = simulate(profile, plan, SIMULATED, jitter=False, paced=True)
                    what = graph, plan, board, profile
                    ran = Emulated.of(*what, options.stage_ms, options.frames, 1)
                    if abs(off(ran.fps, expected.fps)) > AGREED:
                        ran, again = Emulated.of(*what, 2 * options.stage_ms, options.frames, TURNS), again + 1
                    worst.append(abs(off(ran.fps, expected.fps)))
                    record.add(
                        name, net, mode, str(plan), ran.scale, expected.fps, ran.fps, off(ran.fps, expected.fps),
                        expected.latency_p50_ms, ran.latency_ms("p50"), expected.latency_p99_ms, ran.latency_ms("p99"),
                        len(ran.trial.turns), 100 * ran.trial.late_share, ran.trial.others_cores, ran.mark,
                    )  # fmt: skip
        agreed = sum(error <= AGREED for error in worst)
        record.say(f"Rates within {AGREED:.0f} %: {agreed} of {len(worst)}; furthest off {max(worst):.1f} %.")
        record.say(f"Run again in {TURNS} turns at half the pace, for a rate off by more: {again}.")


if __name__ == "__main__":
    main()
