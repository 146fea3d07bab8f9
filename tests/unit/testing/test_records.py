from llmgw.testing.records import read_records, write_record


def test_records_are_kept_where_the_environment_says_and_else_nowhere(tmp_path, monkeypatch):
    monkeypatch.delenv("LLMGW_RECORDS", raising=False)
    write_record("a", {"kind": "x"})
    folder = tmp_path / "records"
    monkeypatch.setenv("LLMGW_RECORDS", str(folder))
    write_record("b", {"kind": "y", "values": [1.5]})
    write_record("a", {"kind": "x"})
    assert read_records(folder) == {"a": {"kind": "x"}, "b": {"kind": "y", "values": [1.5]}}
