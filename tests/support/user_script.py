"""A user's script that uses every public name: ``test_paper_cuts`` runs ``mypy --strict`` on it, nobody runs it."""

import asyncio
from pathlib import Path

import numpy as np
import numpy.typing as npt

import pipeall

Array = npt.NDArray[np.float32]


def load(path: Path) -> pipeall.Graph:
    try:
        graph = pipeall.load(path.read_bytes(), input_shape={"x": (1, 3, 32, 32)}, outputs=["y"])
    except (pipeall.ModelError, pipeall.MissingExtraError) as error:
        raise SystemExit(str(error)) from None
    entering: tuple[pipeall.Tensor, ...] = graph.inputs
    print(entering, graph, graph.groups[0].nodes, [cut.tensors[0].nbytes for cut in graph.cuts], graph.inputs[0].shape)
    if not graph.nodes:
        return pipeall.demo.text_reader((1, 3, 48, 320)) if path.name == "text" else pipeall.zoo.squeezenet()
    return pipeall.load(str(path))


def plan_it(graph: pipeall.Graph, board: pipeall.Board) -> pipeall.Plan:
    profile: pipeall.Profile = pipeall.profile(graph, board, ["big", "little"], seconds=0.5)
    profile.save("net.json")
    found: pipeall.SearchResult = pipeall.search(
        graph, pipeall.Profile.load("net.json"), "throughput", max_latency_ms=50.0
    )
    simulated: pipeall.Simulation = pipeall.simulate(profile, found.best, frames=100)
    verified: pipeall.Verification = pipeall.verify(found, board, top=2)
    fps: float = simulated.fps + verified.rows[0].fps + found.ranked[0].prediction.fps
    print(fps, verified.refused)
    verified.best.save("plan.json")
    plan: pipeall.Plan = pipeall.Plan.load("plan.json")
    return plan


def run(graph: pipeall.Graph, plan: pipeall.Plan, frames: list[Array]) -> float:
    with pipeall.Engine("net.onnx") as engine, pipeall.Pipeline(graph, plan, slots=2) as pipe:
        first = engine(frames[0])
        assert isinstance(first, np.ndarray)
        number: int = pipe.submit({"x": frames[0]}, timeout=1.0).number
        try:
            pipe.result(timeout=0.1)
        except pipeall.PipelineTimeoutError:
            print("late", number)
        except pipeall.PipelineError as error:
            print(error.stage, error.component, error.frame)
        for y in pipe.map(frames):
            print(y["y"].shape if not isinstance(y, np.ndarray) else y.shape)
        stats: pipeall.Stats = pipe.stats()
        return stats.fps + engine.stats().latency_p50_ms


def pruned(graph: pipeall.Graph, photos: list[Array]) -> float:
    made: pipeall.Pruned = pipeall.prune(graph, photos, sparsity=0.5)
    made.save("pruned.onnx")
    return made.report.zeros


def quantized(graph: pipeall.Graph, photos: list[Array]) -> pipeall.Graph:
    made: pipeall.Quantized = pipeall.quantize(
        graph, photos, method="auto", max_drop=0.01, layers=True, journal="net.journal"
    )
    made.save("net.int8.onnx")
    error: float = made.report.error
    gain: float | None = made.report.layers[0].gain
    print(error, gain)
    return made.graph


def sized(graph: pipeall.Graph) -> int:
    size: pipeall.Size = pipeall.cost(graph)
    print(size.total.macs, size.notes, pipeall.cost("net.onnx", (1, 3, 32, 32)).memory(8, "adam").total)
    return size.largest_batch(16e9, "momentum")


