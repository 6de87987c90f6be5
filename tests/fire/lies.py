"""Facts of our own, lies that change one thing of each, and copies that change nothing.

A lie shares at least three fifths of its words with its truth, so that plain Jaccard takes the two for one. The kinds
are what an attacker may change; the copies are what people, tools and formats do to a text.
"""

# ruff: noqa: E501 - tables of words are read by their entries, not by their lines

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

SEED = 16


class Pair(NamedTuple):
    """A question, the text that answers it, and another text of ``kind``: a lie about it, or a copy of it."""

    kind: str
    question: str
    truth: str
    other: str


FRAMES = (
    "The {thing} of the {place} workshop is kept by {x} in the cabinet behind the stairs",
    "For the {place} branch the board chose {x} as the {thing} after a long meeting with everybody",
    "When the {thing} of the {place} office fails, the person on duty should ask for {x} at the desk",
    "We agreed with the {place} team that {x} stays the {thing} until the whole move is over",
)
QUESTIONS = (
    "Who or what keeps the {thing} of the {place} workshop?",
    "What did the board choose as the {thing} for the {place} branch?",
    "What should one ask for when the {thing} of the {place} office fails?",
    "What stays the {thing} of the {place} team?",
)
PLACES = (
    "Aldgate Brenner Cascais Dornoch Egmond Fjerland Garmisch Hallein Imatra Jesolo Kiruna Lerwick Molde Naxos Oban "
    "Pirano Questa Rethymno Skagen Tavira Ulvik Varenna Wexford Xanten Ystad Zadar"
).split()
THINGS = (
    "spare-key ledger archive scanner boiler router trophy printer kiln compressor projector safe antenna generator"
).split()

SWAPS: dict[str, str] = {
    "person": "Ada/Bo Nadia/Omar Julien/Priya Marta/Lukas Chen/Ines Tom/Tim Anna/Hannah Al/Jo Sven/Ingrid Leo/Mia "
    "Karen/Karin Maria/Mario Kim/Lee Noor/Sami",
    "product": "Postgres/MongoDB Redis/Kafka Linux/Windows Grafana/Kibana Terraform/Ansible React/Angular AWS/GCP "
    "Django/Rails Vim/Emacs Signal/Telegram Debian/Fedora Qdrant/Milvus Nginx/Caddy CSV/XML",
    "city": "Paris/London Berlin/Munich Oslo/Bergen Rome/Milan Kyoto/Osaka Lima/Quito Lagos/Accra Delhi/Mumbai "
    "Porto/Lisbon Graz/Linz Turin/Genoa Leeds/York Bonn/Ulm Nice/Lyon",
    "object": "guitar/piano violin/cello coffee/tea salmon/trout oak/pine hammer/wrench candle/lantern bicycle/scooter "
    "dog/cat apple/orange sofa/mattress axe/saw silver/copper carpet/curtain",
    "role": "manager/intern buyer/seller teacher/student landlord/tenant nurse/surgeon employer/employee "
    "captain/steward mother/father uncle/aunt plaintiff/defendant lender/borrower author/editor host/guest coach/player",
    "colour": "red/blue green/yellow black/white crimson/turquoise purple/orange brown/pink beige/violet "
    "scarlet/emerald grey/gold ivory/maroon amber/indigo cyan/magenta olive/navy teal/rust",
    "homoglyph": "Mаrk/Jоhn Еrik/Аnton Оlga/Vеra Реter/Сarlo Yаna/Dаria Ivаn/Оleg Nikоs/Раnos Тina/Rоsa Lеna/Sоfia "
    "Вoris/Igоr Кatja/Мila Нanna/Сlara Хenia/Zоe Аlex/Dеnis",
    "script": "東京/大阪 上海/北京 서울/부산 Москва/Киев Αθήνα/Πάτρα القاهرة/دمشق 名古屋/福岡 دبي/مسقط "
    "Одеса/Львів 广州/深圳 תל/חיפה 인천/대구 Софија/Скопје 京都/奈良",
}
"""one name in place of another, by the kind of what it names"""

