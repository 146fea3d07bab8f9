"""The last routing view on disk: a gateway serves from it when no control plane answers, also after its own restart."""

from pathlib import Path

import msgspec

from llmgw.config.contexts import replace_private
from llmgw.schema.view import View
from llmgw.telemetry import log as logs

log = logs.get(__name__)

_DECODER = msgspec.json.Decoder(View)


class ViewFile:
    """One file, mode 0600 (it holds engines' keys), replaced as a whole."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> View | None:
        """Read the last view; `None` when there is none, or none that can be read."""
        try:
            return _DECODER.decode(self._path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            log.warning("view.unreadable", path=str(self._path), error=str(error))
            return None

    def save(self, view: View) -> None:
        """Replace the file. Raises `OSError`; the old one stays then, and nothing of the new one."""
        replace_private(self._path, msgspec.json.encode(view).decode())
