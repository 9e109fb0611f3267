"""``pipeall schedule``: several networks, their sources and their chains, on one board at once."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace

import click

from ...errors import ArgumentError
from ...files import same_file
from ...pipeline.boards.board import Board
from ...pipeline.boards.machine import describe
from ...pipeline.lease import CORES, board_for
from ...pipeline.live import LiveResult
from ...pipeline.planning.predict import predict
from ...pipeline.planning.profile import Profile
from ...pipeline.planning.schedule_plan import SchedulePlan
from ...pipeline.planning.simulate_schedule import ScheduleSimulation, simulate_schedule
from ...pipeline.schedule import Schedule, planned, times_of
from .. import complete
from ..model_argument import ZOO
from ..options import Command, cores_option, file_option, json_option
from ..output import print_json, print_json_line, progress, tell
from ..plans import load_board, read_plan, times_lines
from ..tables import print_text
from .schedule_file import ScheduleFile, in_table
from .schedule_loop import Network, ScheduleRan, ScheduleRun, Show, Sources, read_networks
from .schedule_page import SchedulePage
from .schedule_text import Printed, Written, plan_rows, print_figures, print_line, print_plan

SECONDS, FRAMES = 10.0, 50_000  # that a dry run simulates at most


@click.command(cls=Command)
@click.argument("path", metavar="FILE.toml", shell_complete=complete.files(".toml"))
@click.option(
    "--plan", metavar="FILE", shell_complete=complete.files(".json"), help="A schedule plan that --save wrote."
)
@file_option("--save", help="Write the schedule plan.")
@click.option("--dry-run", is_flag=True, help="Show the plan, and what it would do in a simulation; run nothing.")
@click.option("--view", metavar="[HOST:]PORT", help="Serve a live page here; with HOST, to the network behind a token.")
@cores_option(*CORES)
@json_option
def schedule(
    path: str, plan: str | None, save: str | None, dry_run: bool, view: str | None, cores: str, as_json: bool
) -> None:
    """Run several networks at once, as a file says.

    \b
    pipeall schedule street.toml --dry-run
    pipeall schedule street.toml --view 8080
    pipeall schedule street.toml --save plan.json
    pipeall schedule street.toml --plan plan.json --json

    The file has a table for each network; a network may take the boxes that another has seen:

    \b
    [networks.det]
    model = "yolox_nano.onnx"
    source = "camera:0"
    fps = 15
    priority = 2
    max_latency_ms = 80

    \b
    [networks.rec]
    model = "species.onnx"
    from = {network = "det", labels = ["bird"], margin = 0.1}

    Other keys are those of the options of pipeall run, such as labels and threshold.
    """
    file = ScheduleFile.load(path)
    board = board_for(load_board(file.board), cores)
    networks = read_networks(file)
    with progress() as bar:
        bar.add_task(f"plans of {', '.join(networks)}", total=None)
        the_plan = _planned(file, networks, board, plan)
    if save:
        the_plan.save(save)
    if dry_run:
        _show_plan(networks, the_plan, board, as_json)
        return
    _run(file, networks, the_plan, board, view, cores, as_json)


def _planned(file: ScheduleFile, networks: Mapping[str, Network], board: Board, plan: str | None) -> SchedulePlan:
    if plan is not None:
        found = SchedulePlan.load(plan)
        if set(found) != set(networks):
            raise ArgumentError(
                f"--plan {plan}: expected plans of {', '.join(networks)}, got those of {', '.join(found)}"
            )
        demands = {name: network.table.demand for name, network in networks.items()}
        return replace(found, demands=demands, rates={name: demands[name].fps or found.rates[name] for name in found})
    entries = {}
    for name, network in networks.items():
        text = network.table.plan
        with in_table(network.table.where):
            own = {} if text is None else {"plan": read_plan(text, network.graph, board)}
        entries[name] = network.given(**own)
    with in_table(f"{file.path}:"):
        return planned(entries, board)


def _show_plan(networks: Mapping[str, Network], plan: SchedulePlan, board: Board, as_json: bool) -> None:
    profiles = {name: times_of(network.graph, board, plan.plans[name].units) for name, network in networks.items()}
    known = {name: profile for name, profile in profiles.items() if profile is not None}
    simulated = _simulated(plan, known) if len(known) == len(networks) else None
    rows = plan_rows(plan, known, simulated)
    if as_json:
        use = {} if simulated is None else {"use": dict(simulated.use)}
        print_json("schedule-plan", networks=rows, **use)
        return
    print_plan(rows, simulated)
    for line in dict.fromkeys(line for profile in known.values() for line in times_lines(profile, board)):
        print_text(line)


def _simulated(plan: SchedulePlan, profiles: Mapping[str, Profile]) -> ScheduleSimulation:
    """For some seconds; fewer where networks of microseconds would compute more than FRAMES."""
    fps = sum(plan.rates[name] or predict(profile, plan.plans[name]).fps for name, profile in profiles.items())
    return simulate_schedule(profiles, plan, min(SECONDS, FRAMES / fps))


def _run(
    file: ScheduleFile,
    networks: Mapping[str, Network],
    plan: SchedulePlan,
    board: Board,
    view: str | None,
    cores: str,
    as_json: bool,
) -> None:
    sources = Sources(file, tell)
    _check_apart(file)
    entries = {
        name: network.given(input=network.reader.fed(_layout(network, sources))) for name, network in networks.items()
    }
    with ExitStack() as opened:
        shows: list[Show] = [print_line if as_json else Printed(networks)]
        if file.output:
            shows.append(opened.enter_context(Written(file.output, f"{file.path}: output")))
        page = opened.enter_context(SchedulePage(view, networks)) if view else None
        run = ScheduleRun(opened.enter_context(Schedule(entries, board, plan, cores=cores)), networks, sources)
        if page is not None:
            page.run = run
            shows.append(page.add)

        def show(name: str, seen: LiveResult) -> None:
            for each in shows:
                each(name, seen)

        quiet = sys.stdout.isatty() or not sys.stderr.isatty()
        ran = run(show, file.seconds, quiet)
    _end(file, networks, ran, plan, board, as_json)


def _layout(network: Network, sources: Sources) -> str:
    """The pixel format of what comes: crops are in RGB."""
    return sources.layout if network.table.of is None else "RGB"


def _check_apart(file: ScheduleFile) -> None:
    read = [
        file.path,
        *(name for one in file.networks.values() for name in (one.model, *(s.name for s in one.sources))),
    ]
    if file.output and (source := same_file(file.output, read)):
        raise ArgumentError(f"{file.path}: output: expected another place than that of {source}")


def _end(
    file: ScheduleFile,
    networks: Mapping[str, Network],
    ran: ScheduleRan,
    plan: SchedulePlan,
    board: Board,
    as_json: bool,
) -> None:
    """Prints the figures, then raises what ended the run."""
    if as_json:
        plans = {name: str(one) for name, one in plan.plans.items()}
        print_json_line("schedule-run", machine=describe(board), plans=plans, **ran.to_dict())
    else:
        print_figures(ran)
        for name in dict.fromkeys(file.networks[name].model for name in networks if file.networks[name].model in ZOO):
            print_text(f"{name} of the zoo has random weights: what it sees means nothing, its speed does.")
    if ran.broken and not ran.interrupted:
        raise ran.broken
    if ran.interrupted:
        raise click.Abort
