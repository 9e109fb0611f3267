"""Boards in half precision and on integers: typed prices, units that have them, plans and emulators of these."""

from dataclasses import replace

import numpy as np
import pytest
from graphs import Net, frames, small_net, zoo_net
from integer_nets import chain

from pipeall import ArgumentError, Board, Pipeline, Plan, keep_float32, simulate
from pipeall.graph.lower.lower import lower
from pipeall.graph.partition import subgraph
from pipeall.graph.passes.dequantize import dequantized
from pipeall.graph.passes.int8 import to_int8
from pipeall.pipeline.boards.models import price_list, step_work
from pipeall.pipeline.boards.models.board_model import BoardModel
from pipeall.pipeline.boards.models.price_list import PriceList
from pipeall.pipeline.boards.models.regression import Regression
from pipeall.pipeline.planning.predict import predict

HALVES, INTEGERS = 0.5, 0.25  # of the time of a float's kernel that does the same
FLOAT_TIME = (1.0,) * len(step_work.FEATURES)


def priced(factor):
    return tuple(factor * price for price in FLOAT_TIME)


@pytest.fixture(scope="module")
def typed():
    """The RK3588 with prices that are plain to compare: a step of halves and of integers costs a share of a float's."""
    model = Board.load("rk3588").model
    kernels = {f"{type_}{kernel}": priced(factor) for type_, factor in (("", 1.0), ("f16:", HALVES), ("s8:", INTEGERS))
               for kernel in (price_list.CONV, price_list.OTHER)}  # fmt: skip
    big = PriceList(3.0, kernels | {"half-gemv": priced(HALVES)}, "dotprod")
    little = PriceList(3.0, {kernel: row for kernel, row in kernels.items() if ":" not in kernel})
    error = {"big": 0.2, "big@int8": 0.4, "little": 0.1, "gpu": 0.3}
    return Board(
        (), gpu=False, model=replace(model, pricing={**model.pricing, "big": big, "little": little}, error=error)
    )


@pytest.fixture(scope="module")
def quantized():
    return to_int8(chain())


def total(model, graph, unit):
    return sum(model.profile(graph, [unit]).units[unit].ms)


@pytest.mark.parametrize("precision, type_, dtype", [("fp16", "f16:", "float16"), ("int8", "s8:", "int8")])
def test_kernels_have_the_type_that_they_make(precision, type_, dtype, quantized):
    graph = quantized if precision == "int8" else small_net()
    steps = lower(subgraph(graph, 0, len(graph.groups)), fp16=precision == "fp16").steps
    found = step_work.works(graph, integers="neon", precision=precision)
    assert [work.kernel.startswith(type_) for work in found] == [step.dst.dtype == dtype for step in steps]
    assert any(work.kernel.startswith(type_) for work in found)


def test_halves_have_half_of_the_bytes_between_layers():
    floats, halves = (step_work.works(zoo_net("mobilenet"), precision=precision) for precision in ("", "fp16"))
    written = {work.node: work.features[4] for work in floats if work.kernel.startswith("depthwise")}
    of_halves = {work.node: work.features[4] for work in halves if work.kernel.startswith("f16:depthwise")}
    assert len(written) == 13 and of_halves == {node: size / 2 for node, size in written.items()}


def test_a_type_without_a_kernels_price_takes_its_nearest():
    prices = PriceList(
        1.0, {name: (float(i),) * 8 for i, name in enumerate(("gemm", "other", "f16:gemm", "f16:other"))}
    )
    for kernel, nearest in (
        ("winograd 4", "gemm"), ("f16:winograd 4", "f16:gemm"), ("f16:maxpool 3x3", "f16:other"),
        ("s8:depthwise 3x3", "gemm"), ("s8:quantize", "other"),
    ):  # fmt: skip
        assert prices.price_of(kernel) == prices.kernels[nearest]


@pytest.mark.parametrize(("precision", "kernel"), [("", "gemv"), ("mixed", "half-gemv"), ("fp16", "gemv-halves")])
def test_layers_of_one_pixel_have_a_kernel_for_each_precision(precision, kernel):
    net = Net((1, 3, 5, 5))
    graph = net.graph(net.fc(net.conv("x0", 4, k=3), 30))
    (last,) = [work for work in step_work.works(graph, precision=precision) if work.node == graph.nodes[-1].name]
    assert last.kernel == kernel and last.features[2] == (4 if precision == "" else 2) * 30 * 100 / 1e6
    kept = step_work.works(keep_float32(graph, [last.node]), precision=precision)[-1].kernel
    assert kept == ("gemv" if precision == "fp16" else kernel)


def test_units_are_those_that_have_prices(typed, quantized):
    default = ["big", "little", "gpu", "cpu"]
    others = ["big@fp32", "big@fp16", "big@mixed", "little@fp32", "gpu@fp16", "cpu@fp32"]
    whole = [unit for unit in typed.model.units(small_net()) if not unit.cores]
    assert whole == [*default, *others]
    assert {unit.whole for unit in typed.model.units(quantized)} == {*default, *others, "big@int8"}
    assert list(typed.model.profile(small_net()).units) == default
    lacks = r"unit 'little@fp16': expected one of the model rk3588 \(nothing known of its Cortex-A55 in fp16\): big, "
    with pytest.raises(ArgumentError, match=lacks):
        typed.model.profile(small_net(), ["little@fp16"])


