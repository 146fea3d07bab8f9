"""One laboratory for all tests: it takes a while to start, and each test leaves it whole."""

from collections.abc import Iterator

import pytest

from llmgw.testing.lab.laboratory import Laboratory, missing


@pytest.fixture(scope="session")
def running() -> Iterator[Laboratory]:
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    with Laboratory() as laboratory:
        yield laboratory


@pytest.fixture
def lab(running: Laboratory) -> Iterator[Laboratory]:
    """The laboratory, whole before and after."""
    running.settle()
    yield running
    running.settle()
