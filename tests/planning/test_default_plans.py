"""Plans that nobody gives, plan files without a graph, and the best plans of a search run for real."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from commands import invoke, quick_net, toy_board
from graphs import frames, small_net
from profiles import measured_here, profile_of, quick_part
from recorded_boards import recorded_files, write_tree

import pipeall
from pipeall import ArgumentError, Board, Pipeline, Plan
from pipeall.pipeline.boards.default_plan import BUSY, default_plan
from pipeall.pipeline.boards.default_units import cores_of, default_units
from pipeall.pipeline.boards.profile_cache import measured_on, profile_path
from pipeall.pipeline.measuring.verify import Verified, given_up, ranked, tied
from pipeall.pipeline.planning.plan import Goal
from pipeall.pipeline.planning.plan_table import PredictedPlan
from pipeall.pipeline.planning.predict import Prediction, predict
from pipeall.pipeline.planning.units import Unit


@pytest.fixture
def net():
    return quick_net()


# ---- plans that nobody gives ----


def test_default_plan_has_equal_macs(net, board):
    with Pipeline(net, board=board) as pipe:
        assert str(pipe.plan) == str(Plan.balanced(["big", "little"], net))
        assert str(pipe.plan) in repr(pipe) and "equal MACs: no profile is kept" in repr(pipe)
        assert pipe.result is not None and list(pipe.map(frames(net, 2)))
    assert "2 frames done" in repr(pipe) and "closed" in repr(pipe)


def test_default_plan_of_a_measured_network(net, board, keeping, monkeypatch):
    assert default_plan(net, board)[1].endswith("no profile is kept")
    profile = pipeall.profile(net, board, seconds=0.05)
    plan, why = default_plan(net, board)
    best = pipeall.search(net, profile, cores=cores_of(board), plans="pipelines").ranked[0]
    assert plan in (best.plan, Plan.parse("big+little")) and plan.network == ("quick", 4)
    assert predict(profile, plan).fps >= best.prediction.fps and "by its profile, measured 20" in why
    with Pipeline(net, board=board) as pipe:
        assert pipe.plan == plan and "by its profile" in repr(pipe)
    assert default_plan(small_net(), board)[1].endswith("no profile is kept")  # another network
    one = Board.detect(clusters=[board.component("big").device.cores], gpu=False)
    assert default_plan(net, one)[1].endswith("no profile is kept")  # another board
    monkeypatch.setenv("PIPEALL_TUNE", "off")
    assert default_plan(net, board)[1].endswith("no profile is kept")


UNEVEN = [1.0, 1.0, 1.0, 4.0]  # no cut makes equal stages


def default_of(net, board, copies=True, **times):
    return str(default_plan(net, board, profile_of(net, times), copies=copies)[0])


def test_copies_on_equal_units_are_a_default_plan_where_they_do_most(net, board):
    if board.all_cores is None:
        pytest.skip("cores differ here")
    equal = {"big": UNEVEN, "little": UNEVEN}
    assert default_of(net, board, **equal, cpu=UNEVEN) == "big+little"
    assert default_of(net, board, **equal, cpu=UNEVEN, copies=False) == "big-little:3"
    assert default_of(net, board, **equal, cpu=[0.5] * 4) == "cpu"
    thrice = [3 * ms for ms in UNEVEN]  # copies would do more, but a frame takes three times as long on one
    assert default_of(net, board, big=UNEVEN, little=thrice) == "little-big:1"


def test_copies_take_all_cores_of_a_component(net, board):
    four = Board([replace(board.component("big").device.cluster, cores=(-1,) * 4)], gpu=False)
    times = {"big": UNEVEN, "bigx2": [1.5 * ms for ms in UNEVEN], "bigx1": [2 * ms for ms in UNEVEN]}
    assert default_of(net, four, **times) == "4*bigx1"
    del times["bigx1"]
    assert default_of(net, four, **times) == "2*bigx2"
    with Pipeline(net, board=four, profile=profile_of(net, times)) as pipe:
        assert str(pipe.plan) == "2*bigx2" and len(list(pipe.map(frames(net, 9)))) == 9


def test_what_rebalances_has_no_copies(net, board):
    profile = replace(measured_here(net, board), units=profile_of(net, dict(big=UNEVEN, little=UNEVEN)).units)
    with Pipeline(net, board=board, profile=profile, rebalance=True) as pipe:
        assert str(pipe.plan) == "big-little:3"


@pytest.mark.parametrize(
    "machine, units",
    [
        ("x86_vm_2_cores", ["big", "little", "cpu"]),
        ("raspberry_pi_4", ["big", "little", "cpu", "cpux1", "cpux2"]),
        ("vim3", ["big", "little"]),
        ("rk3588", ["big", "little"]),
    ],
)
def test_default_units_of_machines(machine, units, tmp_path):
    there = Board.detect(gpu=False, root=write_tree(recorded_files(machine), tmp_path))
    assert default_units(there) == units
    assert cores_of(there).keys() == {Unit.parse(unit).component for unit in units}


def test_a_disturbed_profile_is_told(net, board, keeping, recwarn):
    """The kept one says so; of one that is given its user knows."""
    pipeall.profile(net, board, seconds=0.02)
    path = profile_path(net, board)
    for others, count in ((None, 0), (0.2, 0), (1.5, 1)):
        profile = pipeall.Profile.load(path)
        replace(profile, about={**profile.about, "others_cores": others}).save(path)
        recwarn.clear()
        default_plan(net, board)
        default_plan(net, board, pipeall.Profile.load(path))
        assert [str(row.message) for row in recwarn] == [BUSY.format(network="quick", cores=1.5)] * count


def test_a_profile_that_cannot_be_used(net, board, keeping):
    path = profile_path(net, board)
    path.parent.mkdir(parents=True)
    elsewhere = replace(measured_here(net, board, big=1.0, little=1.0), about={"components": {"big": "another"}})
    for content in ("{", "", None):
        elsewhere.save(path) if content is None else path.write_text(content)
        assert default_plan(net, board)[1].endswith("no profile is kept")


def test_a_profile_of_some_components_is_not_kept(net, board, keeping):
    pipeall.profile(net, board, ["big"], seconds=0.02)
    assert not profile_path(net, board).exists()
    path = profile_path(net, board)
    path.parent.parent.mkdir(exist_ok=True)
    path.parent.write_text("a file, where the folder should be")
    pipeall.profile(net, board, seconds=0.02)  # it cannot be kept: nobody needs to know


def test_default_plans_by_profiles_that_are_given(net, board, tmp_path):
    slow = measured_here(net, board, big=1.0, little=50.0)
    with Pipeline(net, board=board, profile=slow) as pipe:
        assert "by its profile, measured" in pipe.choice
    model = Board.load(toy_board(tmp_path / "toy.json"))
    with Pipeline(net, board=model, time_scale=0.1) as pipe:
        assert "by its profile, modelled" in repr(pipe)
    nothing = measured_here(net, board, gpu=1.0)
    assert default_plan(net, board, nothing)[1].startswith("with equal MACs")


def test_the_command_line_takes_the_same_plan(net, board, keeping, monkeypatch):
    from pipeall.cli.plans import chosen_plan

    path = profile_path(net, board)
    path.parent.mkdir(parents=True)
    measured_here(net, board, big=1.0, little=100.0).save(path)
    for count in (1, 2, None):
        assert str(chosen_plan(net, board, None, count)) == "big"
    measured_here(net, board, big=1.0, little=1.0).save(path)
    assert str(chosen_plan(net, board, None, 2)) in ("big-little:2", "big+little")
    assert str(chosen_plan(net, board, None, 1)) == "big"
    path.unlink()
    assert str(chosen_plan(net, board, None, 1)) == board.default_component
    assert str(chosen_plan(net, board, "B-L")) == str(Plan.balanced(["B", "L"], net))


# ---- plan files ----


def test_plans_are_saved_and_loaded_without_a_graph(net, board, tmp_path):
    path = tmp_path / "plan.json"
    found = pipeall.search(net, measured_here(net, board, big=1.0, little=2.0))
    for plan in (found.best, Plan.balanced(["B", "L"], net)):
        plan.save(path)
        content = json.loads(path.read_text())
        assert (content["network"], content["groups"]) == ("quick", 4)
        loaded = Plan.load(path)
        assert loaded == plan and loaded.network == ("quick", 4) and "of quick" in repr(loaded)
        with pytest.raises(ArgumentError, match="expected a plan for the 3 groups .* got one for 4 groups of 'quick'"):
            Pipeline(quick_part(net), loaded, board=board)
        with pytest.raises(ArgumentError, match="got one for 4 groups of 'quick'"):
            loaded.save(path, quick_part(net))
        loaded.save(path)  # it has kept the name
        assert Plan.load(path, net).network == ("quick", 4)


def test_a_plan_of_no_network(net, board, tmp_path):
    path = tmp_path / "plan.json"
    Plan.parse("B-L:2").save(path)
    assert "network" not in json.loads(path.read_text())
    with Pipeline(net, Plan.load(path).with_cores({"big": 1}), board=board) as pipe:
        assert pipe.plan.units == ("bigx1", "little")
    assert invoke("info", "squeezenet", "--plan", str(path)).exit_code == 0


# ---- verify ----


@pytest.mark.parametrize("units", [["big@mixed", "little"], ["big@int8"], ["cpu"], ["cpu@mixed"], ["bigx1"]])
def test_units_of_any_precision_and_all_cores_are_measured_here(net, board, units):
    profile = measured_here(net, board, **dict.fromkeys(units, 1.0))
    assert measured_on(profile, board)
    components = {**profile.about["components"], "little": "another"}
    elsewhere = replace(profile, about={**profile.about, "components": components})
    assert measured_on(elsewhere, board) == (units in (["big@int8"], ["bigx1"]))
    modelled = replace(profile, modelled=True)
    assert not measured_on(modelled, board)


def test_plans_of_another_precision_and_of_all_cores_run_to_make_sure(net, board):
    found = pipeall.search(net, measured_here(net, board, **{"big@mixed": 0.1, "little": 0.1}), units=["B@mixed", "L"])
    ran = pipeall.verify(found, board, top=2, seconds=0.05)
    assert {row.plan for row in ran.rows} == {
        choice.plan for choice in (*found.ranked[:2], found.simpler, found.parallel) if choice
    }
    found = pipeall.search(net, measured_here(net, board, cpu=0.1))
    assert str(pipeall.verify(found, board, seconds=0.05).best) == "cpu"


def test_verify_runs_the_best_plans(net, board):
    found = pipeall.search(net, measured_here(net, board, big=0.1, little=0.1), plans="pipelines")
    turns = []
    verified = pipeall.verify(found, board, top=3, seconds=0.05, progress=lambda *turn: turns.append(turn))
    plans = [choice.plan for choice in found.ranked[:3]]
    plans += [] if found.simpler.plan in plans else [found.simpler.plan]
    count = 5 * (len(plans) + 1)
    assert turns[-1] == ("verifying", count, count) and len(turns) == count
    assert len(verified.rows) == len(plans) and not verified.refused and verified.within_limits
    first, *others = verified.rows  # the first may have fewer stages than one as fast within the spread
    rates = [row.fps for row in others]
    assert rates == sorted(rates, reverse=True) and verified.best == first.plan
    assert len(first.plan.units) <= len(max(verified.rows, key=lambda row: row.fps).plan.units)
    assert {row.plan for row in verified.rows} == set(plans)
    assert str(verified.best) in repr(verified) and "measured" in repr(verified.rows[0])
    assert verified.parallel.plan == found.parallel.plan
    assert verified._repr_html_().count("<tr>") == 1 + len(plans)


def test_verify_knows_the_limits_of_the_search(net, board):
    found = pipeall.search(net, measured_here(net, board, big=1e-6, little=1e-6), max_latency_ms=1e-4)
    verified = pipeall.verify(found, board, top=1, seconds=0.02)
    assert not verified.within_limits and "not within the limits" in repr(verified)


def test_verify_refuses_what_cannot_run_here(net, board):
    modelled = pipeall.search(net, Board.load("a311d-armcl").model.profile(net))
    with pytest.raises(ArgumentError, match="expected a search in a profile that was measured on this machine"):
        pipeall.verify(modelled, board)
    found = pipeall.search(net, measured_here(net, board, big=1.0))
    for top in (0, True, 1.5):
        with pytest.raises(ArgumentError, match="top: expected a whole number"):
            pipeall.verify(found, board, top=top)


@pytest.mark.parametrize("predicted, first", [(1.02, "big"), (1.1, "big-little:1")])
def test_a_simpler_plan_within_the_spread_gives_up_three_percent_at_most(predicted, first):
    """big measures 5 % slower, with a spread of 10 %."""

    def row(plan, period_ms, predicted_ms):
        prediction = Prediction(((predicted_ms,),), predicted_ms, predicted_ms, predicted_ms, None)
        trial = SimpleNamespace(plan=Plan.parse(plan), period_ms=period_ms, spread=0.1, median=lambda what: 10.0)
        return Verified(PredictedPlan(trial.plan, prediction), trial)

    rows = ranked(Goal(), [row("big", 10.5, predicted), row("big-little:1", 10.0, 1.0)])
    assert str(rows[0].plan) == first
    best = tied(Goal(), rows)
    assert (best and str(best.plan)) == (None if first != "big" else "big-little:1")
    lost = (1 - 10 / 10.5, 1 - 1 / predicted) if best else (0.0, 0.0)
    assert given_up(Goal(), rows[0], best or rows[0]) == pytest.approx(lost)
