"""Amounts as people read them."""

_GIB = 1024**3
_MIB = 1024**2


def memory_text(size_bytes: int) -> str:
    """Give bytes as `1.5 GiB`, below one tenth of that as `80 MiB`."""
    if size_bytes < _GIB // 10:
        return f"{size_bytes / _MIB:.0f} MiB"
    return f"{size_bytes / _GIB:.1f} GiB"


def cores_text(cores: float) -> str:
    """Give cores as `4` or `0.5`."""
    return f"{round(cores, 2):g}"


def counted(count: int, noun: str) -> str:
    """Give `1 node`, `2 nodes`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
