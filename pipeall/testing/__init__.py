"""What a package outside tests its own parts with: ``check_device`` for a device."""

from .device_check import check_device as check_device

__all__ = ["check_device"]
