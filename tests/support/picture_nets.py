"""A network that gives back what it reads of a picture."""

from pipeall import Engine, Graph
from pipeall.graph.ir import Node, Tensor
from pipeall.graph.ops import attributes


def network(size, channels=3, layout="NCHW"):
    """Gives its input back."""
    x = Tensor("x", (1, channels, *size) if layout == "NCHW" else (1, *size, channels))
    node = Node("n", "clip", ("x",), "y", attributes("clip", lo=-1e9, hi=1e9))
    return Graph("as it is", (node,), {"x": x, "y": named_y(x)}, {}, (x,), (named_y(x),))


def seen(frame, picture, size, board, threads=1, layout="NCHW"):
    """What the network reads of a frame, as (H, W, channels)."""
    channels = 1 if picture.channels == "GRAY" else 3
    with Engine(network(size, channels, layout), "big", board, threads, input=picture) as engine:
        y = engine(frame)[0]
    return y.transpose(1, 2, 0) if layout == "NCHW" else y


def named_y(tensor):
    return Tensor("y", tensor.shape, tensor.dtype)
