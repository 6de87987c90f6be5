"""Masks the secrets in a text before it is stored.

Secrets are keys in a known format (`fusion.lib.secret_kinds`), private keys, passwords and tokens in URLs, addresses of
webhooks, authorisation headers, cookies, assignments and flags with the name of a secret in several languages, "my
password is …", and numbers of payment cards and bank accounts with correct check digits. The first six and last four
characters of a secret with 18 or more stay, so that its owner recognises it; a shorter one is masked completely. If
only a name indicates a secret, the value must look like one: prose about passwords is not changed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from fusion.lib.secret_kinds import MADE, SHORTEST, Made

KEEP_FROM = 18
"""minimum characters of a secret whose ends are shown; a shorter one is masked completely"""
MASK = "***"

# Everything else needs one of these; most texts have none and are done after one look. Plain searches for each take a
# tenth of the time of one pattern with all of them.
_NAMES = (
    *"key token secret pass pwd phrase otp contrase senha wachtwoord parola kennwort creds masterauth".split(),
    *("mot de", "pw:", "pw=", "2fa", "mfa", "recovery", "backup code"),
)
_FOREIGN_NAMES = tuple("hasło пароль 密码 密碼 パスワード 비밀번호 lösenord şifre contraseña".split())
_OTHER_HINTS = (
    *"----- private-lines authorization bearer cookie sess mnemonic login mysql mariadb curl hook".split(),
    *('"auth"', "_auth", "://", "sig=", "code=", ".sid="),
)
_PIN = re.compile(r"\bpin\b")
_DIGITS_OF_ACCOUNT = 12
"""fewer has no number of a card or an account"""

_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?s:.*?)"
    r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|(?=-----)|\Z)"
)
_CUT_KEY = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_LINE = re.compile(r"[A-Za-z0-9+/=]{20,}+|[A-Za-z0-9+/]{1,76}={1,2}")
_PUTTY_KEY = re.compile(r"Private-Lines: \d{1,4}\n(?P<value>(?:[A-Za-z0-9+/=]{1,80}(?:\n|\Z)){1,100})")


class _Form(NamedTuple):
    """A context in which a secret is written: literals in lower case, one of which a text has, and its expression."""

    kind: str
    hints: tuple[str, ...]
    expression: re.Pattern[str]


def _form(kind: str, hints: str, expression: str) -> _Form:
    return _Form(kind, tuple(hints.split()), re.compile(expression))


_FORMS = (
    _form(
        "url",
        "://",
        r"(?i)(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{1,20}://[^\s/:@\"'<>]{0,100}:(?P<value>[^\s/\"'<>]{1,200})@(?=[\w.\[%-])",
    ),
    _form(
        "url",
        "://",
        r"://(?P<value>(?=[A-Za-z_-]{0,80}\d)[\w-]{20,100})@(?=[\w.-])",
    ),
    _form(
        "webhook",
        "hook",
        r"(?i)hooks\.slack\.com/(?:services|workflows|triggers)/(?P<value>[\w/+-]{20,200})"
        r"|discord(?:app)?\.com/api/(?:v\d{1,2}/)?webhooks/(?P<value2>\d{10,24}/[\w-]{20,120})"
        r"|webhook\.office\.com/webhookb2/(?P<value3>[\w@/-]{30,300})"
        r"|hooks\.zapier\.com/hooks/catch/(?P<value4>\d{3,12}/\w{4,40})",
    ),
    _form(
        "signature",
        "sig key= token= code=",
        r"(?i)[?&;](?:sig|signature|x-amz-signature|x-goog-signature|key|api_?key|token|access_token|code)="
        r"(?P<value>(?=[A-Za-z._~%+/=-]{0,100}\d)[\w.~%+/=-]{16,600})",
    ),
    _form(
        "bearer",
        "authorization bearer",
        r"(?i)\b(?:proxy-)?authorization\\?[\"']?[ \t]{0,4}[:=][ \t]{0,4}\\?[\"']?"
        r"(?>(?:[a-z][a-z0-9-]{1,20}[ \t]{1,4})?)"
        r"(?P<value>[\w.~+/=:-]{8,4000})"
        r"|\bbearer[ \t]{1,4}(?P<value2>(?=[A-Za-z._~+/=-]{0,400}\d)[\w.~+/=-]{18,4000})",
    ),
    _form(
        "cookie",
        "cookie",
        r"(?i)\b(?:set-)?cookie\\?[\"']?[ \t]{0,4}[:=][ \t]{0,4}\\?[\"']?"
        r"(?P<value>[\w.-]{1,80}=[^\s\"']{4,200}(?:;[ ]?[\w.-]{1,80}(?:=[^\s\"';]{0,400})?){0,40})",
    ),
    _form(
        "session",
        "sess .sid=",
        r"(?i)(?<![\w.])(?:phpsessid|jsessionid|asp\.net_sessionid|connect\.sid|sessionid|_session|session)="
        r"(?P<value>(?=[A-Za-z%._-]{0,60}\d)[\w%.+/=-]{16,400})",
    ),
    _form(
        "netrc",
        "login",
        r"\b(?:machine[ \t]{1,4}[\w.:-]{1,100}|default)\s{1,8}login[ \t]{1,4}[^\s:]{1,100}\s{1,8}password[ \t]{1,4}"
        r"(?P<value>[^\s,;]{4,200})",
    ),
    _form(
        "command",
        "mysql mariadb sshpass curl --user wget http",
        r"\b(?:mysql\w{0,10}|mariadb)\b[^\n|;]{0,200}?[ \t]-p(?P<value>[^\s\"'-][^\s\"']{3,100})"
        r"|\bsshpass[ \t]{1,4}-p[ \t]{0,4}[\"']?(?P<value2>[^\s\"']{4,100})"
        r"|\bcurl\b[^\n|;]{0,200}?[ \t](?:-u|--user)[ =\t][\"']?[^\s:\"']{1,100}:(?P<value3>[^\s\"']{4,200})",
    ),
    _form(
        "docker",
        '"auth" _auth',
        r"(?:\"auth\"\s{0,4}:\s{0,4}\"|\b_auth[ ]?=[ ]?)(?P<value>[A-Za-z0-9+/]{12,400}={0,2})",
    ),
    _form(
        "element",
        "</",
        r"(?i)<(?:\w{1,40}[:.-])?(?:password|passwd|pwd|secret|(?:api|access|secret|auth)[_-]?(?:key|token)|token)>"
        r"(?P<value>[^<>\s]{4,400})</",
    ),
    _form(
        "mnemonic",
        "phrase mnemonic words",
        r"(?i)\b(?:(?:seed|recovery|mnemonic|backup|secret)[ _-]?(?:phrase|words)|mnemonic)[\"']?"
        r"[ \t]{0,4}(?:[:=]|is)[ \t]{0,4}[\"']?(?P<value>(?:[a-z]{3,8}[ ]){11,23}[a-z]{3,8})\b",
    ),
)

_NAME = (
    r"(?:api|access|auth|refresh|id|bot|client|secret|private|signing|encryption|session|deploy|account|master|admin"
    r"|storage|subscription|licen[cs]e|webhook|shared[ _-]?access|service|app|application|user|personal|security|csrf"
    r"|master|root|db|database|function|host|ssh|ssl|tls|gpg|pgp|hmac|jwt|cookie|consumer|integration|project|instrumentation"
    r"|fastly|x)[ _-]?(?:key|token|secret|pass(?:word)?|pwd)(?:[ _-]?(?:data|base64))?"
    r"|(?:totp|otp|2fa|mfa)[ _-]?(?:seed|secret|key)|(?:recovery|backup)[ _-]?(?:codes?|key)"
    r"|requirepass|masterauth|token|secret|password|passwd|passphrase|passcode|pwd|passwort|kennwort|contrase[nñ]a|senha"
    r"|mot de passe|wachtwoord|hasło|пароль|lösenord|parola|şifre|密码|密碼|パスワード|비밀번호"
)
_CAMEL = (
    r"(?:Pass(?:word|wd|phrase)|Token|Secret|(?:Api|Access|Secret|Private|Account|Master|Auth|Signing|Encryption|Storage)"
    r"(?:Key|Token|Secret))"
)
_QUOTED = (
    r"\"(?P<double>[^\"\n]{4,400}|[\w+/=.~-]{401,}+)\"|'(?P<single>[^'\n]{4,400}|[\w+/=.~-]{401,}+)'|`(?P<tick>[^`\n]{4,400})`"
    r"|\\\"(?P<escaped>[^\"\\\n]{4,400})\\\""
)
_BARE = r"(?P<bare>[^\s\"'`,;)}\]\u3002\uff0c\u3001\\|][^\s\"'`,;)}\]\u3002\uff0c\u3001]{3,}+)"

# NAME=value and "name": "value". The shell's names may have anything before KEY, TOKEN, SECRET or PASSWORD.
_ASSIGNED = re.compile(
    r"(?:(?<![A-Za-z0-9_])(?P<shell>[A-Z0-9_]{0,64}(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PWD|PASS))"
    rf"|(?:(?<![A-Za-z0-9])|(?<=\\n))(?i:(?P<name>{_NAME}))|(?<=[a-z0-9])(?P<camel>{_CAMEL}))"
    rf"\\?[\"'*_`]{{0,3}}[ \t]{{0,4}}(?P<sign>:=|=>|[:=\uff1a])(?:[ \t*]{{0,4}}|[ ]?&gt;)(?:{_QUOTED}|{_BARE})"
)

_FLAG = re.compile(
    rf"(?<![\w-])--(?P<name>(?i:(?:\w{{1,20}}-){{0,2}}(?:{_NAME}|key|pass)))(?P<sign>=|[ \t]{{1,4}})"
    rf"(?:{_QUOTED}|(?!-){_BARE})"
)

_SAID = re.compile(
    rf"(?<![A-Za-z0-9])(?i:(?P<name>{_NAME}|pin)"
    r"(?P<sign>[ \t]{1,4}(?:is|was|ist|lautet|war|es|est|é|è|är|on|jest|to)[ \t]{1,4}(?:now[ \t]{1,4})?"
    r"|[ ]?(?:是|为|為|は|는|은)[ ]?|[ ]?：[ ]?))"
    rf"(?:{_QUOTED}|{_BARE})"
)

_WITH = re.compile(
    r"(?<![A-Za-z0-9-])(?i:(?P<name>password|passwd|pwd|passwort|pw|pass|creds?)"
    r"(?P<sign>[ \t]{1,2}|[ \t]?[:=][ \t]{0,2}))"
    r"(?P<bare>(?=[^\s\d]{0,40}\d)(?=[^\sA-Za-z]{0,40}[A-Za-z])[^\s\"'`,;(){}\[\]<>/]{6,60}+)(?![(\[/])"
)
"""… with the password hunter2: what follows has letters and digits"""

_CARD = re.compile(
    r"(?<![\w.,/-])(?P<value>\d{4}([ -])\d{4}\2\d{4}\2\d{4}|3[47]\d\d([ -])\d{6}\3\d{5}|[3-6]\d{14,15})"
    r"(?![\w/-]|[.,]\d)"
)
_CARD_BEGINS = re.compile(r"4|5[1-5]|2(?:2[2-9]|[3-6]\d|7[01]|720)|3[47]|35(?:2[89]|[3-8])|6011|65|64[4-9]")
_IBAN = re.compile(
    r"(?<![\w.-])(?P<value>[A-Z]{2}\d\d(?:[A-Z0-9]{11,30}|(?: [A-Z0-9]{4}){2,7}(?: [A-Z0-9]{1,3})?))(?![\w-])"
)

_PLACEHOLDER = re.compile(
    r"[$<{\[(%]|(?i:os\.|env\b|process\.|none$|null$|true$|false$|your[_-]|my[_-]|x{4,}$|\.{3}|example|changeme|redacted"
    r"|secrets?\.|vault:|op://|file:|ref:|https?://|\.\.?/|[a-z]:\\)"
)
_PATH = re.compile(r"~?/|\.\.?/")
_RANDOM = re.compile(r"(?=[^/\d]{0,200}\d)(?=[^/A-Z]{0,200}[A-Z])(?=[^/a-z]{0,200}[a-z])[\w+=]{16}")
_CODE = re.compile(r"[A-Za-z_][A-Za-z_]*\d{0,4}(?:(?:\.|::|->)[A-Za-z_][A-Za-z_]*\d{0,4}){1,8}[.:]?")
"""a name with a path: config.db2.password"""
_PASSWORD = re.compile("pass|pwd|wort|contrase|senha|hasło|пароль|lösen|parola|şifre|密|パス|비밀|masterauth")
_STOPS = ".!?:"
_DIGIT_OR_SIGN = re.compile(r"[\d!@#$%^&*~|]")
# What is said about a password, rather than the password.
_ABOUT = frozenset(
    "name named names field type text str token tokens password passwords key keys credential credentials "
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
    """The text with its secrets masked, and the number of secrets by kind.

    Idempotent, and linear in the text.
    """
    found: Counter[str] = Counter()
    # One mask can uncover another secret (a key inside a quoted value), which the second round finds.
    for _ in range(4):
        lower = text.lower()
        kinds, names = _kinds_in(text), _names_in(lower)
        if not kinds and not names and not _is_suspect(text, lower):
            break
        before = text
        text = _once(text, lower, kinds, names, found)
        if text == before:
            break
    return text, dict(found)


def redact_lines(text: str) -> list[str]:
    """The lines of a text with its secrets masked; a secret of several lines leaves blank lines, so numbers stay."""
    text = _PRIVATE_KEY.sub(lambda key: _blanked(key.group()), text)
    text = _PUTTY_KEY.sub(lambda key: key.group()[: key.start("value") - key.start()] + _blanked(key["value"]), text)
    text = _without_cut_key(text, Counter(), blank_lines=True)
    return redact(text)[0].split("\n")


def _blanked(lines: str) -> str:
    """A mask, and as many line breaks as in ``lines``."""
    return MASK + "\n" * lines.count("\n")


def mask(secret: str) -> str:
    """The first six and last four characters of a secret; of a short one, `MASK`."""
    return f"{secret[:6]}…{secret[-4:]}" if len(secret) >= KEEP_FROM else MASK


def _names_in(lower: str) -> list[str]:
    """The parts of secrets' names that a text in lower case contains."""
    names = _NAMES if lower.isascii() else (*_NAMES, *_FOREIGN_NAMES)
    return [name for name in names if name in lower]


