"""A video through a network: ``pipeall run`` beside the pipeline alone, and beside what decoding leaves of two cores.

    pip install '.[cli,onnx,video]'
    python -m bench.pipelines.video [MODEL.onnx] [--rounds 5] [--seconds 10]

A 1920 x 1080 film in H.264 is made of photos that pan; it is as long as --seconds. The whole program reads, decodes,
fits, computes and finds the boxes; the pipeline alone gets the same frames, decoded before. Both use all cores. Of the
cores' time the decoder takes its share whatever runs beside it: no program that shares them can do better than "bound".
"""

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

import av
import numpy as np
from PIL import Image

from bench.common import DATA, Record, in_turns, parser, ratios
from pipeall import Board, Pipeline, load, profile, search, tasks

RATE, SHOT = 30, 30  # frames a second, and of each photo
SIDES = (1080, 1920)
DECODED = 40  # frames that the pipeline alone gets in turn: 124 MB
COLUMNS = (
    "codec", "decode [core ms] .2f", "pipeline alone [FPS] .1f", "whole program [FPS] .1f", "of the pipeline [x] .3f",
    "bound [x] .3f",
)  # fmt: skip
ENCODERS = {"libx264": {"preset": "medium"}, "mpeg4": {"b": "4M"}}


def film(path: Path, codec: str, frames: int) -> None:
    photos = sorted((DATA / "scenes").glob("*.jpg"))
    if not photos:
        sys.exit(f"{DATA / 'scenes'}: expected photos, got none")
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=RATE, options=ENCODERS[codec])
        stream.height, stream.width = SIDES
        stream.pix_fmt = "yuv420p"
        for number in range(frames):
            shot, at = divmod(number, SHOT)
            if at == 0:
                larger = Image.open(photos[shot % len(photos)]).convert("RGB").resize((SIDES[1] + 180, SIDES[0] + 120))
                photo = np.asarray(larger)
            part = np.ascontiguousarray(photo[2 * at : 2 * at + SIDES[0], 3 * at : 3 * at + SIDES[1]])
            container.mux(stream.encode(av.VideoFrame.from_ndarray(part, format="rgb24")))
        container.mux(stream.encode())


def decoding(path: Path) -> float:
    """Core ms of a frame, decoded by one thread and given away."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type = "NONE"
        begin = time.process_time()
        count = sum(1 for _ in container.decode(stream))
        return 1e3 * (time.process_time() - begin) / count


def whole(model: str, path: Path, plan: str) -> float:
    """Frames a second of ``pipeall run``, decoding included, a process of its own."""
    command = [sys.executable, "-m", "pipeall", "run", model, str(path), "--plan", plan, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])["with_decoding"]["fps"]


def alone(pipe: Pipeline, frames: list[np.ndarray], count: int) -> float:
    begin = time.perf_counter()
    for _ in pipe.map(itertools.islice(itertools.cycle(frames), count)):
        pass
    return count / (time.perf_counter() - begin)


def main() -> None:
    arguments = parser(__doc__, rounds=5, seconds=10)
    arguments.add_argument("model", nargs="?", default=str(DATA / "edge" / "yolox_nano_416.onnx"), metavar="MODEL")
    options = arguments.parse_args()
    board, graph = Board.detect(gpu=False), load(options.model)
    plan = search(graph, profile(graph, board), plans="pipelines").best
    fed = replace(tasks.task(graph).picture, frames="I420")
    with (
        tempfile.TemporaryDirectory() as folder,
        Record(options, *COLUMNS, board=board) as record,
        Pipeline(graph, plan, board, input=fed) as pipe,
    ):
        for codec in ENCODERS:
            path = Path(folder) / f"{codec}.mp4"
            film(path, codec, round(RATE * options.seconds))
            with av.open(str(path)) as container:
                frames = [frame.to_ndarray() for frame in itertools.islice(container.decode(video=0), DECODED)]
            runs = {
                "decode": partial(decoding, path),
                "alone": partial(alone, pipe, frames, round(RATE * options.seconds)),
                "whole": partial(whole, options.model, path, str(plan)),
            }
            found = in_turns(runs, options.rounds)
            decode, fps, program = (median(found[key]) for key in runs)
            share = median(ratios(found["whole"], found["alone"]))
            bound = 1 / (1 + fps * decode / 1e3 / len(os.sched_getaffinity(0)))
            record.add(codec, decode, fps, program, share, bound)
        record.say(f"{graph.name}, {plan}; ratios round by round, medians of {options.rounds} rounds.")


if __name__ == "__main__":
    main()
