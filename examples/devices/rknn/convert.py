"""Slices to .rknn files by the vendor's tool: python convert.py FOLDER CHIP. Needs rknn-toolkit2; never run with it.

With recorded samples a slice is quantized to 8 bits, without any it stays in halves. One of a network that pipeall
quantized keeps its levels.
"""

import json
import sys
from pathlib import Path

import numpy as np


def samples(folder: Path, one: dict) -> Path | None:
    """The tool's list of samples: a line for each, with a file for every input."""
    if "npz" not in one:
        return None
    with np.load(folder / one["npz"]) as recorded:
        lines = []
        for sample in range(one["samples"]):
            files = [folder / f"{one['file']}.{place}.{sample}.npy" for place in range(len(one["inputs"]))]
            for file, tensor in zip(files, one["inputs"], strict=True):
                np.save(file, recorded[tensor["name"]][sample])
            lines.append(" ".join(str(file.resolve()) for file in files))
    listed = folder / f"{one['file']}.txt"
    listed.write_text("\n".join(lines) + "\n")
    return listed


def convert(folder: Path, one: dict, chip: str) -> None:
    from rknn.api import RKNN

    model, listed = folder / one["file"], samples(folder, one)
    again = listed is not None and all(end["type"] != "int8" for end in (*one["inputs"], *one["outputs"]))
    tool = RKNN()
    tool.config(target_platform=chip)
    steps = (
        lambda: tool.load_onnx(model=str(model)),
        lambda: tool.build(do_quantization=again, dataset=listed and str(listed)),
        lambda: tool.export_rknn(str(model.with_suffix(".rknn"))),
    )
    for step in steps:
        if step():
            sys.exit(f"{model}: rknn-toolkit2 refuses it")
    tool.release()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    for one in json.loads((folder / "manifest.json").read_text())["slices"]:
        convert(folder, one, sys.argv[2])
