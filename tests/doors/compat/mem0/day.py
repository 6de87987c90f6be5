"""A day of mem0's own client, in a process of its own: ``python day.py URL KEY`` writes what each call returned.

It is written as for mem0's service; only ``host`` and ``api_key`` are ours. It imports nothing of this project.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from mem0 import MemoryClient

ADA, BOB = {"user_id": "ada"}, {"user_id": "bob"}
SETTLE_S = 30


def found(client: Any, query: str, filters: dict[str, str]) -> list[dict[str, Any]]:
    """The results of a search; a memory that was just added may need some tenths of a second."""
    until = time.monotonic() + SETTLE_S
    while not (results := client.search(query, filters=filters)["results"]) and time.monotonic() < until:
        time.sleep(0.05)
    return results


def error_of(call: Any) -> str:
    """The name of the exception that a call raises."""
    try:
        call()
    except Exception as error:  # noqa: BLE001 - its name is what is asked for
        return type(error).__name__
    return ""


def main(url: str, key: str) -> dict[str, Any]:
    """Every call that a program makes in a day, by name."""
    client = MemoryClient(api_key=key, host=url)
    said: dict[str, Any] = {}
    said["add"] = client.add("Ada keeps three bees.", user_id="ada", metadata={"topic": "bees"})
    client.add([{"role": "user", "content": "Bob has a kite."}], filters=BOB)
    said["search"] = found(client, "Who keeps bees?", ADA)
    said["other"] = client.search("Who keeps bees?", filters=BOB)["results"]
    id_ = said["add"]["results"][0]["id"]
    said["get"] = client.get(id_)
    said["get_all"] = client.get_all(filters=ADA, page=1, page_size=10)
    said["update"] = client.update(id_, text="Ada keeps four bees.")
    said["updated"] = client.get(id_)
    said["history"] = client.history(id_)
    said["delete"] = client.delete(id_)
    said["get deleted"] = error_of(lambda: client.get(id_))
    two = [client.add(f"Ada has a {what}.", user_id="ada")["results"][0]["id"] for what in ("boat", "barn")]
    said["users"] = client.users()
    said["batch_update"] = client.batch_update([{"memory_id": one, "text": f"Ada sold {one}."} for one in two])
    said["batch updated"] = [client.get(one)["memory"] == f"Ada sold {one}." for one in two]
    said["feedback"] = client.feedback(found(client, "What has Ada sold?", ADA)[0]["id"], "POSITIVE")
    said["batch_delete"] = client.batch_delete([{"memory_id": one} for one in two])
    said["batch deleted"] = client.get_all(filters=ADA)["results"]
    client.add("Cy has a tent.", user_id="cy")
    said["delete_users"] = client.delete_users(user_id="cy")
    said["users then"] = client.users()
    said["delete_users of nobody"] = error_of(lambda: client.delete_users(user_id="nobody"))
    refused = {
        "get_summary": client.get_summary,
        "create_memory_export": lambda: client.create_memory_export("{}"),
        "get_memory_export": lambda: client.get_memory_export(user_id="ada"),
        "generate_profile": lambda: client.generate_profile("ada"),
        "get_profile": lambda: client.get_profile("ada"),
        "get_profile_settings": client.get_profile_settings,
        "get_webhooks": lambda: client.get_webhooks("home"),
        "get_project": client.get_project,
    }
    said["refused"] = {name: error_of(call) for name, call in refused.items()}
    said["delete_all of nobody"] = error_of(client.delete_all)
    said["delete_all"] = client.delete_all(user_id="bob")
    said["left"] = client.get_all(filters=BOB)["results"]
    said["wrong key"] = error_of(lambda: MemoryClient(api_key="wrong", host=url))
    return said


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(*sys.argv[1:])) + "\n")
