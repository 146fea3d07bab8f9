from llmgw.core.amounts import cores_text, counted, memory_text


def test_amounts_read_as_people_write_them():
    assert memory_text(12 * 1024**3) == "12.0 GiB"
    assert memory_text(80 * 1024**2) == "80 MiB"
    assert memory_text(0) == "0 MiB"
    assert [cores_text(4.0), cores_text(0.5), cores_text(1.333)] == ["4", "0.5", "1.33"]
    assert [counted(1, "node"), counted(0, "node"), counted(12, "node")] == ["1 node", "0 nodes", "12 nodes"]
