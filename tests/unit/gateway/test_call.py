from llmgw.gateway.call import RequestIds


def test_ids_are_unique_and_a_harmless_one_is_kept():
    ids, others = RequestIds(), RequestIds()
    made = {source.id_for(None) for source in (ids, others) for _ in range(1000)}
    assert len(made) == 2000
    assert ids.id_for(b"trace-1.2_X") == b"trace-1.2_X"


def test_an_id_that_could_harm_a_log_is_replaced():
    ids = RequestIds()
    for given in (b"", b"a b", b'a"', b"a\nb", b"x" * 129, "ä".encode()):
        assert ids.id_for(given).startswith(b"req_")
