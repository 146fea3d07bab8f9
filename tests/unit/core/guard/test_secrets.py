import random

import pytest

from llmgw.core.guard.redact import redacted
from llmgw.core.guard.secrets import SHAPES, SecretScanner, entropy
from llmgw.schema.guard.rule import SecretKind

# Put together here, so that no scanner of repositories takes them for real ones.
TOKENS = {
    SecretKind.AWS_KEY: "AKIA" + "IOSFODNN7EXAMPLE",
    SecretKind.GITHUB_TOKEN: "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789",
    SecretKind.GITLAB_TOKEN: "glpat-" + "abcdefghij0123456789",
    SecretKind.GOOGLE_KEY: "AIza" + "SyA1234567890abcdefghijklmnopqrstuv",
    SecretKind.SLACK_TOKEN: "xoxb-" + "1234567890-abcdefghij",
    SecretKind.STRIPE_KEY: "sk_live_" + "abcdefghij0123456789",
    SecretKind.OPENAI_KEY: "sk-proj-" + "abcdefghijklmnopqrstuvwxyz0123456789ABCD",
    SecretKind.ANTHROPIC_KEY: "sk-ant-api03-" + "abcdefghijklmnopqrstuvwxyz",
    SecretKind.HUGGINGFACE_TOKEN: "hf_" + "abcdefghijklmnopqrstuvwxyzABCDEFGH",
    SecretKind.NPM_TOKEN: "npm_" + "abcdefghijklmnopqrstuvwxyz0123456789",
    SecretKind.PYPI_TOKEN: "pypi-" + "AgEIcHlwaS5vcmc" * 5,
    SecretKind.LLMGW_KEY: "lk_" + "abcdefghijklmnopqrstuvwxyz23",
    SecretKind.JWT: "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NSJ9." + "c2lnbmF0dXJlcw",
}


def kinds(text, *chosen):
    return {span.kind for span in SecretScanner(chosen or tuple(SecretKind)).spans(text)}


def test_every_kind_has_a_shape():
    assert set(SHAPES) == set(SecretKind)


@pytest.mark.parametrize("kind", TOKENS)
def test_a_token_is_found_by_its_shape(kind):
    assert kinds(f"look: {TOKENS[kind]}, thanks", kind) == {kind.value}


def test_a_private_key_is_found_with_its_body():
    key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIB\n-----END RSA PRIVATE KEY-----"
    assert redacted(f"a {key} b", SecretScanner([SecretKind.PRIVATE_KEY]).spans(f"a {key} b")) == "a [private_key] b"


def test_a_private_key_that_is_cut_reaches_to_the_end():
    text = "-----BEGIN PRIVATE KEY-----\nMIIEpAIB"
    assert redacted(text, SecretScanner([SecretKind.PRIVATE_KEY]).spans(text)) == "[private_key]"


def test_only_the_password_of_an_address_is_the_place():
    text = "postgres://user:p4ssw0rd@db/main"
    assert (
        redacted(text, SecretScanner([SecretKind.URL_PASSWORD]).spans(text)) == "postgres://user:[url_password]@db/main"
    )


@pytest.mark.parametrize(
    "text", ["password: Zx9Qw8Er7Ty6", 'API_KEY = "a8f5f167f44f4964e6c998dee827110c"', "token=q1W2e3R4t5Y6"]
)
def test_a_random_word_where_secrets_stand_is_found(text):
    assert kinds(text) == {"random_word"}


@pytest.mark.parametrize(
    "text",
    [
        "The password is a word of at least twelve characters.",
        "token: internationalization",
        "password = aaaaaaaaaaaa1",
        "Read the secret garden, it is a book.",
        "sk-learn and sk-2024 are no keys",
        "https://example.org/a@b",
        "commit 8b9d06b2bcf5a1a2b0e0f6c9d1a2b3c4d5e6f7a8",
    ],
)
def test_what_only_looks_like_a_secret_is_not(text):
    assert kinds(text) == set()


def test_only_chosen_kinds_are_found():
    assert kinds(TOKENS[SecretKind.AWS_KEY], SecretKind.JWT) == set()


def test_random_letters_have_more_entropy_than_words():
    dice = random.Random(3)
    word = "".join(dice.choice("abcdefghijklmnopqrstuvwxyz0123456789") for _ in range(32))
    assert entropy(word) > 3.8 > entropy("administration")