def _is_suspect(text: str, lower: str) -> bool:
    """Whether a text may have a secret without a name: it has a hint of a header or format, or enough digits."""
    for hint in _OTHER_HINTS:  # a loop is faster than `any`, and this runs for every memory that is shown
        if hint in lower:
            return True
    return ("pin" in lower and _PIN.search(lower) is not None) or _has_number(text)


def _has_number(text: str) -> bool:
    return sum(map(text.count, "0123456789")) >= _DIGITS_OF_ACCOUNT


def _kinds_in(text: str) -> tuple[str, ...]:
    """The kinds of keys of which a text has a hint in a word that is long enough."""
    words = [word for word in text.split() if len(word) >= SHORTEST]
    if not words:
        return ()
    lower, longest = "\n".join(words).lower(), max(map(len, words))
    return tuple(
        made.kind
        for made in MADE
        if longest >= made.least and any(hint in lower for hint in made.hints) and _has_word(words, made)
    )


def _has_word(words: list[str], made: Made) -> bool:
    """Whether one word has a hint and the length: a short hint is in many a word."""
    return made.least == SHORTEST or any(
        len(word) >= made.least and any(hint in word.lower() for hint in made.hints) for word in words
    )


@lru_cache(maxsize=256)
def _made(kinds: tuple[str, ...]) -> re.Pattern[str]:
    """Keys of these kinds. A run of key characters before one would make it part of something else, and trying each
    place inside such a run would take quadratic time."""
    rows = "|".join(f"(?P<{made.kind}>{made.expression})" for made in MADE if made.kind in kinds)
    return re.compile(rf"(?:(?<![\w-])|(?<=\\[nrt]))(?:{rows})")


