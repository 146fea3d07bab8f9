import pytest

from llmgw.schema.admin.model import ChangeModel, ServeModel
from llmgw.schema.engine import EngineKind
from llmgw.schema.errors import InvalidInput
from llmgw.schema.guard.policy import PolicyFile
from llmgw.schema.model import Role
from llmgw.server.http.replicas import LogQuery
from llmgw.server.services import strict


def _refused(raw: bytes, kind: type = ServeModel) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        strict.decode(kind, raw)
    return caught.value


def test_a_body_becomes_a_value():
    given = strict.decode(ServeModel, b'{"name": "m", "source": "/m.gguf", "profile": {"flags": {"a": "b"}}}')
    assert given.role is Role.CHAT
    assert given.profile.flags == {"a": "b"}


def test_what_is_not_json_says_where():
    assert "not JSON" in _refused(b'{"name": ').message
    assert "not JSON" in _refused(b'"\xff"').message


@pytest.mark.parametrize(
    ("raw", "field", "hint"),
    [
        (b'{"namee": "m"}', "namee", "did you mean 'name'?"),
        (b'{"name": "m", "source": "/m", "profile": {"contxt": 1}}', "profile.contxt", "did you mean 'context'?"),
        (b'{"name": "m", "source": "/m", "engine": "llamacpp"}', "engine", "did you mean 'profile.engine'?"),
    ],
)
def test_an_unknown_field_is_refused_with_the_nearest_name(raw, field, hint):
    error = _refused(raw)
    assert (error.field, error.hint) == (field, hint)


def test_a_field_given_twice_is_refused_because_readers_differ_about_it():
    error = _refused(b'{"name": "m", "source": "/m", "name": "n"}')
    assert (error.message, error.field) == ("field 'name' is given twice", "name")
    assert _refused(b'{"profile": {"slots": 1, "slots": 2}}').field == "slots"


@pytest.mark.parametrize("raw", [b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100_000 + b"1" + b"}" * 100_000])
def test_deep_nesting_is_refused_and_breaks_nothing(raw):
    assert _refused(raw).message == "the body is nested too deeply"


def test_a_number_of_any_length_is_bad_input_and_no_fault():
    assert "out of range" in _refused(b'{"min": ' + b"9" * 5000 + b"}").message


def test_an_empty_body_is_said_to_be_empty():
    assert _refused(b" \n").message == "the body is empty"


def test_a_value_in_a_table_of_texts_is_named_by_its_key():
    error = _refused(b'{"name": "m", "source": "/m", "profile": {"flags": {"n_batch": 256}}}')
    assert (error.message, error.field) == ("profile.flags.n_batch: expected `str`, got `int`", "profile.flags.n_batch")


def test_an_unknown_field_far_from_all_lists_those_there_are():
    error = _refused(b'{"zzzzzz": 1}')
    assert error.hint == "known here: name, source, role, min, max, idle_s, lost_after, routing, profile"
    assert error.allowed == ("name", "source", "role", "min", "max", "idle_s", "lost_after", "routing", "profile")


@pytest.mark.parametrize(
    ("raw", "field", "allowed"),
    [
        (b'{"name": "m", "source": "/m", "role": "chta"}', "role", ("chat", "embed", "rerank", "guard")),
        (
            b'{"name": "m", "source": "/m", "profile": {"engine": "q"}}',
            "profile.engine",
            tuple(EngineKind),
        ),
    ],
)
def test_a_word_outside_the_list_names_the_list(raw, field, allowed):
    error = _refused(raw)
    assert (error.field, error.allowed) == (field, allowed)
    assert ", ".join(allowed) in error.message


def test_a_role_that_may_be_left_out_still_names_its_values():
    assert _refused(b'{"role": "x"}', ChangeModel).allowed == ("chat", "embed", "rerank", "guard")


def test_a_missing_field_is_named():
    error = _refused(b'{"name": "m"}')
    assert (error.message, error.field) == ("field 'source' is missing", "source")


def test_a_wrong_type_names_the_field():
    error = _refused(b'{"name": "m", "source": "/m", "profile": {"slots": "four"}}')
    assert error.field == "profile.slots"
    assert error.message == "profile.slots: expected `int | null`, got `str`"


def test_a_body_that_is_no_object_is_refused():
    assert _refused(b"[]").message == "the body: expected `object`, got `array`"


def test_numbers_in_a_query_are_text():
    query = strict.convert(LogQuery, {"attempt": "3"}, texts=True)
    assert query.attempt == 3


def test_a_path_before_the_data_is_part_of_the_field():
    with pytest.raises(InvalidInput) as caught:
        strict.convert(LogQuery, {"attemptt": 3}, at="query")
    assert caught.value.field == "query.attemptt"


def test_allowed_values_are_found_inside_lists_and_beside_words_of_their_own():
    rule = {"name": "r", "action": "block", "judge": "g"}
    for change, field, allowed in (
        ({"action": "stop"}, "policies[0].rules[0].action", ("block", "redact", "flag", "shadow")),
        ({"secrets": "every"}, "policies[0].rules[0].secrets", ("all",)),
        ({"on_failure": {"timeout": "opn"}}, "policies[0].rules[0].on_failure.timeout", ("open", "closed")),
    ):
        with pytest.raises(InvalidInput) as caught:
            strict.convert(PolicyFile, {"policies": [{"name": "p", "attach": "all", "rules": [rule | change]}]})
        assert (caught.value.field, caught.value.allowed) == (field, allowed)
