"""Whatever a client sends to `/v1/messages`, it becomes a chat or an error that names what is wrong."""

import json

from hypothesis import given
from hypothesis import strategies as st

from llmgw.gateway.errors import ApiError
from llmgw.gateway.surfaces import chat, count_tokens, messages

NAMES = st.sampled_from(
    ["type", "text", "source", "content", "role", "input", "id", "name", "data", "url", "thinking", "tool_use_id"]
)
WORDS = st.sampled_from(
    ["text", "image", "document", "tool_use", "tool_result", "thinking", "user", "assistant", "url"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
BLOCK = st.fixed_dictionaries(
    {"type": WORDS}, optional={"text": st.text(max_size=5), "source": JSON, "content": JSON, "id": JSON, "input": JSON}
)
MESSAGE = st.fixed_dictionaries({"role": WORDS, "content": st.text(max_size=5) | st.lists(BLOCK | JSON, max_size=3)})
FIELDS = st.sampled_from(
    [
        "model",
        "max_tokens",
        "system",
        "tools",
        "tool_choice",
        "thinking",
        "output_config",
        "metadata",
        "stream",
        "other",
    ]
)


@given(st.lists(MESSAGE, max_size=3), st.dictionaries(FIELDS, JSON, max_size=3))
def test_a_request_is_a_chat_or_an_error_of_the_clients(turns, fields):
    raw = json.dumps({"model": "tiny", "max_tokens": 9, "messages": turns, **fields}).encode()
    for surface in (messages, count_tokens):
        try:
            body = surface.translate(raw)
            surface.read(body)
        except ApiError as error:
            if error.status != 400 or not error.message:
                raise
            continue
        assert chat.conversation(json.loads(body)).messages >= 1
