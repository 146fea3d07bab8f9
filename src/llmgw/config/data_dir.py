"""The folder a process keeps its things in."""

from pathlib import Path

from llmgw.schema.errors import InvalidInput


def make_data_dir(data_dir: str) -> Path:
    """Make the folder, mode 0700, where it is not there yet. Raises `InvalidInput` when that cannot be."""
    path = Path(data_dir)
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(
            f"data_dir = {data_dir!r} cannot be made: {error.strerror}",
            hint="choose a folder this user may write",
            field="data_dir",
        ) from error
    return path
