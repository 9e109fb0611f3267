"""Runs what is installed: a network on one component and as a pipeline. Prints machine, Python, NumPy, the top class.

python tools/try_install.py      the Python of the environment to try; pipeall of this folder is not seen
"""

import platform

import numpy as np

import pipeall

graph = pipeall.zoo.squeezenet()
x = np.random.default_rng(0).standard_normal(graph.inputs[0].shape, np.float32)
board = pipeall.Board.detect(gpu=False)
with pipeall.Engine(graph, "big", board=board, threads=1) as engine:
    y = engine(x)
assert abs(float(y.sum()) - 1) < 1e-5, y.sum()
if "little" in board.components:
    with pipeall.Pipeline(graph, "B-L:7", board=board) as pipe:
        assert all(np.allclose(again, y, rtol=1e-3, atol=1e-6) for again in pipe.map([x] * 4))
print(platform.machine(), platform.python_version(), np.__version__, int(y.argmax()))
