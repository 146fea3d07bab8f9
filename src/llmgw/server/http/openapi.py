"""The API's description, made from the routes themselves, so that it cannot differ from them."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from llmgw.server.http.errors import ErrorAnswer
from llmgw.server.http.typed_route import Nothing, TypedRoute

_CONVERTER = re.compile(r"{(?P<name>\w+)(:\w+)?}")
_REFS = "#/components/schemas/{name}"
_ERROR = {"$ref": "#/components/responses/Error"}


def document(routes: Sequence[TypedRoute], *, version: str) -> dict[str, Any]:
    """Give the OpenAPI document."""
    kinds = _kinds(routes)
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REFS)
    known = dict(zip(kinds, schemas, strict=True))
    for route in routes:
        _close(known[route.body], components)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(_CONVERTER.sub(r"{\g<name>}", route.path), {})[route.method.lower()] = _operation(
            route, known, components
        )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "llmgw admin API",
            "version": version,
            "description": "Field names in snake_case. Unknown is null or absent, never 0. Times are UTC, RFC 3339.",
        },
        "servers": [{"url": "/api/v1"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {
                "Error": {
                    "description": "What happened, and what to do next",
                    "content": _json(known[ErrorAnswer]),
                }
            },
        },
    }


def _kinds(routes: Sequence[TypedRoute]) -> tuple[type[Any], ...]:
    kinds = dict.fromkeys([ErrorAnswer])
    for route in routes:
        kinds.update(dict.fromkeys((route.body, route.query, route.answer)))
    return tuple(kinds)


def _close(schema: Any, components: dict[str, Any]) -> None:
    """Say of everything that is sent to us that unknown fields are refused."""
    for name in _referred(schema):
        component = components[name]
        if component.get("type") == "object" and "additionalProperties" not in component:
            component["additionalProperties"] = False
            _close(component["properties"], components)


def _referred(schema: Any) -> Iterator[str]:
    inner = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    for value in inner:
        if isinstance(value, str) and value.startswith(_REFS.partition("{")[0]):
            yield value.rpartition("/")[2]
        yield from _referred(value)


def _operation(route: TypedRoute, known: dict[type[Any], Any], components: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "description": f"Needs a token with role {route.role} or more.",
        "tags": [route.tag],
        "parameters": [*_path_parameters(route), *_query_parameters(route, components)],
        "responses": {
            str(route.status): {"description": "Done", "content": _json(known[route.answer])},
            **{str(error.status): _ERROR for error in sorted(route.refusals, key=lambda error: error.status)},
            "default": _ERROR,
        },
    }
    if route.body is not Nothing:
        operation["requestBody"] = {"required": True, "content": _json(known[route.body])}
    return operation


def _operation_id(route: TypedRoute) -> str:
    """Make a name such as `post_models_scale`; paths that end in a name say `one`."""
    words = [word for word in _CONVERTER.sub("one", route.path).split("/") if word]
    return "_".join([route.method.lower(), *words])


def _path_parameters(route: TypedRoute) -> list[dict[str, Any]]:
    return [
        {"name": match["name"], "in": "path", "required": True, "schema": {"type": "string"}}
        for match in _CONVERTER.finditer(route.path)
    ]


def _query_parameters(route: TypedRoute, components: dict[str, Any]) -> list[dict[str, Any]]:
    properties: dict[str, Any] = components[route.query.__name__].get("properties", {})
    required = components[route.query.__name__].get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, "schema": schema}
        for name, schema in properties.items()
    ]


def _json(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
