import pytest

from llmgw.engines.flags import Flag, FlagKind, parse
from llmgw.schema.errors import InvalidInput
from llmgw.schema.model import Role

TABLE = {
    flag.name: flag
    for flag in (
        Flag(name="batch", kind=FlagKind.INT, target="b", low=1, high=64, help="tokens"),
        Flag(name="base", kind=FlagKind.FLOAT, target="f", low=0, high=2, help="base"),
        Flag(name="warm", kind=FlagKind.BOOL, target="w", help="warm"),
        Flag(name="kind", kind=FlagKind.CHOICE, target="k", choices={"a": "KIND_A"}, help="kind"),
        Flag(name="pool", kind=FlagKind.BOOL, target="p", roles=frozenset({Role.EMBED}), help="pool"),
    )
}


def test_values_are_read_by_type():
    read = parse({"batch": "64", "base": "0.5", "warm": "false", "kind": "a"}, TABLE, Role.CHAT)
    assert read == {"batch": 64, "base": 0.5, "warm": False, "kind": "KIND_A"}
    assert isinstance(read["batch"], int)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("batch", "0"),
        ("batch", "65"),
        ("batch", "1.5"),
        ("batch", ""),
        ("batch", "true"),
        ("base", "nan"),
        ("base", "inf"),
        ("base", "-1"),
        ("base", "x"),
        ("warm", "yes"),
        ("warm", "1"),
        ("kind", "A"),
        ("kind", "KIND_A"),
    ],
)
def test_a_value_of_the_wrong_type_or_beyond_its_bounds_is_refused_with_what_is_allowed(name, text):
    with pytest.raises(InvalidInput) as refused:
        parse({name: text}, TABLE, Role.CHAT)
    assert refused.value.field == f"flags.{name}"
    assert refused.value.allowed == TABLE[name].allowed
    assert name in refused.value.message


def test_an_unknown_flag_is_refused_with_the_nearest_and_all_that_are_allowed():
    with pytest.raises(InvalidInput) as refused:
        parse({"bach": "1"}, TABLE, Role.CHAT)
    assert refused.value.message == "no flag 'bach'"
    assert refused.value.hint == "did you mean batch? flags of this engine: base, batch, kind, warm"
    assert refused.value.allowed == ("base", "batch", "kind", "warm")


def test_a_flag_like_no_other_is_refused_with_all_that_are_allowed():
    with pytest.raises(InvalidInput) as refused:
        parse({"zzzzzz": "1"}, TABLE, Role.CHAT)
    assert refused.value.hint == "flags of this engine: base, batch, kind, warm"


def test_a_flag_of_another_role_is_refused_as_such():
    assert parse({"pool": "true"}, TABLE, Role.EMBED) == {"pool": True}
    with pytest.raises(InvalidInput, match="no meaning for a model in role chat"):
        parse({"pool": "true"}, TABLE, Role.CHAT)
