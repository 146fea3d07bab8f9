"""Which weights the node sees: in its configured folders, and at paths that models ask for."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec

from llmgw.agent.digests import Digests
from llmgw.agent.question import Question
from llmgw.schema.value import Value
from llmgw.schema.weights import WatchedPath, Weights, WeightsFolder
from llmgw.telemetry import log
from llmgw.weights.sources import Shelf, Survey

FOLDER_S = 5.0
"""Seconds to look through one folder; slower ones keep what was seen last and are waited for in the background."""

_log = log.get(__name__)


class Seen(Value, frozen=True, kw_only=True):
    """What the configured folders hold."""

    weights: tuple[Weights, ...]
    folders: tuple[WeightsFolder, ...]


class WeightsLook:
    """Looks at weights. No folder holds up another, or the one who asks."""

    def __init__(self, folders: Sequence[str], digests: Digests, news: Callable[[], None]) -> None:
        self._digests = digests
        self._news = news
        self._folders = tuple(_Folder(folder, digests, news) for folder in folders)
        self._shelf = Shelf()
        self._watched: dict[str, Question[WatchedPath]] = {}

    async def look(self) -> Seen:
        """Look through all folders. Weights below two of them are there once."""
        await asyncio.gather(*(folder.look() for folder in self._folders))
        found = {weights.path: weights for folder in self._folders for weights in folder.survey.weights}
        self._digests.want(tuple(found.values()))
        return Seen(
            weights=tuple(found[path] for path in sorted(found)),
            folders=tuple(WeightsFolder(path=one.path, problems=one.problems) for one in self._folders),
        )

    async def watch(self, paths: Sequence[str]) -> tuple[WatchedPath, ...]:
        """Look at single paths, wherever they lie. Those that hang from before keep their question."""
        self._watched = {path: self._watched.get(path) or self._asking(path) for path in paths}
        return tuple(await asyncio.gather(*(_watched(path, asking) for path, asking in self._watched.items())))

    def _asking(self, path: str) -> Question[WatchedPath]:
        ask = partial(self._shelf.look, path)
        return Question(ask, name=f"look at {path}", within_s=FOLDER_S, came_late=self._news)


class _Folder:
    """One configured folder, and what was seen in it last."""

    def __init__(self, folder: str, digests: Digests, news: Callable[[], None]) -> None:
        self.path = str(Path(folder).absolute())
        self.survey = Survey()
        self.problems: tuple[str, ...] = ()
        self._shelf = Shelf()
        self._digests = digests
        self._asking = Question(self._look, name=f"weights {folder}", within_s=FOLDER_S, came_late=news)

    async def look(self) -> None:
        try:
            self.survey = await self._asking.answer()
        except TimeoutError:
            silent = f"{self.path} does not answer: what was seen last is shown"
            if silent not in self.problems:
                _log.warning("weights.silent", folder=self.path, seconds=FOLDER_S)
            self.problems = (silent,)
            return
        except OSError as error:
            self.survey = Survey(problems=(f"{self.path} cannot be read: {error.strerror}",))
        if self.survey.problems != self.problems:
            _log.warning("weights.unreadable", folder=self.path, problems=list(self.survey.problems))
        self.problems = self.survey.problems

    def _look(self) -> Survey:
        survey = self._shelf.survey(self.path)
        known = tuple(msgspec.structs.replace(one, digest=self._digests.of(one)) for one in survey.weights)
        return msgspec.structs.replace(survey, weights=known)


async def _watched(path: str, asking: Question[WatchedPath]) -> WatchedPath:
    try:
        return await asking.answer()
    except TimeoutError:
        return WatchedPath(path=path, present=False, problem=f"{path} does not answer")
