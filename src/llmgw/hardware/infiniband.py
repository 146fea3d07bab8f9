"""InfiniBand and RoCE adapters, from /sys/class/infiniband.

A tree is a mapping of paths below that folder to what the files hold: captures of other machines read like our own.
Files are taken loosely, for drivers leave some out, leave them empty, or fill them oddly.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from llmgw.schema.fabric import Port

CLASS = Path("/sys/class/infiniband")
OMNI_PATH = "Omni-Path"
"""It calls its link layer InfiniBand, but is no InfiniBand network: its adapters talk to their own kind only."""
_FILES = ("state", "phys_state", "rate", "link_layer", "sm_lid", "gid_attrs/ndevs/0")
_PORT = re.compile(r"^(?P<hca>[^/]+)/ports/(?P<number>\d+)/")
_RATE = re.compile(r"^(\d+(?:\.\d+)?)\s*Gb/sec")
_CODE = re.compile(r"^\d+:\s*")


def read_tree(root: Path = CLASS) -> dict[str, str]:
    """Read what `ports` needs; empty on a machine without adapters. May block while a driver asks its firmware."""
    tree: dict[str, str] = {}
    for hca in _names(root):
        _add(tree, root, f"{hca}/board_id")
        for interface in _names(root / hca / "device" / "net"):
            tree[f"{hca}/device/net/{interface}"] = ""
        for number in _names(root / hca / "ports"):
            for name in _FILES:
                _add(tree, root, f"{hca}/ports/{number}/{name}")
    return tree


def parse_ports(tree: Mapping[str, str]) -> tuple[Port, ...]:
    """Give the ports of all adapters, by adapter and number; `mlx5_2` comes before `mlx5_10`."""
    found = {(match["hca"], int(match["number"])) for match in map(_PORT.match, tree) if match is not None}
    return tuple(_port(tree, hca, number) for hca, number in sorted(found, key=lambda one: (natural(one[0]), one[1])))


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """Give a key that sorts numbers within names by value."""
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name) if part)


def _port(tree: Mapping[str, str], hca: str, number: int) -> Port:
    def text(name: str) -> str | None:
        return tree.get(f"{hca}/ports/{number}/{name}", "").strip() or None

    layer = text("link_layer")
    is_omni_path = hca.startswith("hfi1_") or OMNI_PATH in tree.get(f"{hca}/board_id", "")
    return Port(
        hca=hca,
        number=number,
        state=_word(text("state")),
        phys_state=_word(text("phys_state")),
        rate_gbps=_rate(text("rate")),
        link_layer=OMNI_PATH if is_omni_path else layer,
        sm_lid=_number(text("sm_lid")),
        interfaces=_interfaces(tree, hca, text("gid_attrs/ndevs/0")),
    )


def _interfaces(tree: Mapping[str, str], hca: str, own: str | None) -> tuple[str, ...]:
    """Give the port's own interface where the driver says it, else those of the whole adapter."""
    if own is not None:
        return (own,)
    start = f"{hca}/device/net/"
    return tuple(sorted((path.removeprefix(start) for path in tree if path.startswith(start)), key=natural))


def _word(text: str | None) -> str | None:
    """Give `ACTIVE` of `4: ACTIVE`."""
    return None if text is None else _CODE.sub("", text)


def _rate(text: str | None) -> float | None:
    """Give 400 of `400 Gb/sec (4X NDR)`."""
    match = _RATE.match(text or "")
    return None if match is None else float(match[1])


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text, 0)
    except ValueError:
        return None


def _names(folder: Path) -> Iterator[str]:
    try:
        yield from sorted(path.name for path in folder.iterdir())
    except OSError:
        return  # no such adapter, or none of its kind


def _add(tree: dict[str, str], root: Path, path: str) -> None:
    try:
        tree[path] = (root / path).read_text(errors="replace")
    except OSError:
        return  # drivers leave files out, and refuse to read those of unused table entries
