import pytest

from llmgw.core.guard.json_shape import checked, violation
from llmgw.schema.errors import InvalidInput

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 1}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"name": "Ann", "age": 3}, None),
        ({"name": "Ann", "age": True}, "$.age is not integer"),
        ({"name": "", "age": 3}, "$.name is below minLength 1"),
        ({"name": "Ann", "age": -1}, "$.age is below minimum 0"),
        ({"age": 3}, "$.name is missing"),
        ({"name": "Ann", "x": 1}, "$ has a property that is not allowed"),
        ([], "$ is not object"),
    ],
)
def test_an_object_is_held_against_its_shape(value, told):
    assert violation(value, PERSON) == told


@pytest.mark.parametrize(
    ("value", "schema", "told"),
    [
        ([1, "a"], {"items": {"type": "number"}}, "$[1] is not number"),
        ([1, 2, 3], {"maxItems": 2}, "$ is above maxItems 2"),
        ("x", {"enum": ["a", "b"]}, "$ is none of the allowed values"),
        (True, {"const": 1}, "$ is not the wanted value"),
        ({"k": "v"}, {"additionalProperties": {"type": "number"}}, "$.* is not number"),
        (None, {"type": ["string", "null"]}, None),
    ],
)
def test_other_keywords_are_carried_out(value, schema, told):
    assert violation(value, schema) == told


@pytest.mark.parametrize(
    ("schema", "field"),
    [
        ({"pattern": "a"}, "s.pattern"),
        ({"properties": {"a": {"$ref": "#"}}}, "s.properties.a.$ref"),
        ({"type": "text"}, "s.type"),
        ({"minimum": "1"}, "s.minimum"),
        ({"items": [1]}, "s.items"),
        ({"required": "name"}, "s.required"),
    ],
)
def test_a_keyword_that_would_check_nothing_is_refused(schema, field):
    with pytest.raises(InvalidInput) as caught:
        checked(schema, "s")
    assert caught.value.field == field


def test_a_shape_nested_without_end_is_refused():
    schema = {}
    for _ in range(30):
        schema = {"items": schema}
    with pytest.raises(InvalidInput, match="nested"):
        checked(schema, "s")


def test_a_shape_that_is_understood_passes():
    checked(PERSON, "s")
