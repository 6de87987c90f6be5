"""Secrets out of texts: what is masked, and what is left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.lib.redact import mask, redact

# Put together at run time, so that no scanner of repositories takes this file for a leak.
BODY = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0"
KEYS = {
    "anthropic": "sk-ant-" + "api03-" + BODY,
    "openai": "sk-" + "proj-" + BODY,
    "stripe": "sk_" + "live_" + BODY[:24],
    "github": "ghp_" + BODY[:36],
    "github fine-grained": "github_pat_" + BODY,
    "gitlab": "glpat-" + BODY[:20],
    "slack": "xox" + "b-" + "123456789012-" + BODY[:24],
    "slack app": "xapp-" + "1-A" + BODY,
    "groq": "gsk_" + BODY,
    "google": "AIza" + BODY[:35],
    "perplexity": "pplx-" + BODY,
    "npm": "npm_" + BODY[:36],
    "huggingface": "hf_" + BODY[:34],
    "aws": "AKIA" + "IOSFODNN7EXAMPLE",
    "telegram": "123456789:" + "AA" + BODY[:33],
    "jwt": "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJ" + "zdWIiOiIxMjM0NTY3ODkwIn0" + "." + BODY,
}


@pytest.mark.row("A084", "keys of the makers in OpenClaw's list, and of others, are masked anywhere in a text")
@pytest.mark.parametrize("make", KEYS)
def test_a_key_of_known_make_is_masked_wherever_it_stands(make):
    """The first six and last four characters are kept; the sentence round it stays."""
    key = KEYS[make]
    text, found = redact(f"Use {key}, please ({key}).")
    assert text == f"Use {key[:6]}…{key[-4:]}, please ({key[:6]}…{key[-4:]})."
    assert found == {make.partition(" ")[0]: 2}


@pytest.mark.row("A084", "a private key is masked as a whole, even when it is cut off")
def test_a_private_key_is_masked_whole_even_when_its_end_is_missing():
    """Nothing of a PEM block is kept, nor of one that was cut off."""
    for end in ("-----END RSA PRIVATE KEY-----", ""):
        text, found = redact("key:\n-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQ==\n" + end)
        assert text == "key:\n***"
        assert found == {"private key": 1}


@pytest.mark.row(
    "A084", "values of KEY, TOKEN, SECRET and PASSWORD, of flags and JSON fields, and Bearer tokens are masked"
)
@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("postgres://app:s3cret@db.local/x", "postgres://app:***@db.local/x"),
        ("DATABASE_PASSWORD=hunter2", "DATABASE_PASSWORD=***"),
        ("export OPENWEATHER_KEY=abcdefgh", "export OPENWEATHER_KEY=***"),
        ('{"apiKey": "abcd1234efgh"}', '{"apiKey": "***"}'),
        ("{'secret': 'swordfish'}", "{'secret': '***'}"),
        ("client_secret: 8f14e45fceea167a5a36", "client_secret: 8f14e4…5a36"),
        ("curl --api-key abc123xyz -v", "curl --api-key *** -v"),
        ("tool --password=letmein now", "tool --password=*** now"),
        ("Authorization: Bearer abcdefgh", "Authorization: Bearer ***"),
        ("send Bearer abcdefghij0123456789", "send Bearer abcdef…6789"),
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic ***"),
        ("my password is hunter2", "my password is ***"),
        ("The wifi password is swordfish.", "The wifi password is ***."),
        ("password: Tr0ub4dor&3", "password: ***"),
        ('the passphrase is "correct horse battery staple"', 'the passphrase is "correc…aple"'),
        ("my pin is 4711.", "my pin is ***."),
    ],
)
def test_what_is_named_like_a_secret_and_looks_like_one_is_masked(text, redacted):
    """Values of 18 characters and more keep 6 + 4; shorter ones nothing."""
    assert redact(text)[0] == redacted


@pytest.mark.parametrize(
    "text",
    [
        "The password is stored hashed, and the password is required.",
        "Her password is very weak, which is why the token is rotated daily.",
        "Key: we ship on Friday. The secret is to start early.",
        "The secret of a good soup is patience; the key is salt.",
        "password: string, token: string",
        "token = tokenizer.next(); password = getpass()",
        "OPENAI_API_KEY=$OPENAI_API_KEY and api_key: <your-key>",
        "API_KEY=${KEY} TOKEN={{ token }}",
        "max_tokens: 4096 and tokens per minute: 60000000",
        "the bearer of good news, bearer responsibilities",
        "sk-learn is what people call scikit-learn-the-library",
        "https://example.com:8080/path?x=1 and git@github.com:org/repo.git",
        "We met at 10:30:00, ratio 123456789:1, id 550e8400-e29b-41d4-a716-446655440000.",
        "The keyboard key is stuck; monkey=banana; a hot key press",
        "Pass the salt. The pin is on the map. My passport is in the drawer.",
        "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
        "--password is deprecated, use --token-file instead",
    ],
)
def test_prose_and_code_about_secrets_are_left_alone(text):
    """A memory system that masks ordinary sentences loses memories."""
    assert redact(text) == (text, {})


@pytest.mark.row("A084", "a mask keeps the first 6 and last 4 characters of 18 or more, and none of fewer")
def test_a_mask_keeps_ten_characters_of_eighteen_and_none_of_seventeen():
    """6 + 4 of 18 leaves eight hidden; of fewer it would show too much."""
    assert mask("a" * 6 + "b" * 8 + "c" * 4) == "aaaaaa…cccc"
    assert mask("x" * 17) == "***"


PIECES = st.sampled_from(
    [
        *KEYS.values(),
        "password",
        "is",
        "=",
        ":",
        " ",
        '"',
        "'",
        "--token",
        "TOKEN=",
        "Bearer ",
        "hunter2",
        "***",
        "…",
        "https://a:b@c",
        "-----BEGIN PRIVATE KEY-----",
        "-",
        "_",
        "\n",
        "abcdef…wxyz",
        "sk-",
        "eyJ",
        ".",
        "pin is 1234",
    ]
)


@given(st.lists(st.one_of(PIECES, st.text(max_size=8)), max_size=20).map("".join))
def test_redacting_twice_is_redacting_once(text):
    """What is stored can be sent again without change; the second time nothing is counted."""
    once, _ = redact(text)
    assert redact(once) == (once, {})


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Deployed with password=hunter2secret today", "Deployed with password=*** today"),
        ("password=*** afternoon4", "password=*** afternoon4"),
        ("**Password:** hunter2secret today", "**Password:** *** today"),
        ("***Password:*** hunter2secret today", "***Password:*** *** today"),
    ],
)
def test_the_word_after_a_masked_value_stays(text, masked):
    """A second look takes the asterisks of a mask neither for Markdown nor for the blanks before a value."""
    assert redact(text)[0] == masked
    assert sum(redact(text)[1].values()) == (text != masked)


@pytest.mark.parametrize(
    "unit",
    [
        "sk-",
        "eyJa",
        "-----BEGIN PRIVATE KEY-----",
        "password is ",
        "a://b:",
        "KEY=",
        '"token": "',
        "xoxb-",
        "A_KEY_",
        "--key ",
    ],
)
def test_a_hostile_text_takes_linear_time(unit):
    """Half a million characters made to be tried at every place: quadratic work (10¹¹ steps) would never come back."""
    text = unit * (500_000 // len(unit))
    masked, _ = redact(text)
    assert len(masked) <= len(text)
