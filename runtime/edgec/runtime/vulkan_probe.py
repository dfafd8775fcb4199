"""The Vulkan loader asked directly, through ctypes: which devices there are and what they lack.

IREE's runtime reports a device that it cannot use as absent. This names the version or feature
that is missing. Loading a driver runs foreign code in the process, so this is for a child.
"""

import ctypes
from dataclasses import dataclass

__all__ = ["LOADER", "VulkanDevice", "enumerate_devices", "load_loader"]

LOADER = "libvulkan.so.1"
_NEEDED_VERSION = (1, 2)
_INSTANCE_INFO, _APPLICATION_INFO, _FEATURES_2 = 1, 0, 1000059000
# Features that IREE's runtime needs: the structure that asks for each (one boolean each).
_FEATURES = {
    "timelineSemaphore": 1000207000,
    "scalarBlockLayout": 1000221000,
    "synchronization2": 1000314007,
}


@dataclass(frozen=True, kw_only=True)
class VulkanDevice:
    """One physical device; `lacks` names what IREE's runtime needs and it has not."""

    name: str
    version: tuple[int, int]
    lacks: tuple[str, ...]


class _ApplicationInfo(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int32),
        ("next", ctypes.c_void_p),
        ("application_name", ctypes.c_char_p),
        ("application_version", ctypes.c_uint32),
        ("engine_name", ctypes.c_char_p),
        ("engine_version", ctypes.c_uint32),
        ("api_version", ctypes.c_uint32),
    )


class _InstanceInfo(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int32),
        ("next", ctypes.c_void_p),
        ("flags", ctypes.c_uint32),
        ("application", ctypes.POINTER(_ApplicationInfo)),
        ("layer_count", ctypes.c_uint32),
        ("layers", ctypes.c_void_p),
        ("extension_count", ctypes.c_uint32),
        ("extensions", ctypes.c_void_p),
    )


class _Feature(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int32),
        ("next", ctypes.c_void_p),
        ("value", ctypes.c_uint32),
    )


class _Features2(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int32),
        ("next", ctypes.c_void_p),
        ("features", ctypes.c_uint32 * 64),
    )


def load_loader() -> ctypes.CDLL | None:
    """The loader's library, or None where it is not installed."""
    try:
        return ctypes.CDLL(LOADER)
    except OSError:
        return None


def enumerate_devices(loader: ctypes.CDLL) -> tuple[VulkanDevice, ...] | int:
    """All physical devices, or the Vulkan error code with which the loader refused."""
    application = _ApplicationInfo(type=_APPLICATION_INFO, api_version=1 << 22 | 3 << 12)
    info = _InstanceInfo(type=_INSTANCE_INFO, application=ctypes.pointer(application))
    instance = ctypes.c_void_p()
    code = int(loader.vkCreateInstance(ctypes.byref(info), None, ctypes.byref(instance)))
    if code != 0:
        return code
    try:
        count = ctypes.c_uint32()
        loader.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), None)
        handles = (ctypes.c_void_p * count.value)()
        loader.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), handles)
        return tuple(_describe(loader, ctypes.c_void_p(handle)) for handle in handles)
    finally:
        loader.vkDestroyInstance(instance, None)


def _describe(loader: ctypes.CDLL, handle: ctypes.c_void_p) -> VulkanDevice:
    # VkPhysicalDeviceProperties: apiVersion first, deviceName at byte 20; 824 bytes in all.
    properties = ctypes.create_string_buffer(4096)
    loader.vkGetPhysicalDeviceProperties(handle, properties)
    packed = int.from_bytes(properties.raw[:4], "little")
    version = (packed >> 22 & 0x7F, packed >> 12 & 0x3FF)
    name = properties.raw[20:276].split(b"\0")[0].decode(errors="replace")
    lacks = []
    if version < _NEEDED_VERSION:
        lacks.append(f"Vulkan {_NEEDED_VERSION[0]}.{_NEEDED_VERSION[1]}")
    if version >= (1, 1):
        lacks += _missing_features(loader, handle)
    return VulkanDevice(name=name, version=version, lacks=tuple(lacks))


def _missing_features(loader: ctypes.CDLL, handle: ctypes.c_void_p) -> list[str]:
    features = _Features2(type=_FEATURES_2)
    asked = {name: _Feature(type=kind) for name, kind in _FEATURES.items()}
    last: _Features2 | _Feature = features
    for feature in asked.values():
        last.next = ctypes.addressof(feature)
        last = feature
    loader.vkGetPhysicalDeviceFeatures2(handle, ctypes.byref(features))
    return [name for name, feature in asked.items() if not feature.value]
