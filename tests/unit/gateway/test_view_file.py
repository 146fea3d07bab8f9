from llmgw.gateway.view_file import ViewFile
from llmgw.testing.gateway_room import a_route, a_view


def test_a_view_comes_back_as_it_was_and_nobody_else_may_read_it(tmp_path):
    file = ViewFile(tmp_path / "view.json")
    assert file.load() is None
    for version in (1, 2):
        file.save(a_view(a_route(), version=version))
    assert file.load() == a_view(a_route(), version=2)
    assert (tmp_path / "view.json").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["view.json"]


def test_a_file_that_cannot_be_read_is_no_view(tmp_path):
    (tmp_path / "view.json").write_bytes(b'{"source":')
    assert ViewFile(tmp_path / "view.json").load() is None