@pytest.mark.parametrize("name", ["a311d", "rk3399", "rk3588", "rk3566", "rk3576", "orion-o6", "rk3399pro"])
def test_a_gpu_takes_a_share_of_its_time_in_half_precision(name):
    """A network that the RK3399Pro timed, and one that it did not."""
    model = Board.load(name).model
    for graph in (zoo_net("mobilenet"), small_net()):
        profile = model.profile(graph, ["big", "gpu", "gpu@fp16"])
        floats, halves = (np.array(profile.units[unit].ms) for unit in ("gpu", "gpu@fp16"))
        np.testing.assert_allclose(halves, model.pricing["gpu"].factors["fp16"] * floats)
        assert 1 / 4 < model.pricing["gpu"].factors["fp16"] < 1 and profile.units["gpu@fp16"].power_w is None
        assert profile.error["gpu@fp16"] == model.error["gpu@fp16"]
        plan = predict(profile, Plan.parse("B-G@fp16:1"))
        assert plan.stage_ms[0][1] < predict(profile, Plan.parse("B-G:1")).stage_ms[0][1]
    assert "gpu@fp16" not in model.profile(small_net()).error


@pytest.mark.parametrize(("name", "unit"), [("a311d-armcl", "gpu@fp16"), ("rk3588", "gpu@mixed"), ("rpi5", "gpu@fp16")])
def test_a_precision_that_nobody_published_is_refused(name, unit):
    model = Board.load(name).model
    gpu = model.components.get("gpu")
    what = f" (nothing known of its {gpu.core_type} in {unit[4:]})" if gpu else ""
    with pytest.raises(ArgumentError) as caught:
        model.profile(small_net(), [unit])
    assert str(caught.value).startswith(f"unit '{unit}': expected one of the model {name}{what}: big, ")


def test_ncnns_times_of_gpus_are_of_half_precision():
    model = Board.load("rk3588", library="ncnn").model
    profile = model.profile(zoo_net("mobilenet"), ["gpu", "gpu@fp16"])
    assert sum(profile.units["gpu@fp16"].ms) == sum(profile.units["gpu"].ms) == pytest.approx(9.2)


def test_precisions_have_their_own_prices(typed, quantized):
    graph = zoo_net("mobilenet")
    assert total(typed.model, graph, "big@fp32") == total(typed.model, graph, "big")
    assert total(typed.model, graph, "big@fp16") < (HALVES + 0.1) * total(typed.model, graph, "big")
    assert total(typed.model, quantized, "big") == total(typed.model, quantized, "big@int8")
    assert total(typed.model, quantized, "big") < total(typed.model, quantized, "big@fp32")
    floats = step_work.works(quantized, precision="fp32")  # a list without prices of integers
    assert not any(work.kernel.startswith("s8:") for work in floats)
    little = typed.model.pricing["little"].group_ms(step_work.GroupWork(floats, len(quantized.groups)))
    assert typed.model.profile(quantized).units["little"].ms == pytest.approx(tuple(little))


def test_a_gpu_computes_a_quantized_network_in_floats(typed, quantized):
    by_bytes_written = (0.0, 0.0, 0.0, 0.0, 1.0, 0.0)
    model = replace(typed.model, pricing={**typed.model.pricing, "gpu": Regression(by_bytes_written)})
    floats = sum(tensor.nbytes for tensor in dequantized(quantized).tensors.values()) / 1e6
    assert 0.8 * floats < sum(model.profile(quantized).units["gpu"].ms) <= floats  # the input is not written


def test_errors_are_those_of_what_computes(typed, quantized):
    units = ["big", "big@fp16", "little"]
    assert typed.model.profile(small_net(), units).error == {"big": 0.2, "big@fp16": 0.2, "little": 0.1}
    assert typed.model.profile(quantized).error == {"big": 0.4, "little": 0.1, "gpu": 0.3}


def test_contention_and_links_hold_in_every_precision(typed):
    graph = small_net()
    profile = typed.model.profile(graph, ["big", "big@fp16", "little"])
    np.testing.assert_array_equal(profile.slowdown("big@fp16", "little"), profile.slowdown("big", "little"))
    np.testing.assert_array_equal(profile.slowdown("little", "big@fp16x2"), profile.slowdown("little", "big"))
    assert profile.slowdown("big@fp16", "little").min() > 1
    np.testing.assert_array_equal(profile.handover("big@fp16", "little"), profile.handover("big", "little"))
    assert profile.handover("big@fp16", "little")[1].min() > 0
    plan, floats = Plan.parse("B@fp16-L:2"), Plan.parse("B-L:2")
    assert predict(profile, plan).stage_ms[0][1] == predict(profile, floats).stage_ms[0][1]
    assert simulate(profile, plan, 50).fps >= simulate(profile, floats, 50).fps


@pytest.mark.parametrize("plan", ["big@fp16-little:2", "big@mixed", "gpu-big@fp32:1"])
def test_an_emulated_board_runs_plans_in_other_precisions(plan, typed):
    graph = small_net()
    inputs = frames(graph, 3)
    with Pipeline(graph, "big") as pipe:
        expected = list(pipe.map(inputs))
    with Pipeline(graph, plan, board=typed, time_scale=0.01) as pipe:
        for found, known in zip(pipe.map(inputs), expected, strict=True):
            np.testing.assert_allclose(found, known, rtol=0.01, atol=1e-3)  # weights of halves: 2^-11 of each


def test_a_file_keeps_the_instruction_set_of_integers(typed, tmp_path):
    typed.model.save(tmp_path / "board.json")
    found = BoardModel.load(tmp_path / "board.json")
    assert found.pricing["big"].integers == "dotprod" and found.pricing["little"].integers is None
    content = typed.model.to_dict()
    content["step_prices"]["big"]["integers"] = "abacus"
    with pytest.raises(ArgumentError, match="integers: expected one of neon, dotprod, "):
        BoardModel.from_dict(content, "board.json")
