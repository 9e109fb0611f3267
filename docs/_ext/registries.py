"""Tables of the reference, made from the package's own registries: operators, kernels, variables, boards."""

from __future__ import annotations

import re
from dataclasses import fields
from functools import partial
from pathlib import Path

from generated import Generated
from onnx import defs
from results import table
from sphinx.application import Sphinx

import pipeall
from pipeall.env import VARIABLES
from pipeall.graph.onnx.read.build import OPERATORS
from pipeall.graph.onnx.read.convert import SUPPORTED
from pipeall.graph.onnx.read.fold import FOLD
from pipeall.graph.onnx.read.read import OPSETS
from pipeall.graph.ops import OPS
from pipeall.picture import Picture
from pipeall.tasks import DECODERS, Decoder
from pipeall.tasks.decoder import TASKS

PACKAGE = Path(pipeall.__file__).parent
KERNELS = PACKAGE / "_kernels" / "cpu" / "kernels.inc"
_KERNEL = re.compile(r"PA_KERNEL\(([^)]*)\)")
BOARDS = PACKAGE / "pipeline" / "boards" / "models"
PROCESSORS = {"__x86_64__": "x86-64", "__aarch64__": "aarch64"}


class Operators(Generated):
    """The ONNX operators that pipeall reads, and the canonical ops that devices compute."""

    def markdown(self) -> str:
        rows = [
            (
                f"`{name}`",
                "1" if "." in name else f"{first_opset(name)} to {OPSETS[1]}",
                ", ".join(f"`{word}`" for word in sorted(entry.attributes)) or "-",
                entry.limits or "-",
            )
            for name, entry in sorted(OPERATORS.items())
            if name in SUPPORTED
        ]
        return (
            f"## ONNX operators\n\nOpsets {OPSETS[0]} to {OPSETS[1]} of ONNX's own domain; other domains below.\n\n"
            + table(("ONNX operator", "opsets", "attributes", "limits"), rows)
            + "## Evaluated while a model is read\n\n"
            + "These run on constants, whatever their attributes: "
            + ", ".join(f"`{name}`" for name in sorted(FOLD))
            + ". Any other operator of ONNX's own domain runs on constants too, by the reference implementation in the "
            + "onnx package, slowly; and one that ONNX defines by others is read as those.\n\n## Canonical ops\n\n"
            + f"A network that was read is made of {len(OPS)} ops. Every device computes each of them: "
            + ", ".join(f"`{name}`" for name in OPS)
            + ".\n"
        )


def first_opset(name: str) -> int:
    """The first opset that has the operator, not counting those that are too old to be read."""
    domain = ("", "ai.onnx")
    versions = [s.since_version for s in defs.get_all_schemas_with_history() if s.name == name and s.domain in domain]
    return max(OPSETS[0], min(versions, default=1))


class Decoders(Generated):
    """What each task has, family by family."""

    def markdown(self) -> str:
        parts = []
        for task in TASKS:
            entries = [entry for entry in DECODERS.values() if entry.task == task]
            rows = [
                (f"`{e.name}`", e.about, e.threshold or "-", _picture(e.picture)) for e in sorted(entries, key=_name)
            ]
            parts.append(f"## {task}\n\n" + table(("decoder", "reads", "least score", "pictures"), rows))
        return "".join(parts)


def _name(entry: Decoder) -> str:
    return entry.name


def _picture(picture: Picture) -> str:
    """What is not as in ``Picture()``."""
    plain = Picture(channels=picture.channels)
    changed = {f.name: getattr(picture, f.name) for f in fields(Picture) if f.name != "channels"}
    texts = [f"{name} {_short(value)}" for name, value in changed.items() if value != getattr(plain, name)]
    return ", ".join((picture.channels, *texts))


def _short(value: object) -> str:
    return ", ".join(f"{number:g}" for number in dict.fromkeys(value)) if isinstance(value, tuple) else str(value)


class Environment(Generated):
    """Every PIPEALL_* variable."""

    def markdown(self) -> str:
        rows = [(f"`{variable.name}`", variable.meaning, variable.default) for variable in VARIABLES]
        return table(("variable", "meaning", "default"), rows)