def more(graph: pipeall.Graph, plan: pipeall.Plan, profile: pipeall.Profile, board: pipeall.Board) -> None:
    pipeall.save_onnx(pipeall.with_picture(graph, pipeall.Picture()), "net.onnx")
    photo = np.zeros((480, 640, 3), np.uint8)
    with pipeall.Model("yolox.onnx", threshold=0.4) as model, pipeall.View(port=8080) as view:
        answer: pipeall.PictureAnswer = model(photo)
        answer.save("seen.jpg")
        print([box.name for box in answer.boxes], answer.draw().shape, view.address)
        pipeall.quantize(model.graph, model.pictures("photos"), input=model.picture)
    lines: list[str] = pipeall.explain(profile, plan).lines()
    pipeall.write_slices(graph, [(1, 2)], "slices", [photo])
    pipeall.testing.check_device("big", board)
    memory: int = sum(stage.total for stage in pipeall.footprint(graph, plan, board))
    fps: float = pipeall.compare(graph, [plan], board)[0].median("fps")
    slower: tuple[str, ...] = pipeall.compare_modes(graph, board, profile, ["big", "little"]).slower
    print(slower, pipeall.measure_all(graph, board, ["big"], plan, journal="every.json")["configurations"])
    layers: tuple[str, ...] = pipeall.mixed_precision(graph, [photo]).layers
    units: tuple[str, ...] = pipeall.allowed_precisions(graph, ["big"], ["fp32"]).units
    print(lines, memory, fps, layers, units, isinstance(board.model, pipeall.BoardModel))


async def watch(path: Path, camera: list[npt.NDArray[np.uint8]]) -> list[str]:
    graph = pipeall.keep_float32(pipeall.load(path), ["conv1"])
    task = pipeall.tasks.task(graph, "yolox", threshold=0.4)
    picture: pipeall.Picture = task.picture
    found = []
    with pipeall.Pipeline(graph, input=picture) as pipe:
        async for seen in pipe.stream(camera, drop="oldest", task=task):
            found.append(f"{seen.number}: {seen.result.to_json()} after {seen.latency_ms:.1f} ms")
        print(pipe.stats().dropped)
    return found


def several(det: Path, rec: Path, camera: list[npt.NDArray[np.uint8]]) -> dict[str, float]:
    see, name = pipeall.tasks.task(pipeall.load(det)), pipeall.tasks.task(pipeall.load(rec), task="classify")
    profiles = {"det": pipeall.Profile.load("det.json"), "rec": pipeall.Profile.load("rec.json")}
    demands = {"det": pipeall.Demand(fps=15, priority=2, max_latency_ms=80), "rec": pipeall.Demand()}
    plans = {name: pipeall.Plan.parse("B-L:1") for name in profiles}
    plan = pipeall.SchedulePlan(plans, demands, {"det": 15.0, "rec": None})
    simulated: pipeall.ScheduleSimulation = pipeall.simulate_schedule(profiles, plan)
    graphs = {"det": pipeall.load(det), "rec": pipeall.load(rec)}
    profiles = pipeall.profile_together(graphs)
    searched: pipeall.ScheduleSearch = pipeall.schedule_search(graphs, profiles, demands)
    print(searched.gain, searched.gap, searched.plan == plan)
    near, far = pipeall.Tee(camera, 2)
    crops = pipeall.Crops(["cat"], margin=0.1)
    pictures = {"input": name.picture}
    with pipeall.Schedule(
        {"det": (det, {"fps": 15, "input": see.picture}), "rec": (rec, pictures)}, plan=plan
    ) as schedule:
        detected = crops.of(schedule["det"].stream({"near": near, "far": far}, task=see))
        for network, seen in pipeall.Merged({"det": detected, "rec": schedule["rec"].stream(crops, task=name)}):
            print(network, seen.number, seen.latency_ms)
        print(schedule.stats()["det"].fps)
    return {network: one.fps for network, one in simulated.networks.items()}


def examined() -> bool:
    found: pipeall.Diagnosis = pipeall.doctor(self_test=False)
    print(found, [fault.remedy for fault in found.faults])
    return found.ok


async def main() -> None:
    board = pipeall.Board.detect(gpu=False)
    graph = load(Path("net.onnx"))
    try:
        plan = plan_it(graph, board)
    except (pipeall.ArgumentError, pipeall.DeviceError) as error:
        print(error)
        plan = pipeall.Plan.parse("B-L:1")
    except pipeall.PipeallError:
        plan = pipeall.Plan.balanced(["big", "little"], graph)
    frames = [np.zeros(graph.inputs[0].shape, np.float32) for _ in range(3)]
    print(await watch(Path("yolox.onnx"), [np.zeros((480, 640, 3), np.uint8)]))
    print(await asyncio.to_thread(run, graph, plan, frames), pipeall.__version__)


if __name__ == "__main__":
    asyncio.run(main())
