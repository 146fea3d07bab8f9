"""The admin API held against its own description: requests made from the description, good ones and broken ones."""

import asyncio
from urllib.parse import unquote

import pytest
import schemathesis
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from llmgw.config.server import ServerConfig
from llmgw.schema.admin.key import CreateKey
from llmgw.schema.admin.model import ServeModel
from llmgw.schema.key import AdminRole
from llmgw.server.http.app import ROUTES, build_app
from llmgw.server.http.openapi import document
from llmgw.server.http.typed_route import TypedRoute
from llmgw.server.identity import public_id
from llmgw.server.services import keys, models
from llmgw.testing.control_room import ControlRoom


class Desk:
    """A control room with a model, a node, a replica, a key and tokens in it, made anew for each request."""

    def __init__(self) -> None:
        self.room = ControlRoom()
        self.tokens: dict[AdminRole, str] = {}
        self.names = {"name": "org/chat", "id": ""}

    async def open(self, path: str) -> None:
        room = self.room
        await room.open()
        await room.put_node()
        await models.serve(room.fleet, room.clock, ServeModel(name="org/chat", source="/m/chat.gguf"), actor="test")
        await room.put_replica("raaaaaaaaaa", "org/chat")
        room.logs.texts["raaaaaaaaaa.0"] = "loading\nready"
        key = await keys.create(room.fleet, room.clock, CreateKey(name="team"), actor="test")
        self.tokens = {role: await room.token(role) for role in AdminRole}
        known = {"nodes": "n1", "replicas": "raaaaaaaaaa", "keys": key.key.id}
        known["tokens"] = public_id(self.tokens[AdminRole.VIEWER])
        self.names["id"] = next((name for word, name in known.items() if f"/{word}/" in path), "")
        if "/control-planes/" in path:
            self.names["name"] = "control-2"
        if "/gateways/" in path:
            self.names["name"] = "gateway-2"

    def rows(self) -> object:
        return asyncio.run(self._read())

    async def _read(self) -> object:
        store = self.room.store
        return await store.load_fleet(), await store.load_keys(), await store.load_events(limit=1000)


class Front:
    """The API in front of whichever desk a request is for."""

    def __init__(self) -> None:
        self.desk = Desk()
        self._app = self._build()

    def renew(self, path: str) -> Desk:
        self.desk = Desk()
        asyncio.run(self.desk.open(path))
        self._app = self._build()
        return self.desk

    def _build(self):
        room = self.desk.room
        return build_app(room.fleet, room.clock, room.store, config=ServerConfig(data_dir="/nowhere"), version="1.2.3")

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] != "http":
            raise NotImplementedError("the API neither starts nor stops anything")
        await self._app(scope, receive, send)


FRONT = Front()
# Without the part about tokens: cases would come with made-up ones, or ask for theirs to be left out.
SCHEMA = schemathesis.openapi.from_dict(
    {name: part for name, part in document(ROUTES, version="1.2.3").items() if name != "security"}
)
SCHEMA.app = FRONT
OPERATIONS = {operation.label: operation for operation in (one.ok() for one in SCHEMA.get_all_operations())}


def tried(times: int):
    """Try a test(desk, case) with cases of each operation, half of them about things that exist."""

    def decorate(test):
        @pytest.mark.parametrize("label", OPERATIONS)
        def run(label: str) -> None:
            operation = OPERATIONS[label]
            cases = st.one_of(*(operation.as_strategy(generation_mode=mode) for mode in GenerationMode))

            @settings(max_examples=times, deadline=None, database=None, suppress_health_check=list(HealthCheck))
            @given(case=cases, about=st.sampled_from(["anything", "what exists"]))
            def examples(case: Case, about: str) -> None:
                desk = FRONT.renew(operation.path)
                if about == "what exists":
                    case.path_parameters = {name: desk.names[name] for name in case.path_parameters or {}}
                # The client drops line breaks out of addresses (as browsers do): what is left may be no path of ours.
                assume(
                    not any(set(unquote(str(part))) & set("\r\n\t") for part in (case.path_parameters or {}).values())
                )
                test(desk, case)

            examples()

        return run

    return decorate


def call(case: Case, token: str | None):
    return case.call(headers={"Authorization": f"Bearer {token}"} if token else {})


@tried(times=25)
def test_every_answer_is_as_described_and_a_refusal_changes_nothing(desk, case):
    before = desk.rows()
    answer = call(case, desk.tokens[AdminRole.ADMIN])
    assert answer.status_code < 500
    assert str(answer.status_code) in case.operation.definition.raw["responses"], answer.text
    # What a body may say depends on the engine too, and `318.0` is no whole number to us: more is refused than
    # the description can tell.
    beyond = [positive_data_acceptance] if case.operation.body else []
    case.validate_response(answer, excluded_checks=beyond)
    if answer.status_code >= 400:
        assert answer.json()["error"]["message"]
        assert desk.rows() == before


@tried(times=5)
def test_whoever_may_not_is_refused_whatever_they_send(desk, case):
    before = desk.rows()
    needed = next(route.role for route in ROUTES if is_of(route, case))
    roles = list(AdminRole)
    for role in roles[: roles.index(needed)]:
        answer = call(case, desk.tokens[role])
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")
    for token in (None, "lt_AAAAAAAAwrong"):
        answer = call(case, token)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized")
    assert desk.rows() == before


def is_of(route: TypedRoute, case: Case) -> bool:
    """True when a case is one of the route's: the description leaves out how routes read their parameters."""
    return f"{route.method} {route.path}".replace(":path}", "}") == case.operation.label
