from llmgw.relay.hop_by_hop import not_forwarded


def test_headers_that_connection_names_are_not_forwarded():
    assert b"x-a" in not_forwarded(b"Close, X-A")
    assert b"x-a" not in not_forwarded(b"close")
    assert b"transfer-encoding" in not_forwarded()
