"""Texts of strangers inside a judge's prompt: whatever could end or extend the frame around them is taken apart.

Engines turn the names of control tokens into the tokens themselves, and judges follow frames that a text only imitates.
The words stay as they are: only what makes a delimiter of them changes.
"""

import re

_CONTROL = re.compile(r"<(?=\|)|(?<=\|)>")
"""`<|eot_id|>`, `<|im_end|>` and all others of that form."""
_MARK = re.compile(r"<(/?(?:s|think|start_of_turn|end_of_turn|bos|eos|pad|unk|guardian|score))>", re.IGNORECASE)
_INSTRUCTION = re.compile(r"\[(/?INST)\]|<<(/?SYS)>>", re.IGNORECASE)
_FRAME = re.compile(
    r"<([\s_/]{0,8}(?:BEGIN|END)[\s_]{1,8}"
    r"(?:UNSAFE[\s_]{1,8}CONTENT[\s_]{1,8}CATEGORIES|SAFETY[\s_]{1,8}POLICY|REFUSAL[\s_]{1,8}POLICY|CONVERSATION)\s{0,8})>",
    re.IGNORECASE,
)
_SPEAKER = re.compile(
    r"(^|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])([ \t*_#>]{0,8})(User|Agent|Assistant|Human|System)([ \t*_]{0,4})[:：]",
    re.IGNORECASE,
)
"""A line that begins like a turn."""


def neutral(text: str) -> str:
    """Take delimiters apart. Doing it again changes nothing."""
    text = _CONTROL.sub(lambda found: "< " if found[0] == "<" else " >", text)
    text = _FRAME.sub(r"(\1)", text)
    text = _MARK.sub(r"(\1)", text)
    text = _INSTRUCTION.sub(lambda found: f"({found[1] or found[2]})", text)
    return _SPEAKER.sub(r"\1\2\3\4 -", text).strip()
