"""Figures of long runs, a file each in the folder that `LLMGW_RECORDS` names; without it they are only printed."""

import json
import os
from pathlib import Path


def write_record(name: str, figures: dict[str, object]) -> None:
    """Keep figures for the report that is written in the end."""
    folder = os.environ.get("LLMGW_RECORDS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        Path(folder, f"{name}.json").write_text(json.dumps(figures, indent=1))


def read_records(folder: Path) -> dict[str, dict[str, object]]:
    """Read all of a folder by name."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
