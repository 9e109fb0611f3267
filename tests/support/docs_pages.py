"""Pages of the documentation as a reader types them: blocks of Python and of shell in order, in a folder of their own.

A comment that readers do not see says what a page has and what does not run:

    <!-- files: net.onnx photos/ -->    the page says that one has these; ``FILES`` makes them
    <!-- not run: needs a camera -->    the next block does not run
    <!-- slow: trains a network -->     the next block runs with ``--sweep`` alone

A block of TOML whose first line is ``# NAME.toml`` becomes that file.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from commands import invoke

ROOT = Path(__file__).resolve().parents[2]

# What makes a command short, behind its other options; measured figures are not what is looked at.
SHORT = {
    "profile": "--seconds 0.005",
    "search": "--seconds 0.005 --verify 0",
    "bench": "--seconds 0.02 --turns 1",
    "simulate": "--frames 50",
    "cost threads": "--seconds 0.05",
    "nas": "--samples 40 --generations 1 --population 3 --budget 3",
    "train scaling": "--models S --seconds 0.02 --rounds 1",
}
MPI = shutil.which("mpirun")


class Block(NamedTuple):
    """A fenced block: ``line`` is that of its first line, from 1; ``unrun`` and ``slow`` say why it does not run."""

    language: str
    line: int
    text: str
    unrun: str | None
    slow: str | None

    @property
    def commands(self) -> Iterator[str]:
        """Of a console: what is typed."""
        for line in self.text.replace("\\\n", " ").splitlines():
            if line.startswith("$ "):
                yield line[2:]


def blocks(page: Path) -> list[Block]:
    found: list[Block] = []
    fence, marks = None, {}
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if fence is None and (start := re.match(r"\s*(`{3,}|:{3,})(.*)", line)):
            fence, language, inside = start[1], start[2].strip(), []
        elif fence is not None and line.strip() == fence:
            text = "\n".join(inside)
            found.append(Block(language, number - len(inside), text, marks.get("not run"), marks.get("slow")))
            fence, marks = None, {}
        elif fence is not None:
            inside.append(line)
        elif line:
            comment = re.fullmatch(r"<!-- (not run|slow): (.+) -->", line)
            marks = {comment[1]: comment[2]} if comment else {}
    assert fence is None, f"{page}: a block has no end"
    return found


def run(page: Path, folder: Path, slow: bool) -> None:
    """Runs the page in the folder, which is the working directory; ``slow``: with blocks that take long."""
    text = page.read_text()
    listed = re.search(r"<!-- files: (.+) -->", text)
    for name in listed[1].split() if listed else ():
        FILES[name](folder / name)
    namespace = {"__name__": "snippets"}
    for block in blocks(page):
        if block.unrun or (block.slow and not slow):
            continue
        where = f"{page.relative_to(ROOT)}:{block.line}"
        if block.language == "python":
            lines = "\n" * (block.line - 1) + block.text  # a traceback has the page's own line
            exec(compile(lines, str(page), "exec"), namespace)
        elif block.language == "toml" and (name := re.match(r"# (\S+\.toml)\n", block.text)):
            (folder / name[1]).write_text(block.text)
        elif block.language == "console":
            for command in block.commands:
                _type(command, where, text)


def _type(command: str, where: str, page: str) -> None:
    """Types a line of shell that calls pipeall; others are not this package's, and nobody's camera is here.

    What mpirun asks for beside it here, the page tells its readers.
    """
    words = shlex.split(command)
    variables = dict(word.split("=", 1) for word in words if re.match("[A-Z_]+=", word))
    words = words[len(variables) :]
    if "camera:0" in words:
        return
    if words[0] == "pipeall" and not variables:
        short = next((options for name, options in SHORT.items() if words[1:][: len(name.split())] == name.split()), "")
        done = invoke(*words[1:], *short.split())
        code, text = done.exit_code, done.stdout[-500:] + done.stderr[-1500:]
    elif words[0] == "pipeall" or (words[0] == "mpirun" and MPI):
        place = words.index("pipeall")
        more = [*(["--allow-run-as-root"] if os.geteuid() == 0 else []), "--oversubscribe"] if place else []
        assert all(f"`{option}`" in page for option in more), f"{where}: the page does not say that it may need {more}"
        ranks = ["mpirun", *more, *words[1:place]] if place else []
        line = [*ranks, sys.executable, "-m", *words[place:]]
        done = subprocess.run(line, env=os.environ | variables, capture_output=True, text=True, timeout=600)
        code, text = done.returncode, done.stdout[-500:] + done.stderr[-1500:]
    else:
        return
    assert code == 0, f"{where}: {command}\n{text}"


def _network(path: Path) -> None:
    """SqueezeNet, for any file of a classifier."""
    import pipeall

    pipeall.save_onnx(pipeall.zoo.squeezenet(), path)


def _photo(path: Path) -> None:
    from PIL import Image

    random = np.random.default_rng(len(path.name))
    Image.fromarray(random.integers(0, 256, (240, 320, 3), np.uint8)).save(path)


def _photos(path: Path) -> None:
    path.mkdir(parents=True)
    for name in ("a.jpg", "b.jpg"):
        _photo(path / name)


def _examples(path: Path) -> None:
    path.symlink_to(ROOT / "examples")


def _names(path: Path) -> None:
    path.write_text("".join(f"n{number:08} thing {number}\n" for number in range(1000)))


def _table(path: Path) -> None:
    """Numbers: six features, then what follows from them."""
    random = np.random.default_rng(0)
    rows = random.standard_normal((60, 9))
    rows[:, 6:] = rows[:, :3] + rows[:, 3:6]
    np.savetxt(path, rows, delimiter=",", fmt="%.4f")


def _pictures(path: Path) -> None:
    """Small pictures of ten classes, as CIFAR-10."""
    random = np.random.default_rng(0)
    x, y = random.integers(0, 256, (60, 3, 32, 32), np.uint8), np.arange(60) % 10
    np.savez(path, x_train=x[:40], y_train=y[:40], x_test=x[40:], y_test=y[40:])


def _detector(path: Path) -> None:
    """A YOLOX of three convolutions: it sees something of COCO everywhere."""
    from onnx import TensorProto, helper, numpy_helper

    random, rows, side = np.random.default_rng(0), 85, 96
    nodes, weights, parts = [], [numpy_helper.from_array(np.array([1, rows, -1]), "shape")], []
    for stride in (8, 16, 32):
        kernel = random.standard_normal((rows, 3, stride, stride), np.float32) / stride / 100
        weights.append(numpy_helper.from_array(kernel, f"w{stride}"))
        nodes += [
            helper.make_node("Conv", ["images", f"w{stride}"], [f"c{stride}"], strides=[stride, stride]),
            helper.make_node("Sigmoid", [f"c{stride}"], [f"s{stride}"]),
            helper.make_node("Reshape", [f"s{stride}", "shape"], [f"r{stride}"]),
        ]
        parts.append(f"r{stride}")
    nodes += [
        helper.make_node("Concat", parts, ["all"], axis=2),
        helper.make_node("Transpose", ["all"], ["output"], perm=[0, 2, 1]),
    ]
    ends = [("images", [1, 3, side, side]), ("output", [1, 189, rows])]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in ends)
    graph = helper.make_graph(nodes, "yolox", [x], [y], weights)
    opset = helper.make_opsetid("", 17)
    path.write_bytes(helper.make_model(graph, opset_imports=[opset], ir_version=8).SerializeToString())


def _species(path: Path) -> None:
    """A classifier of six classes for 32 x 32."""
    from graphs import Net

    import pipeall

    net = Net((1, 3, 32, 32))
    scores = net.op("softmax", net.fc(net.global_pool(net.conv("x0", 24, k=3)), 6), axis=1)
    pipeall.save_onnx(net.graph(scores, name="species"), path)


def _animals(path: Path) -> None:
    """Two pictures of each of two classes."""
    for kind in ("cat", "dog"):
        _photos(path / kind)


def _video(path: Path) -> None:
    """Eight frames of noise."""
    import av

    random = np.random.default_rng(0)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for _ in range(8):
            frame = av.VideoFrame.from_ndarray(random.integers(0, 256, (48, 64, 3), np.uint8))
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


def _quantized(path: Path) -> None:
    import pipeall

    photos = [np.random.default_rng(0).standard_normal((1, 3, 224, 224), np.float32)]
    pipeall.quantize(pipeall.zoo.squeezenet(), photos, method="minmax").save(path)


FILES: dict[str, Callable[[Path], None]] = {
    "net.onnx": _network,
    "model.onnx": _network,
    "resnet50.onnx": _network,
    "net.int8.onnx": _quantized,
    "photos/": _photos,
    "animals/": _animals,
    "examples": _examples,
    "cat.jpg": _photo,
    "dog.jpg": _photo,
    "street.jpg": _photo,
    "yolox_nano.onnx": _detector,
    "detector.onnx": _detector,
    "species.onnx": _species,
    "street.mp4": _video,
    "synset_words.txt": _names,
    "my_names.txt": _names,
    "names.txt": lambda path: path.write_text("".join(f"thing {number}\n" for number in range(80))),
    "houses.csv": _table,
    "weather.csv": _table,
    "cifar10.npz": _pictures,
}
