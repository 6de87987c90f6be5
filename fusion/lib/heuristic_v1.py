"""`heuristic-v1`, the deterministic scorer of importance that openclaw-mem publishes (seed 004).

A score begins at .30. What makes a memory worth keeping adds to it, and what makes it worthless takes away:

| sign of | points |
|---|---|
| a preference, rule or lasting constraint | +.40 |
| a decision; not of a task | +.30 |
| an identifier: URL, UUID, environment variable, command | +.20 |
| a step to repeat: a runbook or a schedule | +.20 |
| a task; with a deadline | +.20; +.10 more |
| an error; with its cause or fix | +.15; +.10 more |
| a secret | -.40 |
| small talk | -.25 |
| progress alone, without identifier, error or task | -.20 |
| an appointment alone, without identifier, error or task | -.15 |

Three signs are not in the published formula. They were chosen by lines that we wrote for it
(`tests/lib/importance_lines_of_our_own.tsv`), and no others:

| sign of | points |
|---|---|
| a risk to health | +.50 |
| an absolute rule: an order with never or always, what must or must not be | +.10 |
| something that lasts: who somebody is, where something is kept, when a right ends | +.20 |

The words of each sign are our own, in English, German, French, Spanish and Italian. Every pattern is a list of literals
with bounded gaps, so a text of any kind takes time linear in its length; only its first `MAX_CHARS` are read.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Final

from fusion.contract import Kind
from fusion.lib.redact import MASK, redact

METHOD: Final = "heuristic-v1"
BASE: Final = 0.30
MAX_CHARS: Final = 4_000
"""characters of a text that are read"""
MAX_REASONS: Final = 2

_RULE = "states a preference, a rule or a lasting constraint"
_HEALTH = "names a risk to health"
_ABSOLUTE = "is an absolute rule"
_LASTING = "states something that lasts"
_DECISION = "records a decision"
_IDENTIFIER = "has an identifier to look up"
_RUNBOOK = "describes a step to repeat"
_ERROR = "reports an error"
_FIX = "names a cause or a fix"
_TASK = "is a task"
_DEADLINE = "has a deadline"
_SECRET = "looks like a secret"  # noqa: S105 — a sentence for readers
_CHAT = "is small talk"
_PROGRESS = "only reports progress"
_APPOINTMENT = "only names an appointment"
_NOTHING = "has no sign of importance"


@dataclass(frozen=True, slots=True)
class HeuristicScore:
    """A score from 0 to 1 with all reasons for it, and what counted against it, the gravest first."""

    score: float
    reasons: tuple[str, ...] = ()
    penalties: tuple[str, ...] = ()

    @property
    def rationale(self) -> str:
        """At most two reasons and one penalty, as one line."""
        said = [*self.reasons[:MAX_REASONS], *(f"but {one}" for one in self.penalties[:1])]
        return "; ".join(said).removeprefix("but ") or _NOTHING


def _words(*lines: str) -> re.Pattern[str]:
    """A pattern of whole words; `*` at the end of one stands for any ending. Phrases are separated by commas."""
    found = [phrase.strip() for line in lines for phrase in line.split(",")]
    parts = [re.escape(one.removesuffix("*")) + (r"\w{0,20}" if one.endswith("*") else "") for one in found if one]
    return re.compile(r"(?<!\w)(?:" + "|".join(parts).replace(r"\ ", r"\s{1,3}") + r")(?!\w)")


_FIGURATIVE = re.compile(
    r"(?<!\w)(?:(?:have|has|had|i've|we've|you've|they've) never|must (?:have|be \w{2,20}ing)|never ?mind"
    r"|never seen|you (?:always|never) say)(?!\w)"
)
"""uses of those words that rule nothing; they are taken out first"""
_HEALTHS = _words(
    "allergic, allergy, allergies, anaphyla*, diabetes, diabetic, insulin, epilep*, asthma*, coeliac, celiac",
    "pacemaker, blood thinner*, can kill, could kill, lethal, poisonous, seizure*, pregnant, chemotherapy",
    "allergisch, diabetiker*, schwanger, allergique*, diabétique, enceinte, alérgic*, diabétic*, embarazada",
    "allergic*, diabetic*, incinta",
)
_ABSOLUTES = re.compile(
    r"(?:^|[.;:!?]\s{1,3}|(?<!\w)(?:please|bitte)\s)(?:please\s)?(?:never|always|do not|don't)(?!\w)"
    r"|(?<!\w)(?:must|mustn't|under no circumstances|from now on|is forbidden|are forbidden|not allowed|ab sofort"
    r"|darf nicht|dürfen nicht|auf keinen fall|désormais|il ne faut|no se debe|non si deve)(?!\w)"
    r"|(?:^|[.;:!?]\s{1,3})(?:\w{1,20}\s)?(?:nie|niemals|immer|nunca|siempre|sempre|mai)(?!\w)"
    r"|(?:^|[.;:!?]\s{1,3})(?:ne\s|n')\w{1,20}\s(?:jamais|pas)(?!\w)"
)
_LASTINGS = _words(
    "birthday, anniversary, is called, are called, number is, address is, is kept in, key is in, works at, works for",
    "lives in, live in, was born, was built, is married to, my sister, my brother, my wife, my husband, my mother",
    "my father, my daughter, my son, my partner, my doctor, my dentist, my landlord, my boss, expires, expiry",
    "due on, warranty, insurance, lease, passport, visa, tax return, am liebsten, geburtstag, wohnt in, arbeitet bei",
    "heißt, habite à, travaille chez, anniversaire, s'appelle, vive en, trabaja en, cumpleaños, se llama, vive a",
    "lavora da, compleanno, si chiama",
)
_KEPT_IN = re.compile(
    r"(?<!\w)(?:key|keys|safe|charger|document|documents|manual|papers)\s.{0,40}?\s(?:is|are)\s(?:in|under|behind|on)\s"
)
_RULES = _words(
    "always, never, must, must not, mustn't, should, shouldn't, do not, don't, required, requirement*, mandatory",
    "rule, rules, policy, policies, forbidden, not allowed, under no circumstances, make sure, from now on, insist*",
    "prefer, prefers, preferred, preference*, favourite*, favorite*, can't stand, would rather, allerg*, intoleran*",
    "vegetarian, vegan, cannot eat, can't eat",
    "immer, nie, niemals, muss, müssen, darf nicht, dürfen nicht, soll, sollen, sollte*, verboten, regel, vorschrift*",
    "bevorzug*, lieber, ab sofort, allergi*",
    "toujours, jamais, doit, doivent, ne pas, interdit*, obligatoire, règle, préfère*, désormais",
    "siempre, nunca, jamás, debe, deben, no se debe, prohibido, obligatorio, regla, prefier*, alérgic*",
    "sempre, mai, deve, devono, vietato, obbligatorio, regola, preferisc*",
)
_DECISIONS = _words(
    "decide, decides, decided, decision*, chose, chosen, we will, we'll, agreed on, agreed to, agreed that, settled on",
    "architecture, go with, going with, went with, opted for, switched to, approved",
    "entschieden, entscheidung*, beschlossen, vereinbart, geeinigt",
    "décidé*, décision*, choisi*, convenu*, decidi*, decisión*, elegi*, acord*, acordado, deciso, decisione*, scelto",
)
_URL = re.compile(r"https?://\S")
_UUID = re.compile(r"(?<![0-9a-f-])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f-])")
_VARIABLE = re.compile(r"(?<![A-Za-z0-9_])[A-Z][A-Z0-9]{1,30}_[A-Z0-9_]{1,60}(?![A-Za-z0-9_])")
_COMMAND = re.compile(
    r"(?<![\w.-])(?:uv run|python3? -m|pip install|npm (?:run|install|ci)|docker (?:compose|run|exec)|kubectl \w|"
    r"systemctl \w|git (?:clone|push|pull|rebase|checkout)|make \w{1,30}-\w|openclaw[ -]\w|fusion \w|sudo \w|curl -)"
)
_RUNBOOKS = _words(
    "cron, crontab, cronjob*, how to, runbook, playbook, step 1, procedure, every day, every night, every week",
    "every month, every morning, every hour, every minute, every monday, every tuesday, every wednesday",
    "every thursday, every friday, every saturday, every sunday, nightly, weekly, timezone, time zone",
    "jeden tag, jede woche, jeden monat, jeden montag, anleitung, chaque jour, chaque semaine, chaque mois",
    "cada día, cada semana, cada mes, ogni giorno, ogni settimana, ogni mese",
)
_ERRORS = _words(
    "error, errors, failed, failure*, fails, exception*, traceback, timeout, timed out, rate limit*, rate_limit*",
    "unauthorized, forbidden, crash, crashed, crashes, outage, incident, broke, bug, segfault, out of memory",
    "fehler, fehlgeschlagen, abgestürzt, erreur, échoué, panne, fallo, falló, errore, fallito",
)
_FIXES = _words(
    "root cause, caused by, because of, fixed by, fix is, the fix, fixed it, workaround, mitigation, resolved by",
    "solved by, helps, ursache, behoben, lag an, causé par, corrigé, causa, solucion*, risolto",
)
_TASKS = re.compile(
    r"^[\s>*+•-]{0,8}(?:\d{1,3}[.)]\s{0,3})?(?:\[ \]|☐|[\[(【]?\s?(?:todo|task|reminder|action item|aufgabe)\b)"
    r"|(?<!\w)(?:remind me|remember to|don't forget to|note to self|to-do|待辦|要做)(?!\w)"
)
_DEADLINES = re.compile(
    r"(?<!\w)(?:by|before|until|due|deadline|bis|avant|antes de|entro)(?!\w)"
    r"|(?<!\w)(?:today|tonight|tomorrow|eod|heute|morgen|demain|mañana|domani)(?!\w)"
)
_CHATS = _words(
    "lol, haha*, thanks, thank you, thx, ok, okay, got it, nice, cool, great, hi, hello, hey, good morning, good night",
    "bye, no worries, you're welcome, sounds good, congrats, congratulations, wow, cheers",
    "danke, hallo, guten morgen, schönen tag, merci, bonjour, salut, gracias, hola, buenos días, grazie, ciao",
)
_PROGRESSES = _words(
    "done, finished, pushed, merged, wip, in progress, deployed, started, starting, running, compiling, building",
    "completed, uploaded, downloaded, passed, loading, working on, almost there, halfway",
    "fertig, erledigt, terminé, fini, hecho, terminado, fatto, finito",
)
_MEETINGS = _words(
    "meeting, call, standup, stand-up, appointment, lunch, dinner, sync",
    "termin, besprechung, rendez-vous, réunion, reunión, cita, riunione, appuntamento",
)
_CLOCK = re.compile(r"(?<![\d:])\d{1,2}(?::\d{2}|\s?(?:am|pm|uhr|h)(?!\w))")


def heuristic_score(text: str, kind: Kind = "note") -> HeuristicScore:
    """The importance of a text. The same text always has the same score; only the kind ``plan`` makes it a task."""
    shown = unicodedata.normalize("NFKC", text[:MAX_CHARS])[:MAX_CHARS]
    low = shown.lower().replace("’", "'")
    low = _FIGURATIVE.sub(" ", low)
    identifier = bool(_URL.search(low) or _UUID.search(low) or _VARIABLE.search(shown) or _COMMAND.search(low))
    error, task = bool(_ERRORS.search(low)), kind == "plan" or bool(_TASKS.search(low))
    alone = not (identifier or error or task)
    meeting = bool(_MEETINGS.search(low))
    gains = (
        (0.50, _HEALTH, bool(_HEALTHS.search(low))),
        (0.40, _RULE, bool(_RULES.search(low))),
        (0.10, _ABSOLUTE, bool(_ABSOLUTES.search(low))),
        (0.30, _DECISION, not task and bool(_DECISIONS.search(low))),
        (0.20, _IDENTIFIER, identifier),
        (0.20, _RUNBOOK, bool(_RUNBOOKS.search(low))),
        (0.15, _ERROR, error),
        (0.10, _FIX, error and bool(_FIXES.search(low))),
        (0.20, _TASK, task),
        (0.20, _LASTING, bool(_LASTINGS.search(low) or _KEPT_IN.search(low))),
        (0.10, _DEADLINE, task and bool(_DEADLINES.search(low))),
    )
    losses = (
        (0.40, _SECRET, MASK in shown or bool(redact(shown)[1])),
        (0.25, _CHAT, bool(_CHATS.search(low))),
        (0.20, _PROGRESS, alone and bool(_PROGRESSES.search(low))),
        (0.15, _APPOINTMENT, alone and meeting and bool(_CLOCK.search(low))),
    )
    score = BASE + sum(n for n, _, holds in gains if holds) - sum(n for n, _, holds in losses if holds)
    return HeuristicScore(
        round(min(1.0, max(0.0, score)), 2),
        tuple(why for _, why, holds in gains if holds),
        tuple(why for _, why, holds in losses if holds),
    )
