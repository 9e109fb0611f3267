"""What each ONNX operator means in canonical ops: one function per operator, opsets 6 to 28.

A function reads its node through the builder, which checks what it hands out, and emits one or several canonical
nodes; the last of them makes the ONNX node's own output, those on the way are called ``part``. They register
themselves where they are defined, in the files that are imported here.
"""

from . import (  # noqa: F401
    activations,
    attention,
    einsum,
    index,
    moves,
    normalise,
    pointwise,
    products,
    recurrent,
    reduce,
    resize,
    windows,
)
