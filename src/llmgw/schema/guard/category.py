"""Kinds of harm, the same for all judges: their own codes differ from family to family and between versions."""

from enum import StrEnum


class Category(StrEnum):
    """What a text is unsafe for. Policies name these; each judge's adapter maps its own codes onto them."""

    VIOLENT_CRIMES = "violent_crimes"
    NONVIOLENT_CRIMES = "nonviolent_crimes"
    SEX_CRIMES = "sex_crimes"
    CHILD_EXPLOITATION = "child_exploitation"
    DEFAMATION = "defamation"
    SPECIALIZED_ADVICE = "specialized_advice"
    PRIVACY = "privacy"
    INTELLECTUAL_PROPERTY = "intellectual_property"
    WEAPONS = "weapons"
    HATE = "hate"
    SELF_HARM = "self_harm"
    SEXUAL_CONTENT = "sexual_content"
    ELECTIONS = "elections"
    CODE_ABUSE = "code_abuse"
    UNETHICAL = "unethical"
    POLITICS = "politics"
    JAILBREAK = "jailbreak"