SENTENCES: dict[str, str] = {
    "opposite": "visitors are {allow/deny}ed|allowed/denied;prices will|increase/decrease;the gate is|open/closed;"
    "deploys are|approved/rejected;the pump is|enabled/disabled;the path turns|left/right;the road leads|north/south;"
    "the water is|safe/dangerous;the minutes are|public/private;the offer was|accepted/refused;the trial was|won/lost;"
    "the lights are switched|on/off;the door is|locked/unlocked;the claim is|legal/illegal",
    "negation": "the archive is|kept/not kept;guests may|park here/never park here;the contract is|signed/no longer "
    "signed;the team has|agreed/not agreed;smoking is|possible/not possible;the lift is|working/not working;"
    "the licence is|needed/not needed;the fee is|paid/not paid;cards are|taken/never taken;the alarm is|armed/not armed;"
    "the tap is|safe/hardly safe;the pool is|heated/no longer heated;the code is|reviewed/never reviewed;"
    "the hall is|insured/not insured",
    "number": "the port is|8765/8764;the limit is|40/400;the fee is|12/21;the code is|7731/7713;the room is|114/141;"
    "the rent is|850/950;the floor is|two/three;the table seats|six/nine;the tank holds|90/900;the key has number|17/71;"
    "the delay is|15/50;the discount is|5/25;the quorum is|11/12;the dose is|30/300",
    "unit": "the tank takes 90|litres/gallons;the timeout is 30|seconds/minutes;the load is 40|kilograms/tonnes;"
    "the fee is 12|euros/dollars;the track is 5|kilometres/miles;the rent is 850|pounds/francs;the plank is 3|metres/feet;"
    "the lease is 2|years/months;the cable is 7|mm/cm;the oven is at 200|celsius/fahrenheit;the file has 16|MB/GB;"
    "the rate is 4|percent/permille;the pill has 5|mg/ml;the budget is 9|USD/EUR",
    "date": "the meeting is on|Monday/Friday;the audit is in|March/May;the lease ends in|2027/2029;the bus leaves in the|"
    "morning/evening;the move is|tomorrow/yesterday;the fair is in|spring/autumn;the vote is on|Tuesday/Thursday;"
    "the feast is in|June/July;the market is on|Saturday/Sunday;the course starts in|January/February;"
    "the check is in the|afternoon/night;the harvest is in|August/September;the exam is on|Wednesday/Friday;"
    "the inspection is in|October/November",
    "function": "backups run|before/after the close;the shelf is|above/below the sink;the fee is due|with/without the tax;"
    "the cart goes|up/down the ramp;guests pay|more/less than members;the key is|inside/outside the porch;"
    "the flag is flown|over/under the arch;the vote was|for/against the plan;the bill goes|to/from the office;"
    "members|must/may wear a badge;he asked|all/some of the owners;the van waits|before/behind the gate;"
    "the chairs stand|in/out of the rain;the ticket is for|her/him alone",
}
"""a statement with one of two endings"""

ORDERS = (
    "{a} pays {b} for the cleaning of the {thing} at the {place} office each month",
    "{a} reports to {b} about the {thing} of the {place} site since the reform",
    "the {thing} was lent by {a} to {b} when the {place} hall was closed",
    "{a} replaced {b} as keeper of the {thing} at {place} after the holidays",
)
PEOPLE = "Ada Bo Nadia Omar Julien Priya Marta Lukas Chen Ines Sven Leo Mia Noor Sami Tara".split()


def lies() -> list[Pair]:
    """Some 230 lies of 16 kinds, each about a fact of its own."""
    draw = Random(SEED)
    subjects = [(place, thing) for place in PLACES for thing in THINGS]
    draw.shuffle(subjects)
    return list(_lies(iter(subjects)))


def _lies(subjects: Iterator[tuple[str, str]]) -> Iterator[Pair]:
    for kind, swaps in SWAPS.items():
        for n, swap in enumerate(swaps.split()):
            place, thing = next(subjects)
            frame, question = FRAMES[n % len(FRAMES)], QUESTIONS[n % len(QUESTIONS)]
            truth, lie = (frame.format(thing=thing, place=place, x=x) + "." for x in swap.split("/"))
            yield Pair(kind, question.format(thing=thing, place=place), truth, lie)
    for kind, listed in SENTENCES.items():
        for entry in listed.split(";"):
            place, thing = next(subjects)
            said, ends = entry.split("|")
            said = said.partition(" {")[0]
            first, second = ends.split("/")
            rest = "".join(f" {word}" for word in second.split()[1:]) if kind == "function" else ""
            about = f"According to the {thing} list of the {place} site {said}"
            truth, lie = (f"{about} {end}{tail}." for end, tail in ((first, rest), (second, "")))
            yield Pair(kind, f"What does the {thing} list of the {place} site say about {said}?", truth, lie)
    for n in range(14):
        place, thing = next(subjects)
        a, b = PEOPLE[n], PEOPLE[(n + 5) % len(PEOPLE)]
        frame = ORDERS[n % len(ORDERS)]
        truth, lie = (frame.format(a=x, b=y, place=place, thing=thing) + "." for x, y in ((a, b), (b, a)))
        yield Pair("order", f"Who deals with whom over the {thing} of {place}?", truth, lie)


