"""The networks of a stage: run one after the other, on what lies in slots, they make what the stage makes."""

import numpy as np
import pytest
from graphs import Net, inputs_of

from pipeall.graph.ops import run_graph
from pipeall.pipeline.devices.network_parts import network_parts
from pipeall.pipeline.lane import lowered_stages
from pipeall.pipeline.planning.plan import Plan
from pipeall.steps import SLOT_IN, SLOT_OUT


def net():
    """An early output, and a tensor that passes a group; six groups."""
    net = Net((1, 4, 6, 5))
    first = net.conv("x0", 8, 3)
    early = net.op("sigmoid", first)
    x = net.conv(net.conv(first, 8), 8)
    x = net.conv(net.op("add", x, first), 8, 3)
    return net.graph(early, net.fc(net.conv(x, 4), 7)).finer(2)


def run_parts(parts, given):
    """``given``: by base and name. Gives the same after the parts ran."""
    slots, inside = dict(given), {}
    for part in parts:
        inputs = {
            tensor.name: slots[part.reads[tensor.name].base, tensor.name]
            if tensor.name in part.reads
            else inside[tensor.name]
            for tensor in part.graph.inputs
        }
        made = run_graph(part.graph, inputs)
        inside |= {name: made[name] for name in part.keeps}
        slots |= {(place.base, name): made[name] for name, place in part.writes}
        slots |= {
            (target.base, target.tensor.name): slots[place.base, place.tensor.name] for place, target in part.passes
        }
        assert set(made) == {*part.keeps, *(name for name, _ in part.writes)}
    return slots


@pytest.mark.parametrize("by_group", [False, True])
@pytest.mark.parametrize(
    "plan", ["big", "big-little:2", "big-little-big:1,3", "big-little:2~4", "big-little-big:2~3,4~5"]
)
def test_they_make_what_the_stage_makes(plan, by_group):
    graph = net()
    stages = Plan.parse(plan).lanes[0]
    lowered = lowered_stages(graph, stages)
    slots = {(SLOT_IN, name): array for name, array in inputs_of(graph).items()}
    found = {}
    for number, part in enumerate(lowered):
        parts = network_parts(part, by_group)
        assert [one.step for one in parts] == sorted(one.step for one in parts)
        assert {one.segment for one in parts} <= {0, 1, 2} and any(one.segment == 1 for one in parts)
        slots = run_parts(parts, slots)
        found |= {slot.name: slots[SLOT_OUT, slot.name] for slot in part.leaves}
        if number < len(lowered) - 1:
            slots = {(SLOT_IN, name): array for (base, name), array in slots.items() if base == SLOT_OUT}
    found |= {slot.name: slots[SLOT_OUT, slot.name] for slot in lowered[-1].slot_out}
    expected = run_graph(graph, inputs_of(graph))
    assert expected.keys() <= found.keys()
    for name, wanted in expected.items():
        np.testing.assert_allclose(found[name], wanted, rtol=1e-12)


def test_frames_that_come_in_late_and_go_out_early():
    """What the stage before has made lies where the middle reads it; it makes what the next one reads."""
    graph = net()
    (_, middle, _) = lowered_stages(graph, Plan.parse("big-little-big:2~3,4~5").lanes[0])
    parts = [part for part in network_parts(middle) if part.segment == 1]
    everything = run_graph(graph, inputs_of(graph), all_tensors=True)
    reads = {
        place.tensor.name: place for part in parts for place in (*part.reads.values(), *(a for a, _ in part.passes))
    }
    slots = run_parts(parts, {(place.base, name): everything[name] for name, place in reads.items()})
    made = {name: array for (base, name), array in slots.items() if base == SLOT_OUT}
    assert made and {name for name in made} >= {tensor.name for tensor in graph.cuts[3].tensors}
    for name, array in made.items():
        np.testing.assert_allclose(array, everything[name], rtol=1e-12)


def test_a_part_of_a_group_each():
    graph = net()
    (whole,) = lowered_stages(graph, Plan.parse("big").lanes[0])
    assert len(network_parts(whole)) == 1 and len(network_parts(whole, by_group=True)) == len(graph.groups)
