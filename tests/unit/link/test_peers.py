import pytest

from llmgw.link.peers import admitting, expecting
from llmgw.schema.identity import Part


class Shown:
    """A connection whose peer showed a certificate of this name."""

    def __init__(self, uri):
        self._uri = uri

    def getpeercert(self):
        names = (("DNS", "h"), ("URI", self._uri))
        return {"subjectAltName": names, "notBefore": "Dec  1 00:00:00 2026 GMT"} if self._uri else {}


@pytest.mark.parametrize("uri", [None, "https://h", "llmgw://node", "llmgw://node/", "llmgw://king/x"])
def test_who_has_no_name_of_this_cluster_is_turned_away(uri):
    assert admitting(Part.NODE)(Shown(uri)) == "its certificate is not of a part of this cluster"
    assert expecting(Part.NODE)(Shown(uri), "x") == "its certificate is not of a part of this cluster"


def test_parts_are_let_in_by_what_they_are():
    refuse = admitting(Part.GATEWAY, Part.SERVER)

    assert refuse(Shown("llmgw://gateway/g1")) is None
    assert refuse(Shown("llmgw://server/c1")) is None
    assert refuse(Shown("llmgw://node/n1")) == "it is node n1; only a gateway or server is let in here"


@pytest.mark.parametrize("uri", ["llmgw://node/n2", "llmgw://gateway/n1", "llmgw://node/n1x"])
def test_only_the_part_and_name_that_were_dialled_are_taken(uri):
    refuse = expecting(Part.NODE)

    assert refuse(Shown("llmgw://node/n1"), "n1") is None
    assert "not node n1" in refuse(Shown(uri), "n1")
