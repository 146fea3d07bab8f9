"""What real machines' captures read as: each whole capture is an inventory, each fragment goes to its own parser."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from llmgw.hardware.fabrics import with_ports
from llmgw.hardware.infiniband import parse_ports
from llmgw.hardware.mounts import covering, is_shared, parse_mountinfo
from llmgw.schema.fabric import Fabric, Port

FIXTURES = Path(__file__).parents[1] / "fixtures" / "hardware"
ADAPTERS = sorted(FIXTURES.rglob("*.sysfs.json"))
MOUNTS = sorted(FIXTURES.rglob("*mountinfo.txt"))

Golden = Callable[[str, str], None]


def port_line(port: Port) -> str:
    rate = "?" if port.rate_gbps is None else f"{port.rate_gbps:g} Gb/s"
    manager = "?" if port.sm_lid is None else str(port.sm_lid)
    return f"{port.hca}:{port.number}  {port.state}  {port.phys_state}  {rate}  {port.link_layer}  sm_lid {manager}"


def fabric_lines(fabric: Fabric) -> Iterable[str]:
    rate = "unknown" if fabric.rate_gbps is None else f"{fabric.rate_gbps:g} Gb/s"
    yield f"> a fabric of {', '.join(fabric.hcas)}: {rate}"
    yield from (f"  ! {warning}" for warning in fabric.warnings)


@pytest.mark.parametrize("path", ADAPTERS, ids=lambda path: path.name)
def test_the_adapters_of_a_machine(path: Path, golden: Golden) -> None:
    ports = parse_ports(json.loads(path.read_text()))
    names = tuple(dict.fromkeys(port.hca for port in ports))
    pairs = [names, *((first, second) for first in names[:1] for second in names[1:] if len(names) < 6)]
    fabrics = [with_ports(Fabric(name="named", hcas=hcas), ports) for hcas in pairs]
    lines = [*map(port_line, ports), "", *(line for fabric in fabrics for line in fabric_lines(fabric))]
    golden(f"hardware/{path.name.removesuffix('.sysfs.json')}.txt", "\n".join(lines))


@pytest.mark.parametrize("path", MOUNTS, ids=lambda path: path.name)
def test_the_mounts_of_a_machine(path: Path, golden: Golden) -> None:
    mounts = parse_mountinfo(path.read_text())
    lines = []
    for mount in mounts:
        kind = "shared" if is_shared(mount.fstype, mount.source, mount.options) else "local"
        covered = covering(mounts, mount.point)
        hidden = "" if covered is mount else "  (below a later one)"
        lines.append(
            f"{kind:6}  {mount.fstype:13} {mount.device:6} {mount.source}[{mount.root}] on {mount.point}{hidden}"
        )
    assert len(lines) == len(path.read_text().strip().splitlines()), "each line is a mount"
    golden(f"hardware/{path.stem}.txt", "\n".join(lines))


def test_mounts_of_filesystems_that_others_see(golden: Golden) -> None:
    """Fragments of mount tables as people send them: source, point, type and options."""
    lines = []
    for line in (FIXTURES / "synthetic/mounts-shared-filesystems.txt").read_text().splitlines():
        source, point, fstype, options, *_ = line.split()
        kind = "shared" if is_shared(fstype, source, options.split(",")) else "local"
        lines.append(f"{kind:6}  {fstype:15} {source} on {point}")
    golden("hardware/mounts-shared-filesystems.txt", "\n".join(lines))
