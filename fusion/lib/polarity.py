"""Whether a statement affirms or denies: "I love it", "it works" and "may be brought" against their opposites.

Words with a valence are counted, a negation turns the next one round, and a negation alone denies. It is a rule of
thumb: what is affirmed is up to the reader, who compares two statements on one subject.
"""

from __future__ import annotations

import re

from fusion.lib.text_cache import text_cache
from fusion.lib.words import accentless, find_words, normalise

MAX_CHARS = 1_000
"""characters of a statement that are read"""
REACH = 3
"""words after a negation among which it turns one round"""

_PHRASES = tuple(
    (re.compile(rf"\b(?:{pattern})\b"), replacement)
    for pattern, replacement in (
        (r"(?:can(?:no|')t|can not) (?:stand|bear|abide|take)", "hate"),
        (r"(?:can(?:no|')t|can not) (?:wait|get enough)|could(?:n't| not) be (?:happier|better)", "love"),
        (r"nothing beats|no \w+ (?:beats|comes close)|second to none", "love"),
        (r"only until", "ended"),
        (r"not only|not just|no wonder|no doubt|no problem|why not", "also"),
        (r"out of order|called off|off the table|given up|gave up|gives up|giving up|shut down", "ended"),
        (r"fed up|sick of|tired of|had enough|have enough|bored (?:to|of|with)|allergic", "hate"),
        (r"look(?:ing)? forward|keen on|fond of|fan of|crazy about|in favou?r", "love"),
        (r"on schedule|on time|in time|up and running|good as new|in force", "fine"),
        (r"behind schedule|over budget|out of stock|sold out", "late"),
        (r"at least|no longer than|no more than|no later than|up to", "within"),
    )
)
_POSITIVE = frozenset(
    "love loves loved like likes liked adore adores enjoy enjoys enjoyed favourite favorite great brilliant excellent "
    "wonderful fantastic perfect heaven best delicious amazing happy passionate apassionada delighted support "
    "supports approve approved approves accept accepted accepts confirmed allowed allow allows permitted permit "
    "welcome free open opens working works fine fixed repaired active available running enabled on-time passed "
    "succeeded healthy mandatory compulsory required liebe liebt mag gern gerne erlaubt offen funktioniert toll super "
    "j'adore aime permis ouvert encanta gusta abierto permitido apasionada amo adoro piace aperto permesso leuk graag "
    "toegestaan gosto aberto".split()
)
_NEGATIVE = frozenset(
    "hate hates hated dislike dislikes loathe loathes detest detests despise torture disgusting awful terrible "
    "horrible worst boring dreadful disaster wreck ruin against refuse refuses refused reject rejected declined deny "
    "denied forbidden forbid forbids banned ban bans prohibited disallowed closed closes shut shuts broken fails "
    "failed late delayed postponed cancelled canceled cancel terminated ended ends stopped quit abandoned dropped "
    "scrapped revoked withdrawn discontinued disabled suspended unavailable vacant missing lost expired avoid avoids "
    "without unable optional voluntary sick hurts unhappy overrated hasse hasst verboten geschlossen kaputt abgesagt "
    "ungern beendet deteste detesto odio odia interdit ferme annule prohibido cerrado cancelado aburre vietato chiuso "
    "annullato noia haat hekel verboden gesloten kapot afgelast odeio proibido fechado".split()
)
_NEGATIONS = frozenset(
    "not no never none nobody nothing neither nor cannot hardly barely scarcely nicht kein keine keinen keinem keiner "
    "nie niemals nichts niemand pas jamais rien aucun aucune personne nunca jamas nada nadie ningun ninguna non mai "
    "niente nessun nessuno niet geen nooit niets niemand nao nenhum nenhuma ninguem".split()
)
_AFTERWARDS = frozenset({"nicht", "niet", "pas"})
"""negations that may stand after what they turn round"""
_CONTRACTED = re.compile(r"n't\b|\bn'(?=[a-z])")


def negates(text: str) -> bool:
    """Whether a statement has a negation; "not only" and the like are none."""
    return not _NEGATIONS.isdisjoint(find_words(_plain(text)))


@text_cache(8_192)
def polarity(text: str) -> int:
    """1 for a statement that affirms, -1 for one that denies, 0 where it has neither a valence nor a negation."""
    plain = _plain(text)
    total, negated = 0, 0
    last, since = 0, REACH
    for word in find_words(plain):
        since += 1
        if word in _AFTERWARDS and since <= REACH:  # "ich mag das nicht"
            total -= 2 * last
        elif word in _NEGATIONS:
            total -= negated > 0
            negated = REACH
        elif valence := (word in _POSITIVE) - (word in _NEGATIVE):
            last, since = -valence if negated else valence, 0
            total += last
            negated = 0
        elif negated:
            negated -= 1
            total -= negated == 0
    total -= negated > 0
    return (total > 0) - (total < 0)


def _plain(text: str) -> str:
    """The beginning of a text in lower case without accents, with a word for each phrase and each contraction."""
    plain = accentless(normalise(text[:MAX_CHARS])).replace("’", "'")
    for pattern, replacement in _PHRASES:
        plain = pattern.sub(replacement, plain)
    return _CONTRACTED.sub(" not ", plain)
