"""Numbers of bytes and seconds as people read them."""

__all__ = ["bytes_text", "seconds_text"]


def bytes_text(count: int) -> str:
    """`512 B`, `36.1 KiB`, `1.20 GiB`."""
    if count < 1024:
        return f"{count} B"
    size = float(count)
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if size < 1000:
            return f"{size:.{2 if size < 10 else 1 if size < 100 else 0}f} {unit}"
    return f"{size / 1024:.2f} TiB"


def seconds_text(seconds: float) -> str:
    """`12.3 µs`, `4.56 ms`, `1.23 s`, `2 min 05 s`."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.2f} ms"
    if seconds < 60:
        return f"{seconds:.2f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60:02d} s"