def _once(text: str, lower: str, kinds: tuple[str, ...], names: list[str], found: Counter[str]) -> str:
    def whole(match: re.Match[str]) -> str:
        found[match.lastgroup or "private key"] += 1
        return mask(match.group()) if match.lastgroup else MASK

    def part(kind: str, match: re.Match[str], group: str) -> str:
        value = match[group] if group != "bare" else match[group].rstrip(_STOPS)
        if _masked(value) or _PLACEHOLDER.match(value) or _is_path(value):
            return match.group()
        found[kind] += 1
        start = match.start(group) - match.start()
        return match.group()[:start] + mask(value) + match.group()[start + len(value) :]

    def formed(kind: str, match: re.Match[str]) -> str:
        group = next(name for name, value in match.groupdict().items() if value is not None)
        return match.group() if kind == "command" and match[group].isdigit() else part(kind, match, group)

    def named(match: re.Match[str]) -> str:
        group = next(g for g in ("double", "single", "tick", "escaped", "bare") if match.groupdict().get(g) is not None)
        if _follows_mask(match, group) or not _secret(match, group):
            return match.group()
        return part("password" if _PASSWORD.search(_name(match)) else "assignment", match, group)

    def line_with_names(line: str) -> str:
        line = _ASSIGNED.sub(named, line)
        line = _FLAG.sub(named, line) if "--" in line else line
        line = _SAID.sub(named, line)
        return _WITH.sub(lambda m: m.group() if _is_code(m["bare"]) else part("password", m, "bare"), line)

    text = _PRIVATE_KEY.sub(whole, text)
    text = _without_cut_key(text, found)
    text = _PUTTY_KEY.sub(lambda match: part("private key", match, "value"), text)
    if kinds:
        text = _made(kinds).sub(whole, text)
    for form in _FORMS:
        if any(hint in lower for hint in form.hints):
            text = form.expression.sub(lambda match, kind=form.kind: formed(kind, match), text)  # type: ignore[misc]
    if _has_number(text):
        text = _CARD.sub(
            lambda match: part("card", match, "value") if _is_card(match["value"]) else match.group(), text
        )
        text = _IBAN.sub(
            lambda match: part("iban", match, "value") if _is_iban(match["value"]) else match.group(), text
        )
    if names or "pin" in lower:
        names = [*names, "pin"]
        lines = text.split("\n")  # the patterns of names take longest, and few lines have a name
        text = "\n".join(line_with_names(line) if _has_any(line.lower(), names) else line for line in lines)
    return text


