"""Takes secrets out of a text before anything stores it.

What is a secret: keys of known make (OpenClaw's list, AWS, Anthropic, Hugging Face, Stripe and others), private keys,
JWTs, passwords in URLs, `Authorization` headers, assignments and flags named like a secret, and "my password is …". Of
a secret of 18 characters or more the first six and last four are kept, so that its owner knows which it was; of a
shorter one nothing is. Where only the name says that something is a secret, the value must look like one: prose about
passwords is left alone.
"""

from __future__ import annotations

import re
from collections import Counter

KEEP_FROM = 18
"""characters: what is shorter is masked whole"""
MASK = "***"

# Everything below needs one of these; most texts have none and are done after one look. Plain searches for each take
# a tenth of the time of one pattern with all of them.
_HINTS = tuple(
    "sk- sk_ rk_ ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- xox xapp- gsk_ aiza pplx- npm_ hf_ akia asia eyj :aa :// "
    "-----begin bearer authorization key token secret pass pwd".split()
)
_PIN = re.compile(r"\bpin\b")

_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:[^-]|-(?!----))*"
    r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?"
)

# Keys that are known by their look. A run of key characters before them would make them part of something else,
# and trying each place inside such a run would take quadratic time.
_MADE = re.compile(
    r"(?<![\w-])(?:"
    r"(?P<anthropic>sk-ant-[\w-]{16,})"
    r"|(?P<openai>sk-(?=[A-Za-z_-]*\d)[\w-]{20,})"
    r"|(?P<stripe>[sr]k_(?:live|test)_[A-Za-z0-9]{16,})"
    r"|(?P<github>gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,})"
    r"|(?P<gitlab>glpat-[\w-]{16,})"
    r"|(?P<slack>xox[abeprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,})"
    r"|(?P<groq>gsk_[A-Za-z0-9]{20,})"
    r"|(?P<google>AIza[\w-]{30,})"
    r"|(?P<perplexity>pplx-[A-Za-z0-9]{20,})"
    r"|(?P<npm>npm_[A-Za-z0-9]{30,})"
    r"|(?P<huggingface>hf_[A-Za-z0-9]{20,})"
    r"|(?P<aws>(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9]))"
    r"|(?P<telegram>\d{8,10}:AA[\w-]{33}(?![\w-]))"
    r"|(?P<jwt>eyJ[\w-]{8,}\.eyJ[\w-]{8,}(?:\.[\w-]*)?)"
    r")"
)

