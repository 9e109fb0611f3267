"""Event files of a training, which TensorBoard shows while it goes on."""

from __future__ import annotations

from ...errors import ArgumentError, missing_extra
from ...mlp.train import EpochResult, curves

try:
    from tensorboardX import SummaryWriter
except ModuleNotFoundError:
    raise missing_extra("tensorboardX", "tensorboard", "--tensorboard") from None


class EventFiles:
    """A file in a folder, to which each epoch adds its numbers at once."""

    def __init__(self, folder: str, done: int):
        """``done``: epochs before, whose followers in older files of the folder are not shown any more.

        Raises ArgumentError where the folder cannot be written.
        """
        try:
            # the suffix, as names have whole seconds alone
            self._writer = SummaryWriter(
                folder, purge_step=done + 1 if done else None, filename_suffix=f".from-{done + 1}"
            )
        except OSError as error:
            raise ArgumentError(f"--tensorboard: {folder}: cannot be written: {error.strerror}") from None

    def add(self, epoch: EpochResult) -> None:
        for panel, of in curves([epoch]).items():
            for name, (value,) in of.items():
                self._writer.add_scalar(f"{panel}/{name}", value, epoch.epoch)
        self._writer.add_scalar("rate", epoch.rate, epoch.epoch)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()
