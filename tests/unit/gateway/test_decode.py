import json

import pytest

from llmgw.gateway.decode import MAX_FIELDS, check_type, members_of
from llmgw.gateway.errors import ApiError
from llmgw.gateway.surfaces import chat, completions, embeddings

LONG = json.dumps([{"role": "user", "content": 'say "model" twice, "model" and "stream" ' * 20}]).encode()


def refused(raw: bytes, read=chat.read) -> ApiError:
    with pytest.raises(ApiError) as caught:
        read(raw)
    assert caught.value.status == 400
    return caught.value


@pytest.mark.parametrize("surface", [chat, completions, embeddings])
def test_an_empty_body_is_named_as_such(surface):
    assert refused(b"", surface.read).code == "empty_body"


@pytest.mark.parametrize("depth", [2_000, 100_000])
@pytest.mark.parametrize("pair", [(b"[", b"]"), (b'{"a":', b"}")])
def test_deep_json_is_refused_wherever_it_stands(depth, pair):
    nested = pair[0] * depth + b"1" * (pair[0] != b"[") + pair[1] * depth
    for name in (b"messages", b"unknown"):
        error = refused(b'{"model":"tiny","%b":%b}' % (name, nested))
        assert "nested too deeply" in error.message


@pytest.mark.parametrize("where", [b'"messages":"\xff\xfe"', b'"unknown":"\xc3("', b'"\xff":1'])
def test_bytes_that_are_no_utf8_are_refused_also_in_what_stays_raw(where):
    error = refused(b'{"model":"tiny",%b}' % where)
    assert (error.code, "UTF-8" in error.message) == ("invalid_json", True)


def test_proper_utf8_passes():
    assert chat.read('{"model":"tiny","messages":[{"role":"user","content":"größer 語"}]}'.encode()).model == "tiny"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"model":"a","model":"b"}', "model"),
        (b'{"model":"a","stream":true, "stream" :false}', "stream"),
        (b'{"messages":%b,"model":"a","messages":%b}' % (LONG, LONG), "messages"),
        (b'{"messages":[],"model":"a","messages":%b}' % LONG, "messages"),
        (b'{"model":"a","messages":"model","model":"model"}', "model"),
        (b'{"model":"a","x":"model","model":"b","messages":%b}' % LONG, "model"),
    ],
)
def test_a_field_given_twice_is_named(body, field):
    for read in (chat.read, members_of):
        error = refused(body, read)
        assert (error.code, error.param) == ("repeated_parameter", field)


def test_a_field_that_nobody_knows_is_named_too_where_all_are_read():
    assert refused(b'{"model":"a","x":1,"x":2}', members_of).param == "x"


def test_more_fields_than_any_api_has_are_refused():
    body = json.dumps({str(number): number for number in range(MAX_FIELDS + 1)}).encode()
    assert refused(body, members_of).code == "too_many_fields"


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"model","messages":"model"}',
        b'{"model":"a","messages":%b}' % LONG,
        b'{"model":"a","tools":[{"model":1,"stream":2},{"model":3}],"stream":true}',
        b'{"model":"a","messages":[{"model":1,"messages":2},{"model":1}]}',
    ],
)
def test_names_within_values_are_no_repetition(body):
    chat.read(body)
    assert members_of(body).keys() == json.loads(body).keys()


@pytest.mark.parametrize(
    "value", [b"-1", b"2147483648", b"9" * 400, b"-" + b"9" * 400, b"1e5", b"1.5", b"true", b'"5"']
)
@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens", "n"])
def test_numbers_out_of_bounds_name_their_field(field, value):
    error = refused(b'{"model":"a","%b":%b}' % (field.encode(), value))
    assert (error.code, error.param) == ("invalid_type", field)


@pytest.mark.parametrize("field", ["repeat_last_n", "dry_penalty_last_n"])
@pytest.mark.parametrize("read", [chat.read, completions.read])
def test_windows_an_engine_would_reserve_memory_for_are_bounded(read, field):
    read(json.dumps({"model": "a", field: -1}).encode())
    assert refused(json.dumps({"model": "a", field: 2**31 - 1}).encode(), read).param == field


@pytest.mark.parametrize("value", [b"NaN", b"Infinity", b"-Infinity", b"007", b"0x10", b"1."])
def test_what_is_no_json_number_names_its_place(value):
    error = refused(b'{"model":"a","temperature":%b}' % value)
    assert (error.code, "line 1, column" in error.message) == ("invalid_json", True)


@pytest.mark.parametrize(
    "given", [None, b"application/json", b"Application/JSON; charset=utf-8", b"application/x+json"]
)
def test_json_by_any_of_its_names_is_taken(given):
    check_type(given, None)
    check_type(given, b"identity")


@pytest.mark.parametrize(
    "given", [b"text/plain", b"application/x-www-form-urlencoded", b"multipart/form-data", b"\xff"]
)
def test_another_content_type_is_refused_with_its_name(given):
    with pytest.raises(ApiError, match="content-type") as caught:
        check_type(given, None)
    assert caught.value.status == 415


def test_a_compressed_body_is_refused_by_its_encoding():
    with pytest.raises(ApiError, match="content-encoding 'gzip'"):
        check_type(b"application/json", b"gzip")
