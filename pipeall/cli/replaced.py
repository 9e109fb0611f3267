"""Options of earlier versions: a command refuses them and says how they are written now."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import ArgumentError

OPTIONS = {  # command -> option that is gone -> what to write instead
    "run": {
        "--order": "--plan G-B-L",
        "--cuts": "--plan G-B-L:3,5",
        "--partition-point": "--plan G-B:3",
        "--partition-point2": "--plan G-B-L:3,5",
        "--threads": "--plan Bx2-L:3",
    },
    "train": {"--rate": "--lr"},
    "bench": {"--floating": "a row that is always there"},
    "profile": {
        "--layers": "pipeall profile layers MODEL",
        "--tune-gpu": "pipeall profile tune MODEL",
        "--board-report": "pipeall profile board -o FILE",
    },
}
KEYS = {  # command -> option that held several values -> key -> its option, where that is not --KEY
    "run": {"--task": {}, "--preprocess": {}},
    "quantize": {"--preprocess": {}},
    "search": {"--precisions": {}},
    "train": {
        "--hidden": {},
        "--output": {},
        "--epochs": {},
        "--optimizer": {
            "rate": "--lr",
            "decay": "--weight-decay",
            "every": "--step-epochs",
            "factor": "--step-factor",
        },
        "--mode": {"width": "--ghost-width", "gradient": "--ghost-gradient"},
        "--engine": {},
    },
    "nas": {
        "--space": {},
        "--target": {"fps": "--target-fps", "weight": "--target-weight"},
        "--training": {
            "rates": "--lr",
            "smoothing": "--label-smoothing",
            "decay": "--weight-decay",
            "warm": "--pretrained",
        },
        "--evolution": {"lam": "--lambda"},
        "--prune": {"below": "--prune-below", "reward": "--prune-reward"},
    },
}


def refuse_replaced(command: str, options: Sequence[str], words: Sequence[str]) -> None:
    """Raises ArgumentError where the words of a command have an option, or a value, of an earlier version.

    Parameters
    ----------
    command : such as "run" or "cost train".
    options : that the command has.
    words : its arguments.
    """
    for place, word in enumerate(words):
        option, equals, value = word.partition("=")
        if not equals:
            value = words[place + 1] if place + 1 < len(words) else ""
        if (new := OPTIONS.get(command, {}).get(option)) is not None:
            raise ArgumentError(f"{option} is now {new}")
        renamed = KEYS.get(command, {}).get(option)
        if renamed is not None and (option not in options or ":" in value or "=" in value):
            new = translated(option, value, renamed, option in options)
            raise ArgumentError(f"{option} {value} is now {new}")


def translated(option: str, value: str, renamed: dict[str, str], stays: bool) -> str:
    """The options for "caffe:resize=256,mean=1/2/3"; ``stays``: whether what stands ahead of the keys has one."""
    head, colon, text = value.partition(":")
    parts = text.split(",") if colon else [word for word in value.split(",") if "=" in word or not stays]
    if not colon:
        head = ",".join(word for word in value.split(",") if word not in parts)
    words = [option, head] if head else []
    for part in parts:
        key, equals, content = part.partition("=")
        words.append(renamed.get(key.replace("_", "-"), f"--{key.replace('_', '-')}"))
        words += [content.replace("/", ",") if set(content) <= set("0123456789./-e") else content] if equals else []
    return " ".join(words)
