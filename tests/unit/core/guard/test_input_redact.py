from llmgw.core.guard.input_redact import redact_body, still_found
from llmgw.core.guard.openai_turns import chat_conversation, completion_conversation
from llmgw.schema.guard.rule import Action
from llmgw.testing.guard_policies import rule, rule_set

EMAIL = rule_set(rule(personal_data=("email",), action=Action.REDACT)).rules
WORD = rule_set(rule(pattern="secret", action=Action.REDACT, replacement="***")).rules


def test_every_text_of_a_request_is_rewritten_and_the_rest_stays():
    body = {
        "model": "me@example.org",
        "messages": [
            {"role": "user", "content": "mail me@example.org"},
            {"role": "user", "content": [{"type": "text", "text": "or me@example.org"}]},
            {
                "role": "assistant",
                "tool_calls": [{"function": {"name": "f", "arguments": '{"to": "me\\u0040example.org"}'}}],
            },
        ],
        "tools": [{"function": {"description": "asks me@example.org"}}],
        "temperature": 0.5,
    }
    after = redact_body(body, EMAIL)
    assert after["model"] == "me@example.org"
    assert after["temperature"] == 0.5
    assert after["messages"][0]["content"] == "mail [email]"
    assert after["messages"][1]["content"][0]["text"] == "or [email]"
    assert after["messages"][2]["tool_calls"][0]["function"]["arguments"] == '{"to":"[email]"}'
    assert after["tools"][0]["function"]["description"] == "asks [email]"
    assert not still_found(after, EMAIL, chat_conversation)


def test_prompts_are_rewritten_too():
    assert redact_body({"prompt": ["a secret", "b"], "suffix": "secret"}, WORD) == {
        "prompt": ["a ***", "b"],
        "suffix": "***",
    }


def test_pictures_stay_as_they_are():
    part = {"type": "image_url", "image_url": {"url": "data:secret"}}
    assert redact_body({"messages": [{"role": "user", "content": [part]}]}, WORD)["messages"][0]["content"] == [part]


def test_what_cannot_be_rewritten_is_noticed():
    body = {"messages": [{"role": "assistant", "tool_calls": [{"secret": 1}]}]}
    assert still_found(redact_body(body, WORD), WORD, chat_conversation)


def test_what_stands_for_a_place_is_no_place():
    odd = rule_set(rule(pattern="secret|x+", action=Action.REDACT, replacement="xxx")).rules
    assert not still_found(redact_body({"prompt": "a secret"}, odd), odd, completion_conversation)


def test_nesting_without_end_stays_as_it_is():
    deep = "a secret"
    for _ in range(5000):
        deep = [deep]
    body = {"messages": deep}
    assert redact_body(body, WORD)["messages"] is deep
