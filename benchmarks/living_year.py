"""A year of turns between a person and an agent, with what a question at its end asks for.

Half of the turns are the agent's. Of the person's, some 16 % state a fact that matters: where somebody lives, what a
server runs on, who leads a project, what a customer pays. Each such fact has one value at a time. Two fifths of these
turns state a new one, a fifth changes one ("Ben moved to Oslo"), and the others say one again, mostly those that are
popular: popularity follows a Pareto distribution, as in real logs. Another 24 % state trivia: a lunch, a late train, a
slow build. 12 % ask for a fact that matters, also by popularity, and the agent answers. The rest is small talk and
requests. Sentences have several wordings, and name the same few people, servers, projects and customers all year.

What a question shows counts as a use, as in the journal: the memory that was asked for, and a few others that happened
to be in the block.

At the end, 1,000 questions are asked: 85 % for facts that matter and still hold, by popularity, and 15 % for trivia, of
which the newer are more likely (half-life 14 days). The sentences are a person's, not the rules': some that matter are
never extracted, and a trivial number makes a sentence more important to the rules.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from fusion.lib.words import words

BEGAN = datetime(2026, 1, 1, 8, tzinfo=UTC)
QUESTIONS = 1_000
OF_TRIVIA = 0.15
"""share of the questions that ask for trivia"""
TRIVIA_HALF_LIFE_DAYS = 14.0
MATTERS, TRIVIAL, ASKS = 0.16, 0.24, 0.12
"""shares of the person's turns"""
NEW, CHANGED = 0.4, 0.2
"""shares of the turns about facts that matter; the others say one again"""
SHOWN_BESIDES = 4
"""memories in a block that the question did not ask for"""
MAX_POPULARITY = 50.0


def _words(listed: str) -> tuple[str, ...]:
    return tuple(listed.split())


_NAMES = _words(
    "Ada Ben Cleo Dara Emil Fina Gus Hana Ivo Jule Kian Lena Milo Nora Otis Pia Quin Rosa Sven Tuva Ugo Vera Wim Xenia "
    "Yara Zeno Arne Bea Carl Dina Egon Frida Goran Heidi Ines Jonas Karim Lotte Mats Nils"
)
_SERVERS = _words(
    "kedjan nordhus solvik brygga fjell havn lund skogen tangen viken aasen bakken dalen elvik foss gran hamar isdal "
    "jordal kleven loen moss nesna odda"
)
_PROJECTS = _words(
    "Lantern Harbour Meadow Compass Anvil Beacon Cinder Drift Ember Falcon Glacier Hazel Indigo Juniper Kestrel Lagoon "
    "Marble Nimbus Orchard Pepper"
)
_CUSTOMERS = _words(
    "Almgren Berntsen Castelli Duval Eriksen Ferrari Gruber Hansson Iversen Jansen Keller Lindgren Moretti Novak Olsen "
    "Petrov Quist Rossi Schmidt Torres Ulrich Vogel Weber Ylitalo Zimmer"
)
_CITIES = _words("Oslo Bergen Rome Lyon Porto Gdansk Turin Malmo Ghent Bilbao Split Graz Turku Cork Basel Nantes")
_FIRMS = _words("Acme Borealis Corvus Dynamo Everly Fjordline Globex Hexagon Initech Jotun Kuben Lumen Mavic Nordic")
_FOODS = _words("peanuts shellfish sesame celery mustard lupin walnuts soy kiwi eggs gluten lactose")
_SPORTS = _words("tennis chess football badminton volleyball squash handball golf hockey cricket")
_DRINKS = _words("espresso cappuccino cocoa rooibos lemonade matcha cider kombucha")
_TOOLS = _words("Postgres Redis Kafka Caddy Nomad Ansible Vault Consul Grafana Loki Minio Traefik Sqlite Mongo")
_SYSTEMS = _words("Debian Ubuntu Fedora Alpine NixOS FreeBSD Arch")
_LANGUAGES = _words("Python Rust Go Kotlin Elixir Swift Haskell Zig")
_MONTHS = _words("January February March April May June July August September October November December")
_DISHES = _words("soup risotto curry salad dumplings ramen lasagne tacos falafel goulash")
_CAFES = _words("Fuglen Supreme Stockfleth Kaffa Talormade Godt Mocca Java")
_THINGS = _words("keyboard lamp monitor chair bottle cable headset rucksack umbrella kettle")
_DOMAINS = _words(
    "breakfast invoices meetings newsletters reports reviews travel holidays gifts backups diagrams spreadsheets "
    "contracts slides recipes podcasts maps photos passwords notes shoes music painting letters flights hotels "
    "exercise gardening heating commuting"
)
_WAYS = _words("paper email video plain short monthly weekly shared digital printed quiet early late cheap handmade")

