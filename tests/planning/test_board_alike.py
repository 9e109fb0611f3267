"""Cores that nobody priced: by the steps of one that is alike, and how far off that is."""

from collections import Counter

import numpy as np
import pytest

from pipeall.pipeline.boards.models.board_model import BoardModel
from pipeall.pipeline.planning.uncertainty import DEVIATIONS
from tools.board_models import fit_prices, price_table, priced_cores
from tools.board_models.priced_cores import CLOCK, CLOCK_IN_ORDER, CORES, Alike

# Two cores of one kind that were both priced: their clocks in GHz, and what is told of one by the other
PAIRS = [
    (("a311d-little", 1.8), ("rk3399-little", 1.5), CLOCK_IN_ORDER),
    (("rk3399-big", 1.8), ("rpi4", 1.8), CLOCK),
    (("rk3588-big", 2.4), ("rpi5", 2.4), CLOCK),
]
# ncnn's times of one thread on a UNO Q by those on an RK3399's A53, whose caches are alike; without AlexNet, whose
# weights the newer ncnn of the two keeps in halves
UNO_Q = {
    "big": {"googlenet": 337.1 / 448.5, "mobilenet": 146.5 / 207.9, "resnet50": 739.4 / 975.4,
            "squeezenet": 94.2 / 129.6},
    "big@int8": {"googlenet": 281.6 / 406.1, "mobilenet": 123.7 / 175.6, "resnet50": 591.3 / 851.6,
                 "squeezenet": 78.2 / 124.1},
}  # fmt: skip
# MobileNet in halves on the RK3566's own caches and memory, ms: one run of tools/board_models/price.py
RK3566_MOBILENET = 48.44


@pytest.fixture(scope="module")
def rows():
    return price_table.load(fit_prices.PRICES)


def totals(rows):
    """(unit, network) -> ms of networks, without those that were made to have every kernel. Of weights in half
    precision (mixed) only the steps that differ are priced, and those are no network."""
    found = Counter()
    for row in rows:
        if row.network not in fit_prices.GRIDS and not row.unit.endswith("@mixed"):
            found[row.unit, row.network] += row.ms
    return found


@pytest.mark.parametrize("first, second, unsure", PAIRS)
def test_a_core_is_told_by_its_like(first, second, unsure, rows, monkeypatch):
    """Both ways: four of five networks in all precisions are within the error that is stated, and none far outside."""
    off = []
    for (soc, ghz), (other, its_ghz) in ((first, second), (second, first)):
        priced = totals(row for row in rows if row.soc == soc)
        core = CORES[soc]
        like = priced_cores.Core(
            core.read, core.write, core.cache_mb, core.threads,
            alike=Alike(other, ghz / its_ghz, ghz / its_ghz, unsure),
        )  # fmt: skip
        monkeypatch.setitem(CORES, "like", like)
        told = totals(priced_cores.steps("like", rows))
        both = told.keys() & priced.keys()
        assert len(both) >= 23
        off += [abs(np.log(told[key] / priced[key])) for key in both]
    assert np.mean(np.array(off) <= DEVIATIONS * unsure) >= 0.8 and max(off) <= 2.2 * DEVIATIONS * unsure


def test_one_core_of_a_uno_q_is_told_by_an_rk3399s(rows):
    """By pipeall's steps, as much faster as ncnn published it."""
    here, there = totals(priced_cores.steps("uno-q", rows)), totals(row for row in rows if row.soc == "rk3399-little")
    off = [
        abs(np.log(here[unit, net] / there[unit, net] / ratio))
        for unit, ratios in UNO_Q.items()
        for net, ratio in ratios.items()
    ]
    # both of the two cores may be off, of which one is carried over
    assert len(off) == 8 and np.mean(np.array(off) <= DEVIATIONS * np.hypot(CLOCK_IN_ORDER, CLOCK_IN_ORDER)) >= 0.8


def test_an_rk3566_is_told_by_an_rk3588s_little_core(rows):
    told = totals(priced_cores.steps("rk3566", rows))["big@fp16", "mobilenet"]
    assert abs(np.log(told / RK3566_MOBILENET)) <= DEVIATIONS * CLOCK_IN_ORDER


@pytest.mark.parametrize("ratios", [priced_cores.A720, priced_cores.A720_INT8], ids=["floats", "integers"])
def test_an_a720_is_told_by_an_a76(ratios):
    """Each published network by the others' mean, within the error of the Orion O6's cores."""
    logarithms = np.log(ratios)
    unsure = DEVIATIONS * CORES["orion-o6-big"].alike.unsure
    off = [abs(np.delete(logarithms, i).mean() - own) for i, own in enumerate(logarithms)]
    assert np.mean(np.array(off) <= unsure) >= 0.8
    assert logarithms.mean() > np.log(2.6 / 2.4)  # by more than the clock


@pytest.mark.parametrize("name", fit_prices.BOARDS)
def test_a_board_with_cores_like_others_is_less_sure(name):
    """Of one core: by more than what its model is off in all cases."""
    model = BoardModel.load(name)
    for component, soc in fit_prices.BOARDS[name].socs.items():
        core = CORES[soc]
        told = np.log1p(model.error[f"{component}x1"]) / DEVIATIONS
        lent = core.alike.unsure if core.alike else 0.0
        assert told > np.hypot(fit_prices.ARMCOST, lent)
        if core.alike:
            source = f"{component}: inferred of {core.alike.soc}'s steps"
            assert any(line.startswith(source) for line in model.about["step_prices"])


@pytest.mark.parametrize("soc", ["orion-o6-big", "orion-o6-mid"])
def test_bfloat16_takes_of_float32_what_a_modelled_a720_takes(soc, rows):
    """Of each network the same factor, which is that of all in float32; the inferred core keeps its own float32."""
    told = totals(priced_cores.steps(soc, rows))
    modelled = totals(row for row in rows if row.soc == priced_cores.BFLOATS_ON)
    networks = [network for unit, network in modelled if unit == "big@bf16"]
    factors = [told["big@bf16", network] / modelled["big@bf16", network] for network in networks]
    floats = sum(told["big", network] for network in networks) / sum(modelled["big", network] for network in networks)
    assert len(networks) >= 3 and max(factors) == pytest.approx(min(factors))
    assert factors[0] == pytest.approx(floats, rel=0.05)  # a grid is among those that made it
    assert told["big@bf16", "mobilenet"] < told["big", "mobilenet"] / 1.8  # nearly all is 1x1
