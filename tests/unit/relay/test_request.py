from llmgw.relay.request import Request


def test_a_header_is_found_by_its_lower_case_name_and_the_first_one_counts():
    request = Request(method="GET", path="/", query="", headers=[(b"a", b"1"), (b"b", b"2"), (b"a", b"3")])

    assert request.header(b"a") == b"1"
    assert request.header(b"c") is None
