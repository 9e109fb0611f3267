"""What a network costs, as plain data: the same for JSON, CSV, text and figures."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..files import write_text
from ..graph.ir import Graph, Node, Tensor
from . import conventions, residence, size_precision, training
from .conv_algorithms import algorithm_costs
from .count import Cost, cost_of, network_cost, total
from .residence import arena, slot_bytes
from .scalability import Law, fit
from .size_network import FLOAT_BYTES, Network, layers_of, of_graph

FIGURES = ("parameters", "macs", "flops", "element_ops", "weight_bytes", "read_bytes", "written_bytes")
COLUMNS = ("layer", "op", "output", *FIGURES, "intensity")
TERM = ("term", "meaning", "quantity", "factor", "value", "beyond_macs")


def figures(cost: Cost) -> dict[str, Any]:
    """A cost as numbers by name."""
    return {name: getattr(cost, name) for name in FIGURES} | {"intensity": round(cost.intensity, 3)}


def network_report(network: Network) -> dict[str, Any]:
    """Name, inputs, outputs, totals and memory of a network from its shapes alone."""
    each, fixed = training.saved_bytes(network)
    space = training.space(network)
    return {
        "name": network.name,
        "inputs": [tensor_row(Tensor(name, network.shapes[name])) for name in network.inputs],
        "outputs": [tensor_row(Tensor(name, network.shapes[name])) for name in network.outputs],
        "totals": figures(network_cost(network)) | {"statistics": network.elements(network.statistics)},
        "memory": {
            "model_bytes": space.model,
            "data_bytes_per_sample": space.data,
            "activation_bytes_per_sample": space.activations,
            "saved_for_backward_bytes_per_sample": each,
            "saved_for_backward_bytes_fixed": fixed,
        },
        "notes": list(network.notes),
    }


def tensor_row(tensor: Tensor) -> dict[str, Any]:
    return {key: getattr(tensor, key) for key in ("name", "shape", "dtype", "elements")}


def layer_rows(network: Network) -> list[dict[str, Any]]:
    return [
        {"layer": layer.name, "op": layer.op, "output": network.shapes[layer.outputs[0]]}
        | figures(cost_of(network, layer))
        for layer in network.layers
    ]


def parts_of(graph: Graph) -> Callable[[Iterable[Node]], Cost]:
    """Nodes of a graph -> their cost together."""
    network = of_graph(graph)
    return lambda nodes: total(cost_of(network, layer) for node in nodes for layer in layers_of(node, graph))


def stage_memory(stage: Graph) -> dict[str, int]:
    """Bytes of a sub-graph on any component: weights as the model has them, arena, a slot of each ring beside it."""
    planned = arena(stage)
    before, after = slot_bytes(stage)
    return {
        "weight_bytes": sum(array.nbytes for array in stage.constants.values()),
        "arena_bytes": planned.planned,
        "arena_bytes_naive": planned.naive,
        "arena_bytes_least": planned.least,
        "slot_in_bytes": before,
        "slot_out_bytes": after,
    }


def convention_report(network: Network, convention: str) -> dict[str, Any]:
    """The count of a tool, and each term beside the same term of plain MACs."""
    terms = conventions.explained(network, convention)
    return {
        "convention": convention,
        "value": conventions.counted(network, convention),
        "macs": conventions.counted(network, "macs"),
        "terms": [{name: getattr(term, name) for name in TERM} for term in terms],
    }


def algorithm_rows(network: Network) -> list[dict[str, Any]]:
    """A row for each convolution and algorithm: operations and bytes, and what they are beside the direct one's."""
    costs = ((layer, algorithm_costs(network, layer)) for layer in network.layers)
    return [
        {
            "layer": layer.name,
            "algorithm": choice.algorithm,
            "flops": round(choice.flops),
            "prepare_flops": round(choice.prepare),
            "activation_bytes": choice.activations,
            "weight_bytes": choice.weights,
            "fewer_operations": algorithms[0].flops / choice.flops,
            "fewer_with_prepare": algorithms[0].flops / (choice.flops + choice.prepare),
            "more_activations": choice.activations / algorithms[0].activations,
            "more_weights": choice.weights / algorithms[0].weights,
        }
        for layer, algorithms in costs
        for choice in algorithms[1:]
    ]


