"""The exceptions pipeall raises on purpose; each message is one line: what was expected, what came, what to do."""


class PipeallError(Exception):
    """Base of every error pipeall raises on purpose."""


class ArgumentError(PipeallError, ValueError):
    """A bad argument: shape, dtype, name, number. Also a ``ValueError``."""


class ModelError(PipeallError, ValueError):
    """A model file that is missing, corrupt, or uses something pipeall does not support."""


class DeviceError(PipeallError):
    """A component, kernel or driver that is missing or refused to work."""


class MissingExtraError(PipeallError, ImportError):
    """An optional package is needed; the message names the extra to install."""


class PipelineError(PipeallError):
    """A stage failed while the pipeline ran.

    ``stage`` (0-based index), ``component`` (name) and ``frame`` (number, from 0) say where.
    """

    def __init__(self, message: str, stage: int = -1, component: str = "", frame: int = -1):
        super().__init__(message)
        self.stage = stage
        self.component = component
        self.frame = frame


class PipelineTimeoutError(PipeallError, TimeoutError):
    """A submit or result did not come about within the time the caller gave."""


def missing_extra(package: str, extra: str, what: str) -> MissingExtraError:
    """The error for an absent optional package, e.g. ``missing_extra("onnx", "onnx", "reading .onnx files")``."""
    return MissingExtraError(f"{what} needs the package {package!r}: pip install 'pipeall[{extra}]'")