def _has_any(lower: str, hints: Sequence[str]) -> bool:
    return any(hint in lower for hint in hints)


def _without_cut_key(text: str, found: Counter[str], *, blank_lines: bool = False) -> str:
    """The text without the rest of private keys whose beginning was cut off: lines of base64 before an end.

    With ``blank_lines`` it has as many lines as before.
    """
    if "PRIVATE KEY" not in text:
        return text
    kept: list[str] = []
    for line in text.split("\n"):
        kept.append(line)
        if not _CUT_KEY.search(line):
            continue
        first = len(kept) - 1
        while first and _KEY_LINE.fullmatch(kept[first - 1].strip()):
            first -= 1
        cut = len(kept) - 1 - first
        if cut:
            found["private key"] += 1
            kept[first:] = [MASK, *[""] * (cut if blank_lines else 0)]
    return "\n".join(kept)


def _is_card(number: str) -> bool:
    """Whether the check digit of a card's number is right (Luhn), and its beginning one that is given out."""
    digits = [int(digit) for digit in number if digit.isdigit()]
    doubled = [digit * 2 - 9 * (digit > 4) for digit in digits[-2::-2]]
    return _CARD_BEGINS.match(number) is not None and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _is_iban(number: str) -> bool:
    """Whether the check digits of an account's number are right (ISO 13616)."""
    plain = number.replace(" ", "")
    if not 15 <= len(plain) <= 34 or not any(character.isdigit() for character in plain[4:]):
        return False
    return int("".join(str(int(character, 36)) for character in plain[4:] + plain[:4])) % 97 == 1


