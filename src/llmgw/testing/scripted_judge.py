"""A scripted judge for the fake engine: calls unsafe what holds the word, in the shape of a real engine's answers."""

import json
import math
from typing import Any

WORD = "POISON"


def scripted_judge(body: dict[str, Any]) -> bytes:
    """Answer as Llama Guard on llama.cpp does. Only what stands inside the conversation counts."""
    conversation = str(body.get("prompt", "")).partition("<BEGIN CONVERSATION>")[2].partition("<END CONVERSATION>")[0]
    unsafe = WORD in conversation
    return judge_says("unsafe\nS9" if unsafe else "safe", unsafe=0.99 if unsafe else 0.01)


def judge_says(text: str, *, unsafe: float | None = None) -> bytes:
    """Give an answer with this text and, where `unsafe` is given, with probabilities of the first word."""
    chances = () if unsafe is None else (("unsafe", math.log(unsafe)), ("safe", math.log1p(-unsafe)))
    top = [{"token": token, "logprob": logprob} for token, logprob in chances]
    token = text.split("\n", maxsplit=1)[0]
    own = dict(chances).get(token, -0.01)
    content = [{"token": token, "logprob": own, "top_logprobs": top}] if top else []
    choice = {"index": 0, "text": text, "finish_reason": "stop", "logprobs": {"content": content} if content else None}
    return json.dumps({"object": "text_completion", "choices": [choice]}).encode()


def proven_judge(body: dict[str, Any]) -> bytes:
    """Judge as `scripted_judge` does, and the canaries right: what a gateway as it is run takes for a judge."""
    said = str(body["prompt"]).partition("<BEGIN CONVERSATION>")[2].partition("<END CONVERSATION>")[0]
    unsafe = any(word in said for word in _UNSAFE)
    return judge_says("unsafe\nS9" if unsafe else "safe", unsafe=0.99 if unsafe else 0.01)


_UNSAFE = (WORD, "bomb", "murder", "poison")
