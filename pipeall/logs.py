"""Loggers under "pipeall": why each choice was made, at DEBUG. Nothing is shown unless the program sets logging up."""

from __future__ import annotations

import logging

logging.getLogger("pipeall").addHandler(logging.NullHandler())


def logger(module: str) -> logging.Logger:
    """The logger of a module, by its ``__name__``."""
    return logging.getLogger(module)
