"""What a network's outputs mean, in the picture's own pixels: classes, boxes, masks, points, text, vectors.

find = pipeall.tasks.task(graph)                      # recognized, or task(graph, decoder="yolox")
placed = find.picture.placed((height, width), find.size)
answer = find(engine(x), placed)                      # answer.boxes, answer.to_json()
"""

from .answer import Answer, Box, Class, Mask, Text
from .choose import Task, task
from .decoder import DECODERS, Decoder, recognized
from .labels import COCO_IDS
from .text import cut_out

__all__ = [
    "COCO_IDS",
    "DECODERS",
    "Answer",
    "Box",
    "Class",
    "Decoder",
    "Mask",
    "Task",
    "Text",
    "cut_out",
    "recognized",
    "task",
]