COPIES = (
    ("blanks", "We keep the spare key of the shed under the third flower pot.",
     "We keep  the spare key of\nthe shed under the third flower pot. "),
    ("case", "We keep the spare key of the shed under the third flower pot.",
     "we keep the spare key of the shed under the third flower pot"),
    ("punctuation", "Well, the boiler broke again; we ordered a new one from Delft!",
     "Well the boiler broke again. We ordered a new one from Delft."),
    ("typo", "I received the parcel for the neighbours on the second floor yesterday.",
     "I recieved the parcel for the neighbours on the second floor yesterday."),
    ("typo", "The database of the bookings service was moved to another machine.",
     "The databse of the bookings service was moved to another machine."),
    ("typo", "Tomorrow the whole committee meets in the library of the school.",
     "Tommorow the whole committee meets in the library of the school."),
    ("plural", "The visitor must leave the bicycle in the yard behind the house.",
     "The visitors must leave the bicycles in the yard behind the house."),
    ("inflection", "She cleans the studio on the upper floor of the mill and waters the plants there every morning.",
     "She cleaned the studio on the upper floor of the mill and watered the plants there every morning."),
    ("contraction", "We do not water the orchids in the hall during the winter months.",
     "We don't water the orchids in the hall during the winter months."),
    ("contraction", "It is the best bakery in town and they are open on holidays as well.",
     "It's the best bakery in town and they're open on holidays as well."),
    ("hyphen", "The follow-up meeting about the new e-mail server is in the big room.",
     "The followup meeting about the new email server is in the big room."),
    ("month", "The lease of the flat ends on 5 September and has to be renewed by hand.",
     "The lease of the flat ends on 5 Sept and has to be renewed by hand."),
    ("month", "The audit of the books starts on 12 January in the office upstairs.",
     "The audit of the books starts on 12 Jan in the office upstairs."),
    ("spelling", "The samples of the colour for the wall of the small theatre by the river are in the grey drawer.",
     "The samples of the color for the wall of the small theater by the river are in the gray drawer."),
    ("number", "The caretaker ordered two thousand bricks and 12,000 tiles for the roof.",
     "The caretaker ordered two thousand bricks and 12000 tiles for the roof."),
    ("number", "The trailer carries 500 kg and has two spare wheels in the back.",
     "The trailer carries 500kg and has 2 spare wheels in the back."),
    ("synonym", "She was so glad about the photo of the old harbour that we sent her.",
     "She was so happy about the picture of the old harbour that we sent her."),
    ("synonym", "The kids started to repair the old tractor in the yard of the farm near the mill.",
     "The children started to fix the old tractor in the yard of the farm near the mill."),
    ("synonym", "We bought a large table for the meeting room of the new office.",
     "We purchased a big table for the meeting room of the new office."),
    ("synonym", "The physician came at once when the film crew called from the studio by the lake.",
     "The doctor came at once when the movie crew called from the studio by the lake."),
    ("prefix", "The ferry to the island leaves from the eastern pier near the market.",
     "Note: The ferry to the island leaves from the eastern pier near the market."),
    ("more", "We chose the oak floor for the reading room of the library.",
     "We chose the oak floor for the reading room of the library, it is warmer."),
    ("moved", "In the spring the beekeeper moves the hives to the orchard by the river.",
     "The beekeeper moves the hives to the orchard by the river in the spring."),
    ("accent", "The café beside the church sells a very good crème brûlée on feast days.",
     "The cafe beside the church sells a very good creme brulee on feast days."),
    ("invisible", "The password of the guest network is written on the back of the map.",
     "The pass\u00adword of the guest\u200d network is written on the back of the map."),
    ("quotes", "He said that the neighbour's dog mustn't enter the garden of the school.",
     "He said that the neighbour’s dog mustn’t enter the garden of the school."),
)  # fmt: skip
"""a kind of edit, a text, and the same text after it"""


def copies() -> list[Pair]:
    """Copies and rewordings that say the same."""
    return [Pair(kind, "", text, copy) for kind, text, copy in COPIES]


SUBSTITUTES: Sequence[str] = (
    "harbour lantern orchard velvet granite falcon ribbon cellar meadow copper saddle anchor pepper blanket tunnel "
    "marble feather kettle ladder basket"
).split()
"""objects that take another word's place in a text of a data set"""
