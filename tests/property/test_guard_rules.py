"""No pattern, policy or request makes guardrails raise, and no text of a request is lost on the way to them."""

import itertools
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from llmgw.core.guard.check import checked
from llmgw.core.guard.input_redact import redact_body, still_found
from llmgw.core.guard.input_scan import InputScan
from llmgw.core.guard.ledger import Ledger
from llmgw.core.guard.linear import BadPattern, Pattern
from llmgw.core.guard.openai_turns import chat_conversation, completion_conversation
from llmgw.core.guard.personal_data import PersonalDataScanner
from llmgw.core.guard.secrets import SecretScanner
from llmgw.schema.errors import InvalidInput
from llmgw.schema.guard.policy import PolicyFile
from llmgw.schema.guard.rule import Action, PersonalDataKind, Rule, SecretKind
from llmgw.server.services import strict
from llmgw.testing.guard_policies import rule, rule_set

EXPRESSIONS = st.lists(
    st.sampled_from([*list("ab.*+?()[]{}|^$\\dws,19é"), "(?i)", "(?:", "{1,9}", "[^", r"\b", r"\pL"]), max_size=12
).map("".join)
TEXTS = st.text(alphabet="ab1 é😀\n.@+-", max_size=60) | st.text(max_size=40)
SECRETS = SecretScanner(tuple(SecretKind))
PERSONAL = PersonalDataScanner(tuple(PersonalDataKind), ("DE", "US"))
NAMES = st.sampled_from(
    [
        "messages",
        "role",
        "content",
        "type",
        "text",
        "tools",
        "prompt",
        "tool_calls",
        "function",
        "arguments",
        "name",
        "image_url",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS | st.sampled_from(["user", "image_url", "text", '{"a": "b"}']),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES | st.text(max_size=3), inner, max_size=4),
    max_leaves=25,
)
POLICY_NAMES = [*PolicyFile.__struct_fields__, *Rule.__struct_fields__, "attach", "rules", "priority", "max_characters"]
POLICIES = st.recursive(
    st.none() | st.integers() | st.floats() | st.sampled_from(["all", "x", "block", "both", "(", "closed", "a.*", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(POLICY_NAMES), inner, max_size=5),
    max_leaves=20,
)


@given(EXPRESSIONS, TEXTS)
def test_a_pattern_is_refused_or_its_places_lie_in_the_text_in_order(expression, text):
    try:
        pattern = Pattern(expression)
    except BadPattern:
        return
    places = list(pattern.places(text))
    assert all(0 <= place.start < place.end <= len(text) for place in places)
    assert all(one.start <= other.start for one, other in itertools.pairwise(places))
    if places:
        assert pattern.found(text)


@given(TEXTS)
def test_scanners_find_places_in_any_text(text):
    for scanner in (SECRETS, PERSONAL):
        assert all(0 <= span.start < span.end <= len(text) for span in scanner.spans(text))


@given(POLICIES)
def test_any_file_of_policies_is_taken_or_refused_by_the_field(data):
    with suppress(InvalidInput):
        checked(strict.convert(PolicyFile, data))


@given(JSON)
def test_any_request_is_read_scanned_and_redacted(body):
    request = body if isinstance(body, dict) else {"messages": body}
    rules = rule_set(
        rule(name="p", pattern="a+", action=Action.REDACT, replacement="*"),
        rule(name="j"),
        rule(name="s", secrets="all"),
    )
    for read in (chat_conversation, completion_conversation):
        scan = InputScan(rules, read(request), ("chat",), Ledger(rules, 1))
        scan.questions(lambda court: 4000)
        if scan.redacting:
            after = redact_body(request, scan.redacting)
            still_found(after, scan.redacting, read)


def leaves(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        if value.get("type") != "image_url":
            for name, inner in value.items():
                if name not in {"role", "type", "id", "tool_call_id", "index"}:
                    yield from leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner)


@given(st.lists(st.dictionaries(NAMES, JSON, min_size=1, max_size=4), max_size=3))
def test_every_text_of_every_message_is_read_or_its_part_is_named(messages):
    conversation = chat_conversation({"messages": messages})
    read = "\n".join(turn.text for turn in conversation.turns)
    if conversation.unreadable:
        return
    for message in messages:
        for text in leaves(message):
            assert not text.strip() or text in read