def format_rows(network: Network, graph: Graph | None, processor: str) -> list[dict[str, Any]]:
    """Bytes in each number format and the nominal rate on a processor; activations are the arena where there is one."""
    weights = network.elements((*network.parameters, *network.statistics))
    activations = training.space(network).activations if graph is None else arena(graph).planned
    rows = size_precision.formats(weights, activations // FLOAT_BYTES, processor)
    return [
        {"format": r.name, "weight_bytes": r.weight_bytes, "activation_bytes": r.activation_bytes, "rate": r.rate}
        for r in rows
    ]


def training_report(
    network: Network, optimizer: str, batch: int | None, memories: Mapping[str, float], share: float
) -> dict[str, Any]:
    """Memory of training by the lecture and exactly: at ``batch``, or at the largest that ``memories`` hold.

    Of two largest batches one is recommended. ``residence`` says where the bytes lie at the exact one.
    """
    exact, space = training.memory_function(network, optimizer), training.space(network)
    functions = {"lecture": space.bytes_at, "exact": lambda size: exact(size).total}
    report: dict[str, Any] = {"optimizer": optimizer}
    for name, function in functions.items():
        needs = residence.needs_of(function, space.model, space.data, "gpu" in memories)
        row: dict[str, Any] = {}
        chosen = batch
        if memories:
            fit = residence.largest_batch({m: needs[m] for m in memories}, memories, share)
            row["largest_batch"] = {
                "batch": fit.batch,
                "binding": fit.binding,
                "used_bytes": dict(fit.used),
                "limit_bytes": dict(fit.limits),
            }
            chosen = fit.batch if batch is None else batch
            row["shares"] = {m: needs[m](chosen) / size for m, size in memories.items()}
        row["batch"] = chosen
        row["bytes"] = function(chosen)
        report[name] = row
    if memories:
        report["recommended"] = {
            "batch": report["exact"]["largest_batch"]["batch"],
            "why": "the exact count has what autograd keeps, the weights' gradients and the optimizer's states; the "
            "lecture's rule leaves the last two out and counts every activation twice",
        }
    chosen = report["exact"]["batch"]
    memory = exact(chosen)
    lie = {"disk": space.model, "cpu": 0, "gpu": 0} | {name: need(chosen) for name, need in needs.items()}
    report["residence"] = {f"{name}_bytes": size for name, size in lie.items()}
    report["exact"]["parts"] = {f"{name}_bytes": getattr(memory, name) for name in memory.__slots__}
    return report


def epoch_report(
    network: Network,
    samples: int,
    disk: str,
    bus: str | None,
    mac_rate: float,
    channels: tuple[int, int, int],
    sample_type: str,
    prefetch: bool,
    trains: bool,
) -> dict[str, Any]:
    """Seconds of an epoch of samples of the network's own size, of ``sample_type`` on disk and float32 on the bus, and
    those that the model takes once, over the same ways."""
    elements = network.elements(network.inputs)
    epoch = residence.Epoch(
        samples,
        residence.SAMPLE_TYPES[sample_type] * elements,
        network_cost(network).macs,
        disk_rate=residence.link_rate(disk),
        bus_rate=None if bus is None else residence.link_rate(bus),
        mac_rate=mac_rate,
        moved_bytes=FLOAT_BYTES * elements,
        parallel=residence.channels(*channels),
        prefetch=prefetch,
        training=trains,
    )
    seconds = ("load_s", "transfer_s", "compute_s", "total_s", "bottleneck", "training", "prefetch")
    model = network.nbytes((*network.parameters, *network.statistics))
    once = {
        "model_load_s": model / epoch.disk_rate,
        "model_transfer_s": model / epoch.bus_rate if epoch.bus_rate else 0.0,
    }
    return {name: getattr(epoch, name) for name in seconds} | {"sample_type": sample_type, **once}


def threads_report(network: str, times: Mapping[int, list[float]], samples: int = 1) -> dict[str, Any]:
    """Median and fastest latency, throughput by the median, and the law where there are three numbers of threads.

    ``samples`` of a call: "fps" is how many of them a second.
    """
    rows = [
        {"threads": count, "median_ms": _median(taken), "least_ms": min(taken), "fps": 1e3 * samples / _median(taken)}
        for count, taken in times.items()
    ]
    law = fit({row["threads"]: row["fps"] for row in rows}) if len(rows) >= 3 else None
    best = law.best(len(rows)) if law else max(rows, key=lambda row: row["fps"])["threads"]
    return {"network": network, "rows": rows, "law": _law(law), "best_threads": best}


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def _law(law: Law | None) -> dict[str, float | None] | None:
    if law is None:
        return None
    peak = law.peak if law.crosstalk else None
    return {"serial": law.serial, "crosstalk": law.crosstalk, "peak_threads": peak}


def write_csv(path: str, rows: list[dict[str, Any]]) -> None:
    """One line a layer, sizes of the output joined by "x". Raises ArgumentError naming the file."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow(row | {"output": "x".join(map(str, row["output"]))})
    write_text(path, text.getvalue())
