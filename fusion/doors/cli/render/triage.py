"""Views of triage: what needs a person, in a list and one item a screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fusion.doors.cli.render.tables import one_line, say, table

if TYPE_CHECKING:
    from fusion import wire


def triage(found: wire.Triage) -> None:
    """Prints what needs a person, one a line, and how to decide it."""
    if not found["items"]:
        say("Nothing needs a decision.")
        return
    rows = (
        (one["id"], one["kind"].replace("_", " "), one_line(one["why"]), one_line(one["text"]))
        for one in found["items"]
    )
    table(("item", "kind", "why", "text"), rows)
    for one in found["items"]:
        how = [choice["command"] for choice in one["choices"]] or [one["command"]]
        say(f"{one['id']}: {'; '.join(how)}")
    if found["more"]:
        say("There is more: --limit 100 lists it.")


def triage_item(item: wire.TriageItem, number: int, count: int) -> None:
    """Prints one item with its keys."""
    say(f"\n{number} of {count}  {item['kind'].replace('_', ' ')}  {item['id']}")
    say(f"  {item['why']}")
    if item["sides"]:
        for one in item["sides"]:
            say(f"  {one['ref']}  {one['at'][:10]}  {one['trust']}  {one['text']}")
    else:
        say(f"  {item['text']}")
    if not item["choices"]:
        say(f"  It is looked at elsewhere: {item['command']}")
    for choice in item["choices"]:
        say(f"  {choice['key']}  {choice['name']}: {choice['does']}")
    say("  s  skip    u  undo the last decision    Q  quit")


def triage_decided(done: wire.TriageDecided) -> None:
    """Prints what was decided, and what takes it back."""
    if done["kept_in"] is not None:
        say(f"Set aside. The list is kept in observations/{done['kept_in']}.")
        return
    if done["decision"] is None:
        say("Nothing changed: it is so already.")
        return
    say(f"{done['id']}  {done['choice']}" + (f": {done['ref']}" if done["ref"] and done["ref"] != done["id"] else ""))
    say(f"To take it back: fusion undo {done['decision']}")
