import hashlib
import tomllib
from importlib.resources import files

import pytest

from llmgw.console import assets

PACKAGE = files("llmgw.console")
LOCKED = tomllib.loads(PACKAGE.joinpath("vendor.lock").read_text())["file"]
OWN = {"console.css", "console.js", "icon.svg"}


@pytest.mark.parametrize("entry", LOCKED, ids=lambda entry: entry["name"])
def test_a_vendored_file_is_the_one_in_the_lock(entry):
    body = PACKAGE.joinpath(entry["path"]).read_bytes()
    assert hashlib.sha256(body).hexdigest() == entry["sha256"]
    assert set(entry) == {"path", "name", "version", "sha256", "source", "licence"}


def test_every_file_is_ours_or_in_the_lock_with_its_licence():
    locked = {entry["path"].removeprefix("static/") for entry in LOCKED}
    licences = {entry["licence"].partition("static/")[2] for entry in LOCKED}
    assert {path.name for path in PACKAGE.joinpath("static").iterdir()} == OWN | locked | licences


def test_the_first_load_is_small():
    assert sum(len(asset.body) for asset in assets.load().values()) < 150 * 1024


@pytest.mark.parametrize("name", sorted(assets.load()))
async def test_a_file_may_be_kept_for_ever_at_the_address_with_its_digest(browser, name):
    asset = assets.load()[name]
    addressed, plain = await browser.get(asset.url), await browser.get(f"/static/{name}")
    assert addressed.content == plain.content == asset.body
    assert "immutable" in addressed.headers["cache-control"]
    assert plain.headers["cache-control"] == "no-cache"
    assert addressed.headers["x-content-type-options"] == "nosniff"
