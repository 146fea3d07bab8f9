"""How many files a process may have open: each agent's stream and each client's connection is one."""

import resource


def raise_open_files() -> int:
    """Raise the soft limit to the hard one, and give it. The soft one is 1024 under systemd and in most shells."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
