"""The floating address on this host: does the kernel have it, and does a keepalived run that would take it away."""

import contextlib
import ipaddress
import shutil
import subprocess
from pathlib import Path

from llmgw.schema.floating import HostWord

REMOVE_S = 5.0
_PROC = Path("/proc")


class ThisHost:
    """The host this process runs on, with regard to one address."""

    def __init__(self, name: str, address: str) -> None:
        self._name = name
        self._address = address

    def word(self) -> HostWord:
        """Say whether the kernel has the address, and whether a keepalived runs."""
        return host_word(self._name, self._address)

    def remove(self) -> str | None:
        """Take the address off whatever interface has it. Gives what went wrong, in words."""
        program = shutil.which("ip", path="/usr/sbin:/sbin:/usr/bin:/bin")
        if program is None:
            return "the program ip is not installed"
        try:
            for line in _ip(program, "-o", "address", "show", "to", self._address).splitlines():
                words = line.split()
                _ip(program, "address", "del", words[3], "dev", words[1])
        except subprocess.CalledProcessError as error:
            return f"ip refused: {str(error.stderr).strip()}"
        except (subprocess.TimeoutExpired, OSError) as error:
            return str(error)
        return None


def host_word(name: str, address: str, *, proc: Path = _PROC) -> HostWord:
    """Look at this host, in this process's network namespace."""
    return HostWord(name=name, has_address=address in local_addresses(proc), keepalived=_keepalived_runs(proc))


def local_addresses(proc: Path = _PROC) -> frozenset[str]:
    """Give the addresses the kernel takes for its own; the wildcard and multicast ones of tables are left out."""
    return frozenset(_version_four(_text(proc / "net/fib_trie")) | _version_six(_text(proc / "net/if_inet6")))


def _version_four(trie: str) -> set[str]:
    """Parse /proc/net/fib_trie: a leaf `|-- 10.0.0.1` followed by `/32 host LOCAL`."""
    found, last = set(), ""
    for line in trie.splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == "|--":  # noqa: PLR2004 (the mark and the address)
            last = words[1]
        elif words[:3] == ["/32", "host", "LOCAL"]:
            found.add(last)
    return found


def _version_six(table: str) -> set[str]:
    """Parse /proc/net/if_inet6: 32 hexadecimal digits at the beginning of each line."""
    return {str(ipaddress.IPv6Address(int(line.split()[0], 16))) for line in table.splitlines() if line.strip()}


def _keepalived_runs(proc: Path) -> bool | None:
    """Look for a keepalived in the same network namespace; `None` when processes cannot be seen."""
    try:
        own = (proc / "self/ns/net").readlink()
        folders = [folder for folder in proc.iterdir() if folder.name.isdecimal()]
    except OSError:
        return None
    for folder in folders:
        with contextlib.suppress(OSError):
            if (folder / "comm").read_text().strip() == "keepalived" and (folder / "ns/net").readlink() == own:
                return True
    return False


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _ip(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=REMOVE_S).stdout