_URL = re.compile(r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{0,100}:(?P<value>[^\s/@]{1,200})@", re.IGNORECASE)

_HEADER = re.compile(
    r"\bauthorization[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?(?:basic|bearer|token)[ \t]{1,4}(?P<value>[\w.~+/=-]{8,})"
    r"|\bbearer[ \t]{1,4}(?P<value2>(?=[A-Za-z._~+/=-]*\d)[\w.~+/=-]{18,})",
    re.IGNORECASE,
)

_NAME = (
    r"(?:api|access|auth|refresh|id|bot|client|secret|private|signing|encryption|session|deploy)[ _-]?"
    r"(?:key|token|secret)"
    r"|token|secret|password|passwd|passphrase|passcode|pwd"
)
_QUOTED = r"\"(?P<double>[^\"\n]{4,400})\"|'(?P<single>[^'\n]{4,400})'|`(?P<tick>[^`\n]{4,400})`"

# NAME=value and "name": "value". The shell's names may have anything before KEY, TOKEN, SECRET or PASSWORD.
_ASSIGNED = re.compile(
    r"(?:(?<![A-Za-z0-9_])(?P<shell>[A-Z0-9_]{0,64}(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PWD))"
    rf"|(?<![A-Za-z0-9])(?i:(?P<name>{_NAME})))"
    rf"[\"']?[ \t]{{0,4}}(?P<sign>:=|=>|[:=])[ \t]{{0,4}}(?:{_QUOTED}|(?P<bare>[^\s\"'`,;)}}\]]{{4,400}}))"
)

_FLAG = re.compile(
    rf"(?<![\w-])--(?P<name>(?i:{_NAME}|key))(?P<sign>=|[ \t]{{1,4}})"
    rf"(?:{_QUOTED}|(?P<bare>[^\s\"'`,;)}}\]-][^\s\"'`,;)}}\]]{{3,400}}))"
)

_SAID = re.compile(
    rf"(?<![A-Za-z0-9])(?i:(?P<name>{_NAME}|pin)(?P<sign>[ \t]{{1,4}}(?:is|was)[ \t]{{1,4}}(?:now[ \t]{{1,4}})?))"
    rf"(?:{_QUOTED}|(?P<bare>[^\s\"'`,;)}}\]]{{4,400}}))"
)

_PLACEHOLDER = re.compile(r"[$<{\[(%]|(?i:os\.|env\b|process\.|none$|null$|true$|false$|your[_-]|x{4,}$|\.{3})")
_PASSWORD = re.compile(r"pass|pwd")
_STOPS = ".!?:"
_DIGIT_OR_SIGN = re.compile(r"[\d!@#$%^&*~|]")
# What is said about a password, rather than the password.
_ABOUT = frozenset(
    "absent accepted allowed almost always anything back based being blank case changed clear compromised "
    "correct created denied deprecated different disabled displayed easy empty enabled encrypted enough entered "
    "expired exposed forgotten free going gone good hard hashed here hidden important incorrect invalid just kept "
    "known leaked like likely long lost mandatory masked missing more needed never nobody nothing nowhere only "
    "optional over passed people present printed private protected quite rather read really redacted rejected "
    "required reset rotated safe same saved secret secure sent shared short shown simple simply someone "
    "something stale still stolen stored string strong supplied that their there these they this those typed "
    "unchanged unique unknown unset used useless valid verified very weak what when where which with without "
    "wrong your".split()
)


def redact(text: str) -> tuple[str, dict[str, int]]:
    """The text with its secrets masked, and how many of which make there were.

    Redacting what was redacted changes nothing. Time grows linearly with the text.
    """
    found: Counter[str] = Counter()
    # One mask can uncover another (a key inside a quoted value): a second look finds it, a third finds nothing.
    for _ in range(4):
        if not _suspect(text.lower()):
            break
        before = text
        text = _once(text, found)
        if text == before:
            break
    return text, dict(found)


def redact_lines(text: str) -> list[str]:
    """The lines of a text with its secrets masked, each with its number: one of several lines leaves blank ones."""
    return redact(_PRIVATE_KEY.sub(lambda key: MASK + "\n" * key.group().count("\n"), text))[0].split("\n")


def _suspect(lower: str) -> bool:
    """Whether there may be a secret in a text, given in lower case."""
    for hint in _HINTS:  # a loop, not `any`: it is asked of every memory that is shown
        if hint in lower:
            return True
    return "pin" in lower and _PIN.search(lower) is not None


def mask(secret: str) -> str:
    return f"{secret[:6]}…{secret[-4:]}" if len(secret) >= KEEP_FROM else MASK


def _once(text: str, found: Counter[str]) -> str:
    def whole(match: re.Match[str]) -> str:
        found[match.lastgroup or "private key"] += 1
        return mask(match.group()) if match.lastgroup else MASK

    def part(kind: str, match: re.Match[str], group: str) -> str:
        value = match[group] if group != "bare" else match[group].rstrip(_STOPS)
        if _masked(value):
            return match.group()
        found[kind] += 1
        start = match.start(group) - match.start()
        return match.group()[:start] + mask(value) + match.group()[start + len(value) :]

    def header(match: re.Match[str]) -> str:
        return part("bearer", match, "value" if match["value"] else "value2")

    def named(match: re.Match[str]) -> str:
        group = next(g for g in ("double", "single", "tick", "bare") if match[g] is not None)
        if not _secret(match, group):
            return match.group()
        return part("password" if _PASSWORD.search(_name(match)) else "assignment", match, group)

    text = _PRIVATE_KEY.sub(whole, text)
    text = _MADE.sub(whole, text)
    text = _URL.sub(lambda match: part("url", match, "value"), text)
    text = _HEADER.sub(header, text)
    text = _ASSIGNED.sub(named, text)
    text = _FLAG.sub(named, text)
    return _SAID.sub(named, text)


def _masked(value: str) -> bool:
    return not value.strip("*") or (len(value) == 11 and value[6] == "…")


def _name(match: re.Match[str]) -> str:
    return (match["name"] or match["shell"]).lower()


def _secret(match: re.Match[str], group: str) -> bool:
    """Whether a value that stands beside a secret's name is one."""
    value, name, sign = match[group], _name(match), match["sign"].strip()
    core = value.rstrip(_STOPS)
    telling = bool(_DIGIT_OR_SIGN.search(core))
    if _PLACEHOLDER.match(value) or len(core) < 4:
        return False
    if name == "pin":
        return core.isdigit()
    if group != "bare":
        return telling or (core.lower() not in _ABOUT if " " not in core else "phrase" in name)
    if "(" in value:
        return False
    if sign == "=" and match.start("sign") == match.end("name" if match["name"] else "shell"):
        return telling or not match["name"] or bool(_PASSWORD.search(name))
    if telling:
        return len(core) >= 8 or bool(_PASSWORD.search(name))
    # A bare word that ends its clause, and is not one of those that passwords are said to be.
    end = match.string[match.end() : match.end() + 1]
    ends = value != core or not end or end in "\n,;)\"'"
    return bool(_PASSWORD.search(name)) and ends and len(core) >= 5 and core.lower() not in _ABOUT
