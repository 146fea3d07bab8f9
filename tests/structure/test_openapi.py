"""The API's description and the API are one."""

import json
import re

import msgspec
import pytest

from llmgw.server.http.app import ROUTES
from llmgw.server.http.openapi import document

DOCUMENT = document(ROUTES, version="1.2.3")
OPERATIONS = [
    (method, path, operation) for path, methods in DOCUMENT["paths"].items() for method, operation in methods.items()
]
BY_PATH = pytest.mark.parametrize(("method", "path", "operation"), OPERATIONS)


def test_every_route_is_described_once():
    routes = sorted((route.method.lower(), re.sub(r":\w+}", "}", route.path)) for route in ROUTES)
    assert routes == sorted((method, path) for method, path, _ in OPERATIONS)


def test_the_contract_of_the_admin_api_is_kept():
    wanted = {
        ("get", "/summary"),
        ("get", "/nodes"),
        ("get", "/nodes/{id}"),
        ("get", "/models"),
        ("post", "/models"),
        ("get", "/models/{name}"),
        ("patch", "/models/{name}"),
        ("delete", "/models/{name}"),
        ("post", "/models/{name}/scale"),
        ("post", "/models/{name}/unpark"),
        ("get", "/replicas"),
        ("get", "/replicas/{id}/logs"),
        ("get", "/keys"),
        ("post", "/keys"),
        ("delete", "/keys/{id}"),
        ("get", "/events"),
    }
    assert wanted <= {(method, path) for method, path, _ in OPERATIONS}


def test_every_reference_leads_somewhere():
    text = json.dumps(DOCUMENT)
    for reference in re.findall(r'"\$ref": "#/([^"]+)"', text):
        place = DOCUMENT
        for step in reference.split("/"):
            assert step in place, reference
            place = place[step]


def test_operation_ids_are_unique():
    ids = [operation["operationId"] for _, _, operation in OPERATIONS]
    assert len(set(ids)) == len(ids)


@BY_PATH
def test_an_operation_says_who_may_and_what_an_error_looks_like(method, path, operation):
    assert operation["summary"]
    assert re.search(r"role (viewer|operator|admin)", operation["description"])
    assert operation["responses"]["default"] == {"$ref": "#/components/responses/Error"}
    assert any(status.startswith("2") for status in operation["responses"])


@BY_PATH
def test_a_paths_parameters_are_described(method, path, operation):
    described = {one["name"] for one in operation["parameters"] if one["in"] == "path"}
    assert described == set(re.findall(r"{(\w+)}", path))


def test_query_parameters_are_described_with_their_defaults():
    parameters = DOCUMENT["paths"]["/events"]["get"]["parameters"]
    assert {one["name"]: one["required"] for one in parameters} == {"limit": False, "before": False}
    assert parameters[0]["schema"] == {"type": "integer", "default": 100, "minimum": 1, "maximum": 1000}


def test_what_is_sent_may_hold_nothing_unknown_and_the_description_says_so():
    for name in ("ServeModel", "ChangeModel", "ScaleModel", "CreateKey", "Profile"):
        assert DOCUMENT["components"]["schemas"][name]["additionalProperties"] is False
    assert DOCUMENT["components"]["schemas"]["Profile"]["properties"]["flags"]["additionalProperties"] == {
        "type": "string"
    }
    assert "additionalProperties" not in DOCUMENT["components"]["schemas"]["ModelRow"]


def test_an_operation_lists_the_errors_it_may_answer_with():
    def refusals(path, method):
        return {int(status) for status in DOCUMENT["paths"][path][method]["responses"] if status.startswith(("4", "5"))}

    assert refusals("/summary", "get") == {400, 401, 403, 413}
    assert refusals("/nodes/{id}", "get") == {400, 401, 403, 404, 413}
    assert refusals("/models", "post") == {400, 401, 403, 409, 413, 415, 503}
    assert refusals("/events", "get") == {400, 401, 403, 413, 503}


def test_everything_needs_a_token_unless_it_says_otherwise():
    assert DOCUMENT["security"] == [{"token": []}]
    assert not any("security" in operation for _, _, operation in OPERATIONS)


def test_names_on_the_wire_are_snake_case():
    for name, schema in DOCUMENT["components"]["schemas"].items():
        for field in schema.get("properties", {}):
            assert re.fullmatch(r"[a-z][a-z0-9_]*", field), f"{name}.{field}"


def test_the_document_can_be_sent():
    assert msgspec.json.decode(msgspec.json.encode(DOCUMENT))["openapi"].startswith("3.1")
