"""An object file to a static library as Apple's linker takes it, and libraries to an xcframework.

The format is BSD's: `!<arch>`, and before each member a header of 60 bytes. The first member,
`__.SYMDEF SORTED`, says which member defines a symbol; the linker refuses an archive without it.
"""

import plistlib
import struct
from collections.abc import Mapping

__all__ = ["framework_plist", "static_library"]

_MAGIC = b"!<arch>\n"
_INDEX = b"__.SYMDEF SORTED\0\0\0\0"


def static_library(name: str, data: bytes, symbol: str) -> bytes:
    """An archive of one object that defines one symbol (as C has it, without the underscore)."""
    strings = b"_" + symbol.encode() + b"\0"
    strings += bytes(-len(strings) % 8)
    # Where the object's header will be: behind the magic and the index.
    index_size = 4 + 8 + 4 + len(strings)
    at = len(_MAGIC) + 60 + len(_INDEX) + index_size
    at += at % 2
    index = struct.pack("<IIII", 8, 0, at, len(strings)) + strings
    return _MAGIC + _member(_INDEX, index) + _member(_padded_name(name), data)


def _member(name: bytes, data: bytes) -> bytes:
    """A member with its name before its data, as `#1/LENGTH` announces."""
    size = len(name) + len(data)
    head = f"#1/{len(name):<13}{0:<12}{0:<6}{0:<6}{'100644':<8}{size:<10}`\n"
    return head.encode() + name + data + b"\n" * (size % 2)


def _padded_name(name: str) -> bytes:
    """The name with zeros behind it, so that the data begins at a multiple of 8."""
    data = name.encode()
    # 60 bytes of header before it.
    return data + bytes(-(len(data) + 60) % 8 or 8)


def framework_plist(libraries: Mapping[str, tuple[str, str]]) -> bytes:
    """`Info.plist` of an xcframework: folder → (platform, the library's file name)."""
    return plistlib.dumps(
        {
            "AvailableLibraries": [
                {
                    "LibraryIdentifier": folder,
                    "LibraryPath": library,
                    "SupportedArchitectures": ["arm64"],
                    "SupportedPlatform": platform,
                }
                for folder, (platform, library) in libraries.items()
            ],
            "CFBundlePackageType": "XFWK",
            "XCFrameworkFormatVersion": "1.0",
        }
    )
