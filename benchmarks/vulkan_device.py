"""Which Vulkan device is here, for pages that say what was measured on it."""

from edgec import runtime

__all__ = ["vulkan_device"]


def vulkan_device(otherwise: str) -> str:
    """The name of the first usable one, or what a page says where there is none."""
    usable = [each for each in runtime.devices() if each.driver == "vulkan" and each.usable]
    return usable[0].name if usable else otherwise
