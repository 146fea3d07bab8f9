"""A whole request: Anthropic's fields as those of a chat."""

from collections.abc import Mapping
from typing import Any

from msgspec import Raw

from llmgw.core.messages.turns import chat_messages
from llmgw.core.untranslatable import Untranslatable
from llmgw.schema.anthropic.request import (
    AnyChoice,
    CountRequest,
    Effort,
    MessagesRequest,
    NoChoice,
    ThinkingDisabled,
    ThinkingEnabled,
    Tool,
    ToolChoice,
)

Body = dict[str, Any]

WITHOUT_EFFECT = frozenset(
    {
        "anthropic_beta",
        "anthropic_version",
        "betas",
        "cache_control",
        "context_management",
        "diagnostics",
        "inference_geo",
        "service_tier",
        "speed",
        "user_profile_id",
    }
)
"""Fields that are taken and do nothing: they choose among what a provider sells, or say what it may leave out."""

REFUSED = {
    "container": "no code is run here",
    "fallbacks": "weights and routes of models are the operator's",
    "functions": "a field of chats; use 'tools'",
    "logprobs": "an answer here has no place for them; ask /v1/chat/completions",
    "max_completion_tokens": "a field of chats; use 'max_tokens'",
    "mcp_servers": "no tools are called here; call them and send their results",
    "n": "an answer here is one message; ask /v1/chat/completions",
    "stop": "a field of chats; use 'stop_sequences'",
    "stream_options": "a field of chats; usage is always told",
    "top_logprobs": "an answer here has no place for them; ask /v1/chat/completions",
    "user": "a field of chats; use 'metadata.user_id'",
}
"""Fields that would change the answer and cannot be honoured, each with what to do."""

_NOTHING = (b"null", b"[]", b"{}")
_EFFORTS = {Effort.XHIGH: Effort.HIGH, Effort.MAX: Effort.HIGH}
"""What engines know no more of."""
_THOUGHT = ("enable_thinking", "thinking")
"""What chat templates call the switch."""


def chat_body(request: MessagesRequest, members: Mapping[str, Raw]) -> Body:
    """Give the body of a chat. `members` are all fields as they came: those nobody here knows are the engine's.

    Raises `Untranslatable`.
    """
    body = prompt_body(request, members)
    body["max_tokens"] = request.max_tokens
    for name in ("temperature", "top_p", "top_k"):
        if getattr(request, name) is not None:
            body[name] = getattr(request, name)
    if request.stop_sequences:
        body["stop"] = request.stop_sequences
    if request.metadata is not None and request.metadata.user_id is not None:
        body["user"] = request.metadata.user_id
    if request.stream:
        body["stream"] = True
        # The tokens of the prompt belong into the first event, so they are wanted before the last chunk.
        body["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
    return body


def prompt_body(request: CountRequest, members: Mapping[str, Raw]) -> Body:
    """Give the part of the body that the prompt is made of. Raises `Untranslatable`."""
    messages = chat_messages(request.system, request.messages)
    body: Body = {**_passed_on(request, members), "model": request.model, "messages": messages}
    if request.tools:
        body["tools"] = [_tool(tool, f"tools[{index}]") for index, tool in enumerate(request.tools)]
    body |= _choice(request) | _thinking(request, members) | _output(request)
    if messages[-1]["role"] == "assistant" and "tool_calls" not in messages[-1]:
        body |= {"continue_final_message": True, "add_generation_prompt": False}
    return body


def _passed_on(request: CountRequest, members: Mapping[str, Raw]) -> Body:
    out: Body = {}
    for name, value in members.items():
        if name in request.__struct_fields__ or name in WITHOUT_EFFECT:
            continue
        if name in REFUSED and bytes(value) not in _NOTHING:
            raise Untranslatable(REFUSED[name], field=name)
        out[name] = value
    return out


def _tool(tool: Tool, where: str) -> Body:
    if tool.type not in (None, "custom"):
        raise Untranslatable(
            f"{tool.type!r} is a tool that Anthropic defines; tools here are of type 'custom', with an 'input_schema'",
            field=f"{where}.type",
        )
    if tool.input_schema is None:
        raise Untranslatable("a tool needs the schema of its input", field=f"{where}.input_schema")
    if tool.allowed_callers is not None and "direct" not in tool.allowed_callers:
        raise Untranslatable("only the model itself calls tools here ('direct')", field=f"{where}.allowed_callers")
    function: Body = {"name": tool.name, "parameters": tool.input_schema}
    if tool.description is not None:
        function["description"] = tool.description
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}


def _choice(request: CountRequest) -> Body:
    choice = request.tool_choice
    if choice is None:
        return {}
    if not request.tools:
        if isinstance(choice, AnyChoice | ToolChoice):
            raise Untranslatable("a tool must be called and 'tools' names none", field="tool_choice")
        return {}
    if isinstance(choice, NoChoice):
        return {"tool_choice": "none"}
    body: Body = {"tool_choice": "auto"}
    if isinstance(choice, AnyChoice):
        body["tool_choice"] = "required"
    elif isinstance(choice, ToolChoice):
        body["tool_choice"] = {"type": "function", "function": {"name": choice.name}}
    if choice.disable_parallel_tool_use:
        body["parallel_tool_calls"] = False
    return body


def _thinking(request: CountRequest, members: Mapping[str, Raw]) -> Body:
    thinking = request.thinking
    if thinking is None:
        return {}
    body: Body = {}
    if "chat_template_kwargs" not in members:
        body["chat_template_kwargs"] = dict.fromkeys(_THOUGHT, not isinstance(thinking, ThinkingDisabled))
    if isinstance(thinking, ThinkingEnabled):
        body["thinking_budget_tokens"] = thinking.budget_tokens
    return body


def _output(request: CountRequest) -> Body:
    body: Body = {}
    config = request.output_config
    if config is not None and config.effort is not None:
        body["reasoning_effort"] = _EFFORTS.get(config.effort, config.effort)
    wanted = (config and config.format) or request.output_format
    if wanted:
        named = {"name": "answer", "schema": wanted.schema, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": named}
    return body
