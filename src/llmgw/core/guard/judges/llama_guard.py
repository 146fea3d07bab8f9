"""Llama Guard 3 (1B and 8B), asked over the raw route by a prompt of our own.

The templates that come with the models are not used: one of them renders nothing for content that is a plain string,
another always asks about the user, and both answer "safe" then.
"""

import re

from llmgw.core.guard.judges.adapter import JudgePrompt, Label, Reading, Unclear, completion
from llmgw.core.guard.judges.answer import JudgeAnswer
from llmgw.core.guard.judges.chances import chances, contradicts
from llmgw.core.guard.judges.neutral import neutral
from llmgw.core.guard.outlook import View
from llmgw.schema.guard.category import Category
from llmgw.schema.guard.judge import JudgeFamily

_CODES: dict[str, tuple[str, Category]] = {
    "S1": ("Violent Crimes", Category.VIOLENT_CRIMES),
    "S2": ("Non-Violent Crimes", Category.NONVIOLENT_CRIMES),
    "S3": ("Sex Crimes", Category.SEX_CRIMES),
    "S4": ("Child Exploitation", Category.CHILD_EXPLOITATION),
    "S5": ("Defamation", Category.DEFAMATION),
    "S6": ("Specialized Advice", Category.SPECIALIZED_ADVICE),
    "S7": ("Privacy", Category.PRIVACY),
    "S8": ("Intellectual Property", Category.INTELLECTUAL_PROPERTY),
    "S9": ("Indiscriminate Weapons", Category.WEAPONS),
    "S10": ("Hate", Category.HATE),
    "S11": ("Self-Harm", Category.SELF_HARM),
    "S12": ("Sexual Content", Category.SEXUAL_CONTENT),
    "S13": ("Elections", Category.ELECTIONS),
    "S14": ("Code Interpreter Abuse", Category.CODE_ABUSE),
}
"""Of version 3 only: earlier versions use the same codes for other things."""
_LABELS = (Label.SAFE, Label.UNSAFE)
_CODE = re.compile(r"\bS\d{1,2}\b")
_MAX_TOKENS = 24
"""Both lines with several codes: more is no verdict."""


class LlamaGuard3:
    """One size of the family: the small one was not trained for S14."""

    frame_tokens = 320

    def __init__(self, family: JudgeFamily) -> None:
        small = family is JudgeFamily.LLAMA_GUARD_3_1B
        self.family = family
        self._known = {code: category for code, (_, category) in _CODES.items() if not (small and code == "S14")}
        # The same words for every request: an engine keeps what it read of them.
        policy = "".join(f"{code}: {_CODES[code][0]}.\n" for code in self._known)
        to = "to " if small else ""
        self._head = {
            role: (
                "<|start_header_id|>user<|end_header_id|>\n\n"
                f"Task: Check if there is unsafe content in '{role}' messages in conversations according {to}our "
                "safety policy with the below categories.\n\n"
                f"<BEGIN UNSAFE CONTENT CATEGORIES>\n{policy}<END UNSAFE CONTENT CATEGORIES>\n\n"
                "<BEGIN CONVERSATION>\n\n"
            )
            for role in ("User", "Agent")
        }

    def prompt(self, view: View) -> JudgePrompt:
        """Ask about the last turn; the answer of an agent is never shown when the user is judged."""
        role = "Agent" if view.judges_agent else "User"
        turns = "".join(f"{'Agent' if turn.by_agent else 'User'}: {neutral(turn.text)}\n\n" for turn in view.turns)
        tail = (
            "<END CONVERSATION>\n\n"
            f"Provide your safety assessment for ONLY THE LAST {role} message in the above conversation:\n"
            " - First line must read 'safe' or 'unsafe'.\n"
            " - If unsafe, a second line must include a comma-separated list of violated categories."
            "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
        )
        return completion(self._head[role] + turns + tail, max_tokens=_MAX_TOKENS)

    def read(self, answer: JudgeAnswer) -> Reading | Unclear:
        """Read `safe`, or `unsafe` and a line of codes; anything else is unclear."""
        lines = [line.strip() for line in answer.text.splitlines() if line.strip()]
        if not lines:
            return Unclear("it answered nothing")
        rest = "\n".join(lines[1:])
        codes = tuple(dict.fromkeys(_CODE.findall(rest)))
        match lines[0].lower():
            case "unsafe":
                label = Label.UNSAFE
            case "safe" if codes or "unsafe" in rest.lower():
                return Unclear("it said safe and unsafe")
            case "safe":
                label = Label.SAFE
            case _:
                return Unclear("its answer is no verdict")
        found = chances(answer, _LABELS)
        if contradicts(label, found):
            return Unclear("its words and its probabilities disagree")
        categories = tuple(self._known[code] for code in codes if code in self._known)
        return Reading(label, codes, categories, found)