CHATTER = (
    "Thanks, that looks good.",
    "Can you have another look at it?",
    "Hmm, let me think about that for a moment.",
    "Good morning!",
    "Could you summarise what we have so far?",
    "That was quick, great work.",
    "What do you think about the second option?",
    "OK, go on please.",
    "Please write a short reply to that mail.",
    "Fix the typo in the heading, please.",
    "Run the tests again.",
    "Haha, nice one!",
    "Not sure, maybe later.",
    "I think we can leave it like this.",
    "See you tomorrow!",
)
REPLIES = (
    "Done. Is there anything else?",
    "Here is a draft of the reply.",
    "I've run the tests, and all of them pass.",
    "Good morning! What shall we begin with?",
    "The heading is corrected.",
    "I would take the second option, since it is simpler.",
    "You're welcome!",
)


@dataclass(frozen=True, slots=True)
class Statement:
    """A fact as the script knows it: what it is about, what is said of it, and the value that an answer needs."""

    subject: str
    slot: str
    value: str
    text: str

    @property
    def key(self) -> tuple[str, str]:
        return self.subject, self.slot

    def is_in(self, entry: frozenset[str]) -> bool:
        """Whether the words of an entry answer a question for it."""
        return words(f"{self.subject} {self.value}") <= entry


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn, the fact that it states, and the memories with which its question was answered."""

    number: int
    at: datetime
    speaker: str
    text: str
    about: Statement | None = None
    shown: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Year:
    """The turns, the facts that matter and hold at the end, and what each of the questions asks for."""

    turns: tuple[Turn, ...]
    holds: tuple[Statement, ...]
    outdated: tuple[Statement, ...]
    """facts that mattered and were changed since"""
    questions: tuple[Statement, ...]
    of_trivia: int
    """how many of the questions, the last ones, ask for trivia"""


@dataclass(frozen=True, slots=True)
class _Slot:
    """What can be said of some subjects: a value, in several wordings. ``changes``: how likely it is to change."""

    name: str
    subjects: Sequence[str]
    value: Callable[[random.Random], str]
    wordings: Sequence[str]
    changes: float

    def said(self, rng: random.Random, subject: str, not_value: str = "") -> Statement:
        value = next(one for one in iter(lambda: self.value(rng), "") if one != not_value)
        return self.worded(rng, subject, value)

    def worded(self, rng: random.Random, subject: str, value: str) -> Statement:
        return Statement(subject, self.name, value, rng.choice(self.wordings).format(s=subject, v=value))


def _one_of(values: Sequence[str]) -> Callable[[random.Random], str]:
    return lambda rng: rng.choice(values)


def _number(low: int, high: int) -> Callable[[random.Random], str]:
    return lambda rng: str(rng.randrange(low, high))


def _day(rng: random.Random) -> str:
    return f"{rng.randrange(1, 29)} {rng.choice(_MONTHS)}"


SLOTS = (
    _Slot("lives", _NAMES, _one_of(_CITIES), ("{s} lives in {v} now.", "{s} moved to {v}.", "{s} lives in {v}."), 1),
    _Slot("works", _NAMES, _one_of(_FIRMS), ("{s} works at {v} now.", "{s} has a new job at {v}."), 1),
    _Slot("allergic", _NAMES, _one_of(_FOODS), ("{s} is allergic to {v}.", "{s} must not eat {v}, not even a bit."), 0),
    _Slot("birthday", _NAMES, _day, ("The birthday of {s} is on {v}.", "{s} was born on {v}."), 0),
    _Slot("plays", _NAMES, _one_of(_SPORTS), ("{s} plays {v} in a club.", "{s} has taken up {v}."), 0.5),
    _Slot("drinks", _NAMES, _one_of(_DRINKS), ("{s} prefers {v}.", "{s} drinks nothing but {v}."), 0.5),
    _Slot(
        "phone", _NAMES, _number(10_000, 99_999), ("The phone number of {s} is {v}.", "{s} can be called at {v}."), 1
    ),
    _Slot(
        "port", _SERVERS, _number(1024, 65_000), ("The server {s} listens on port {v}.", "{s} is on port {v} now."), 2
    ),
    _Slot("system", _SERVERS, _one_of(_SYSTEMS), ("The server {s} runs {v}.", "{s} runs on {v} now."), 1),
    _Slot(
        "backups", _SERVERS, _one_of(_CITIES), ("The backups of {s} go to {v}.", "Backups of {s} are in {v} now."), 1
    ),
    _Slot("owner", _SERVERS, _one_of(_NAMES), ("{v} looks after the server {s}.", "{s} belongs to {v} now."), 1),
    _Slot("tool", _PROJECTS, _one_of(_TOOLS), ("We decided that {s} uses {v}.", "{s} uses {v} now."), 2),
    _Slot("lead", _PROJECTS, _one_of(_NAMES), ("{v} leads the project {s}.", "{v} has taken over {s}."), 1),
    _Slot("due", _PROJECTS, _day, ("The project {s} is due on {v}.", "We moved the deadline of {s} to {v}."), 4),
    _Slot("language", _PROJECTS, _one_of(_LANGUAGES), ("{s} is written in {v}.", "We write {s} in {v} now."), 0.5),
    _Slot(
        "pays",
        _CUSTOMERS,
        _number(100, 9000),
        ("{s} pays {v} euros a month.", "The customer {s} now pays {v} euros."),
        2,
    ),
    _Slot("contact", _CUSTOMERS, _one_of(_NAMES), ("Our contact at {s} is {v}.", "{v} is in charge at {s} now."), 1),
    _Slot("renews", _CUSTOMERS, _day, ("The contract with {s} ends on {v}.", "{s} renews on {v}."), 1),
    _Slot(
        "branch", _CUSTOMERS, _one_of(_CITIES), ("The office of {s} is in {v}.", "{s} has its office in {v} now."), 0.5
    ),
    _Slot(
        "way", _DOMAINS, _one_of(_WAYS), ("For {s} I prefer {v}.", "I like {s} {v}.", "Keep {s} {v} for me, always."), 1
    ),
)

_TRIVIA = (
    ("I had {v} for lunch at {s}.", _CAFES, _one_of(_DISHES)),
    ("The build of {s} took {v} minutes.", _PROJECTS, _number(2, 60)),
    ("The train to {s} was {v} minutes late.", _CITIES, _number(5, 90)),
    ("I met {v} at {s} for coffee yesterday.", _CAFES, _one_of(_NAMES)),
    ("{s} called about an invoice over {v} euros this morning.", _CUSTOMERS, _number(20, 900)),
    ("Test number {v} of {s} failed again.", _PROJECTS, _number(1, 900)),
    ("I paid {v} euros for the taxi to {s}.", _CITIES, _number(10, 90)),
    ("{s} is ill today, so {v} takes the meeting.", _NAMES, _one_of(_NAMES)),
    ("The meeting with {s} took {v} minutes.", _CUSTOMERS, _number(10, 180)),
    ("The server {s} was down for {v} minutes.", _SERVERS, _number(1, 200)),
    ("I bought a {s} for {v} euros.", _THINGS, _number(5, 300)),
    ("{s} sent me {v} photos of the trip.", _NAMES, _number(2, 90)),
    ("We watched a film with {s} in {v} last night.", _NAMES, _one_of(_CITIES)),
    ("{s} scored {v} points in the game on Sunday.", _NAMES, _number(2, 60)),
    ("{s} is in {v} for a conference.", _NAMES, _one_of(_CITIES)),
    ("I have {v} mails from {s} to read.", _CUSTOMERS, _number(2, 60)),
    ("The tests of {s} need {v} minutes at the moment.", _PROJECTS, _number(2, 60)),
    ("{s} wants {v} copies of the report.", _CUSTOMERS, _number(2, 60)),
    ("The weather in {s} is fine, {v} degrees.", _CITIES, _number(2, 35)),
    ("The queue at {s} was {v} people long.", _CAFES, _number(3, 30)),
)


@dataclass(slots=True)
class _World:
    """What has been said so far."""

    rng: random.Random
    unsaid: list[tuple[_Slot, str]]
    holds: dict[tuple[str, str], tuple[_Slot, Statement]] = field(default_factory=dict)
    popularity: dict[tuple[str, str], float] = field(default_factory=dict)
    memory: dict[tuple[str, str], int] = field(default_factory=dict)
    """the turn that said the value of each fact last"""
    trivia: list[tuple[Statement, datetime]] = field(default_factory=list)
    outdated: list[Statement] = field(default_factory=list)

    def matters(self) -> Statement:
        """A fact that matters: a new one, a changed one, or one that was said before."""
        draw = self.rng.random()
        if not self.holds or (draw < NEW and self.unsaid):
            slot, subject = self.unsaid.pop()
            said = slot.said(self.rng, subject)
            self.popularity[said.key] = min(MAX_POPULARITY, self.rng.paretovariate(1.1))
        elif draw < NEW + CHANGED and (held := [one for one in self.holds.values() if one[0].changes]):
            slot, old = self.rng.choices(held, [one.changes for one, _ in held])[0]
            said = slot.said(self.rng, old.subject, old.value)
            self.outdated.append(old)
        else:
            slot, old = self.popular()
            said = slot.worded(self.rng, old.subject, old.value)
        self.holds[said.key] = slot, said
        return said

    def popular(self) -> tuple[_Slot, Statement]:
        keys = [*self.holds]
        return self.holds[self.rng.choices(keys, [self.popularity[key] for key in keys])[0]]

    def trivial(self, at: datetime) -> Statement:
        wording, subjects, value = self.rng.choice(_TRIVIA)
        subject, said = self.rng.choice(subjects), value(self.rng)
        found = Statement(subject, wording, said, wording.format(s=subject, v=said))
        self.trivia.append((found, at))
        return found


def year(turns: int, days: int, seed: int) -> Year:
    """The turns of so many days, and the questions at their end."""
    rng = random.Random(seed)
    unsaid = [(slot, subject) for slot in SLOTS for subject in slot.subjects]
    rng.shuffle(unsaid)
    world = _World(rng, unsaid)
    said: list[Turn] = []
    stated: list[int] = []
    reply = ""
    for number in range(turns):
        at = BEGAN + timedelta(days=days) * (number / turns)
        if number % 2:
            said.append(Turn(number, at, "assistant", reply or rng.choice(REPLIES)))
            continue
        draw, reply, turn = rng.random(), "", Turn(number, at, "user", rng.choice(CHATTER))
        if draw < MATTERS:
            fact = world.matters()
            world.memory[fact.key] = number
            turn = _stating(rng, turn, fact)
        elif draw < MATTERS + TRIVIAL:
            turn = _stating(rng, turn, world.trivial(at))
        elif draw < MATTERS + TRIVIAL + ASKS and world.holds:
            _, fact = world.popular()
            besides = rng.sample(stated, min(SHOWN_BESIDES, len(stated)))
            question = f"What was it again with {fact.subject}?"
            turn = Turn(number, at, "user", question, shown=(world.memory[fact.key], *besides))
            reply = fact.text
        if turn.about is not None:
            stated.append(number)
        said.append(turn)
    return _asked(world, said, BEGAN + timedelta(days=days))


def _stating(rng: random.Random, turn: Turn, fact: Statement) -> Turn:
    """A turn with a fact, in half of the cases after small talk."""
    text = f"{turn.text} {fact.text}" if rng.random() < 0.5 else fact.text
    return Turn(turn.number, turn.at, turn.speaker, text, fact)


def _asked(world: _World, said: Sequence[Turn], now: datetime) -> Year:
    rng = world.rng
    of_trivia = round(OF_TRIVIA * QUESTIONS) if world.trivia else 0
    matters = [world.popular()[1] for _ in range(QUESTIONS - of_trivia)]
    ages = [(now - at).total_seconds() / 86_400 for _, at in world.trivia]
    weights = [2 ** (-age / TRIVIA_HALF_LIFE_DAYS) for age in ages]
    trivia = [one for one, _ in rng.choices(world.trivia, weights, k=of_trivia)] if of_trivia else []
    holds = {one.key: one for _, one in world.holds.values()}
    outdated = [one for one in world.outdated if one.value != holds[one.key].value]
    return Year(tuple(said), (*holds.values(),), (*outdated,), (*matters, *trivia), of_trivia)