def _is_path(value: str) -> bool:
    """Whether a value is the path of a file, rather than base64 that begins with a slash."""
    return _PATH.match(value) is not None and not any(_RANDOM.match(part) for part in value.split("/"))


def _masked(value: str) -> bool:
    return not value.strip("*") or (len(value) == 11 and value[6] == "…")


def _follows_mask(match: re.Match[str], group: str) -> bool:
    """Whether the value itself is masked already, and what the match took for it is the next word.

    The same asterisks after a name with as many before it are Markdown: ``***password:*** hunter2``.
    """
    masked = MASK in match.string[match.end("sign") : match.start(group)]
    return masked and not match.string.endswith(MASK, 0, match.start())


def _is_code(value: str) -> bool:
    return _CODE.fullmatch(value) is not None


def _name(match: re.Match[str]) -> str:
    named = match.groupdict()
    return (named.get("name") or named.get("camel") or named.get("shell") or "").lower()


def _secret(match: re.Match[str], group: str) -> bool:
    """Whether a value next to a secret's name is a secret."""
    value, name, sign = match[group], _name(match), match["sign"].strip()
    core = value.rstrip(_STOPS)
    has_digit_or_sign = bool(_DIGIT_OR_SIGN.search(core))
    password = bool(_PASSWORD.search(name))
    if _PLACEHOLDER.match(value) or _is_path(value) or len(core) < 4 or (name == "pass" and not has_digit_or_sign):
        return False
    if name == "pin":
        return core.isdigit()
    if group != "bare":
        return has_digit_or_sign or (core.lower() not in _ABOUT if " " not in core else "phrase" in name)
    if "(" in value or "[" in value or "{" in value or _is_code(core):
        return False
    shell = match.groupdict().get("shell")
    if sign == "=" and match.end("sign") - 1 == match.end("shell" if shell else _group(match)):
        return has_digit_or_sign or bool(shell) or password
    if has_digit_or_sign:
        return len(core) >= 8 or password
    # A bare word that ends its clause, and is not one of those that passwords are said to be.
    end = match.string[match.end() : match.end() + 1]
    ends = value != core or not end or end in "\n,;)\"'"
    return password and ends and len(core) >= 5 and core.lower() not in _ABOUT and sign in _ENGLISH


_ENGLISH = frozenset({"is", "was", "is now", "was now", ":", "=", ":=", "=>", ""})
"""In other languages a word after "the password is" may be any that passwords are said to be."""


def _group(match: re.Match[str]) -> str:
    return "camel" if match.groupdict().get("camel") else "name"
