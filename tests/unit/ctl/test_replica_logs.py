import pytest
from click.testing import CliRunner

from llmgw.ctl.replica_logs import replica_logs
from llmgw.ctl.session import Session


class Api:
    """Answers with one log and remembers what it was asked."""

    def __init__(self):
        self.asked = None

    def get(self, path):
        self.asked = path
        return {"logs": [{"shard": "r1.0", "node": "n1", "attempt": 1, "text": "E no memory\n"}]}


class FakeSession(Session):
    def __init__(self):
        super().__init__(context=None, output="table")
        self.fake = Api()

    @property
    def api(self):
        return self.fake


@pytest.mark.parametrize(
    ("options", "query"), [([], ""), (["--first"], "?attempt=1"), (["--attempt", "3"], "?attempt=3")]
)
def test_the_newest_start_the_first_or_any_can_be_read(options, query):
    session = FakeSession()
    done = CliRunner().invoke(replica_logs, ["r1", *options], obj=session)
    assert done.exit_code == 0, done.output
    assert session.fake.asked == f"/api/v1/replicas/r1/logs{query}"
    assert done.output == "== r1.0 on n1, start 1\nE no memory\n"