class Kernels(Generated):
    """kernels.inc, a table for each processor. The names of its columns are those of the comment at its head."""

    def markdown(self) -> str:
        columns, tables = kernels()
        return "".join(f"## {processor}\n\n{table(columns, rows)}" for processor, rows in tables.items())


def kernels() -> tuple[list[str], dict[str, list[list[str]]]]:
    """The columns of the list of kernels, and its lines by processor."""
    columns, *text = re.split(r"(?=#define)", KERNELS.read_text(), maxsplit=1)
    tables: dict[str, list[list[str]]] = {}
    processor = portable = "every processor"
    for line in _without_macros("".join(text)).splitlines():
        if guard := re.match(r"#\s*(?:if|elif).*defined\((\w+)\)", line):
            processor = PROCESSORS[guard[1]]
        elif re.match(r"#\s*endif", line):
            processor = portable
        for cells in _KERNEL.findall(line):
            tables.setdefault(processor, []).append(_cells(cells))
    return _cells(_KERNEL.findall(columns)[0]), tables


def _without_macros(text: str) -> str:
    """The list with its macros replaced by what they stand for."""
    macros = re.findall(r"#define (\w+)\(([^)]*)\) (.*)", text := text.replace("\\\n", ""))
    text = re.sub(r"#define.*", "", text)
    for name, parameters, body in reversed(macros):  # a macro uses those above it
        text = re.sub(rf"\b{name}\(([^)]*)\)", partial(_expanded, parameters, body), text)
    return text


def _expanded(parameters: str, body: str, use: re.Match[str]) -> str:
    given = dict(zip(_cells(parameters), _cells(use[1]), strict=True))
    return re.sub(r"\s*##\s*", "", re.sub(r"\b[a-z]+\b", lambda word: given.get(word[0], word[0]), body))


def _cells(text: str) -> list[str]:
    return [cell.strip() for cell in text.split(",")]


class Boards(Generated):
    """The board models that come with the package."""

    def markdown(self) -> str:
        return "".join(_board(path.stem) for path in sorted(BOARDS.glob("*.json")))


def _board(name: str) -> str:
    content = pipeall.Board.load(name).model.to_dict()
    power = content["mean_power_w"]
    parts = [
        (f"`{part}`", row["core_type"], row["count"], row["max_mhz"], power.get(part))
        for part, row in content["components"].items()
    ]
    errors = content["leave_one_out_errors"]
    networks = sorted({network for row in errors.values() for network in row})
    misses = [(f"`{unit}`", *(_percent(row.get(network)) for network in networks)) for unit, row in errors.items()]
    measured = ", ".join(network["profile"]["network"] for network in content["networks"]) or "none"
    likely = ", ".join(f"`{unit}` {100 * error:.0f} %" for unit, error in content.get("error", {}).items())
    priced = "by prices of pipeall's own steps" if content.get("step_prices") else "by a regression"
    about = [f"- **{key}**: {'; '.join(lines)}\n" for key, lines in content["about"].items()]
    return (
        f"## {name}\n\n"
        + table(("component", "cores", "count", "MHz", "mean power, W"), parts, numbers=(2, 3, 4))
        + f"Measured networks: {measured}. Idle, the board draws {content['idle_w'] or 'an unknown number of'} W.\n\n"
        + (f"In four of five cases times are not further off than: {likely}.\n\n" if likely else "")
        + f"Error of a whole network, in percent, predicted {priced} that were fitted without it:\n\n".replace(
            "regression that were", "regression that was"
        )
        + table(("unit", *networks), misses, numbers=range(1, len(networks) + 1))
        + "Where the figures come from:\n\n"
        + "".join(about)
        + "\n"
    )


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:+.1f}"


def setup(app: Sphinx) -> dict[str, bool]:
    for name, directive in (
        ("decoders", Decoders),
        ("operators", Operators),
        ("environment", Environment),
        ("kernels", Kernels),
        ("boards", Boards),
    ):
        app.add_directive(name, directive)
    return {"parallel_read_safe": True}
