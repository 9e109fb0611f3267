"""Model: a network, its task and its plan in one. Pictures, videos and cameras go in, answers come out."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arguments import a, checked, gone_through, one_of, optional, refused, whole
from ..errors import ArgumentError, PipelineError
from ..graph.ir import Graph
from ..graph.onnx.read.given import network
from ..graph.onnx.read.source import ModelSource
from ..picture import Picture, frame_of
from ..pipeline.boards.board import Board, board_of
from ..pipeline.live import DROPS, Stream
from ..pipeline.pipeline import Pipeline
from ..pipeline.planning.plan import Plan, plan_of
from ..tasks import DECODERS
from ..tasks.choose import Labels
from ..tasks.decoder import TASKS
from ..tasks.text_reader import reader
from .picture_answer import PictureAnswer

if TYPE_CHECKING:
    from ..quantization.quantize import Quantized


class Model:
    """A network that says what is in a picture: ``answer = pipeall.Model("yolox_nano.onnx")("photo.jpg")``.

    Starts the threads of a pipeline; ``close`` ends them, and so does leaving a ``with`` block. Any thread may ask for
    the answer of one picture. It pickles as its arguments: where no board and no plan were given, the copy chooses them
    on its own machine.

    Parameters
    ----------
    model : Graph or model
        The network, or the file that it is read from, as for ``load``.
    plan, board
        As for ``Pipeline``; default: chosen as there.
    task : str, optional
        classify, detect, segment, points, text or embed; default as recognized.
    decoder : str, optional
        One of ``tasks.DECODERS``; default as recognized. A row of numbers that nothing is known of is a classifier's.
    labels, threshold, iou, most
        As for ``tasks.task``.
    first_class : int
        Outputs of a classifier before its class 0.
    input : Picture, optional
        How the network wants pictures; default as such networks are trained.

    Raises
    ------
    PipeallError
        As ``load``, ``tasks.task`` and ``Pipeline``.
    """

    @checked(
        model=network,
        plan=optional(plan_of),
        board=optional(board_of),
        task=optional(one_of(*TASKS)),
        decoder=optional(one_of(*DECODERS)),
        most=optional(whole(1)),
        first_class=whole(0),
        input=optional(a(Picture, "a pipeall.Picture")),
    )
    def __init__(
        self,
        model: Graph | ModelSource,
        plan: Plan | str | Path | None = None,
        board: Board | str | Path | None = None,
        task: str | None = None,
        decoder: str | None = None,
        labels: Labels | None = None,
        threshold: float | None = None,
        iou: float | None = None,
        most: int | None = None,
        first_class: int = 0,
        input: Picture | None = None,
    ):
        self._arguments = (model, plan, board, task, decoder, labels, threshold, iou, most, first_class, input)
        self._reader = reader(model, task, decoder, labels, most, first_class, threshold=threshold, iou=iou)
        self._reader.picture = self._reader.picture if input is None else input
        self._board, self._plan = Board.detect() if board is None else board, plan
        self._lock = threading.Lock()  # one picture at a time
        self._stream: Stream | None = None  # of the source that is under way
        self._closed = False
        self._pipe = self._started("RGB")

    def __reduce__(self) -> tuple[Any, ...]:
        return Model, self._arguments

    def __repr__(self) -> str:
        return f"<Model {self._reader.task.decoder.task} of {self._pipe.about}>" if "_pipe" in vars(self) else "<Model>"

    @property
    def graph(self) -> Graph:
        """The network."""
        return self._arguments[0]

    @property
    def plan(self) -> Plan:
        """The plan that it runs by."""
        return self._pipe.plan

    @property
    def picture(self) -> Picture:
        """How the network wants pictures: ``input`` of Pipeline, Engine and ``quantize``."""
        return self._reader.picture

    def __call__(self, source: Any, drop: str | None = None) -> Any:
        """What the network says of a picture, or of each picture of a source.

        source  a picture gives its ``PictureAnswer``: the path of a photo, or uint8 (H, W, 3) in RGB.
                A list of pictures gives a list of answers.
                A folder, a video, ``camera:0``, ``rtsp://...``, and whatever gives pictures one after the other, gives
                an iterator of answers: in order, each as soon as it is ready
        drop    what happens to a frame where the source is faster, as for ``Pipeline.stream``: ``oldest`` or ``none``;
                None: ``oldest`` for a camera and a stream, else ``none``

        A picture must not change until its answer is there. Raises ArgumentError for a source that is none or cannot be
        read, PipelineError after ``close``, and while the answers of another source are under way.
        """
        optional(one_of(*DROPS))("drop", drop)
        if isinstance(source, str | os.PathLike):
            return self._of_path(os.fspath(source), drop)
        if _is_picture(source):
            return self._answer(source)
        answers = self._answers(_pictures(_several(source)), "RGB", drop or "none")
        return list(answers) if isinstance(source, list | tuple) else answers

    def pictures(self, source: Any) -> Iterator[np.ndarray]:
        """The pictures of a source, uint8 (H, W, 3) in RGB: with ``input=model.picture`` what ``quantize`` takes."""
        one = isinstance(source, str | os.PathLike) or _is_picture(source)
        return map(np.asarray, _pictures([source] if one else _several(source)))

    def quantize(self, source: Any, **options: Any) -> Quantized:
        """The network with 8-bit integers, calibrated on the pictures of a source, prepared as for its answers.

        Parameters
        ----------
        source
            As for ``pictures``.
        options
            Of ``pipeall.quantize``.
        """
        from ..quantization.quantize import quantize

        task = self._reader.task
        return quantize(self.graph, self.pictures(source), input=self.picture, task=task, **options)

    def close(self) -> None:
        """Ends its threads, and the source that is under way. A second call does nothing."""
        self._closed = True
        if stream := self._stream:
            stream.close()
        self._pipe.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _of_path(self, path: str, drop: str | None) -> Any:
        from .sources import Frames, find  # needs Pillow

        sources = find([path], recursive=False)
        live = any(source.kind == "live" for source in sources)
        drop = drop or ("oldest" if live else "none")
        frames = Frames(sources, paced=drop == "oldest")
        if [source.name for source in sources] == [path] and sources[0].kind == "photo":
            return self._answer(next(iter(frames)))
        return self._answers(frames, frames.layout, drop)

    def _answer(self, frame: Any) -> PictureAnswer:
        with self._lock:
            pipe = self._ready("RGB")
            while pipe.pending:  # a call that was interrupted left its frame
                pipe.result()
            outputs = pipe.compute(frame)
        placed = self.picture.placed(frame_of(frame, "RGB")[1], self._reader.task.size)
        return PictureAnswer.of(self._reader(outputs, placed), frame)

    def _answers(self, frames: Iterable[Any], layout: str, drop: str) -> Iterator[PictureAnswer]:
        with self._lock:
            self._stream = stream = self._ready(layout).stream(frames, drop, self._reader)
        try:
            for seen in stream:
                yield PictureAnswer.of(seen.result, seen.frame)
        finally:
            stream.close()
            self._stream = None

    def _ready(self, layout: str) -> Pipeline:
        """The pipeline, for frames of this pixel format."""
        if self._closed:
            raise PipelineError("the model is closed: expected calls before close()")
        if self._stream is not None:
            raise PipelineError("a source is under way: expected its answers to be taken, or their iterator closed")
        if self._layout != layout:
            self._pipe.close()
            self._pipe = self._started(layout)
        return self._pipe

    def _started(self, layout: str) -> Pipeline:
        self._layout = layout
        return Pipeline(self.graph, self._plan, self._board, input=self._reader.fed(layout))


def _is_picture(source: Any) -> bool:
    """Whether NumPy sees one array in it."""
    return hasattr(source, "__array_interface__") or hasattr(source, "__array__")


def _several(source: Any) -> Any:
    try:
        return gone_through("source", source)
    except ArgumentError:
        raise refused(
            "source", "a path, a picture as uint8 (H, W, 3), or pictures one after the other", source
        ) from None


def _pictures(items: Iterable[Any]) -> Iterator[Any]:
    """Pictures as they are, and those of files; all in RGB."""
    for item in items:
        if not isinstance(item, str | os.PathLike):
            yield item
            continue
        from .sources import Frames, find  # needs Pillow

        for frame in Frames(find([os.fspath(item)], recursive=False)):
            yield frame if frame.pixels.ndim == 3 else replace(frame, pixels=frame.rgb)
