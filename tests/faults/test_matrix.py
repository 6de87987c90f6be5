"""Which test tries which fault on which adapter: the table "Faults of each adapter" of tests/FEATURES.md.

    python -m tests.faults.test_matrix      # prints it

What happens to an answer once an adapter has given it (duplicates, floods, an open breaker, the last one that answers)
is the same for all, and stands in the table before.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.faults.test_http_backends import ENDLESS, FAULTS, SYSTEMS

ROOT = Path(__file__).resolve().parents[2]
TITLE = "## Faults of each adapter"

EACH = "tests/faults/test_http_backends.py::test_each_fault_has_its_status_and_costs_nothing_else"
GROUPS: Mapping[tuple[str, ...], str] = {
    tuple(ENDLESS): "tests/faults/test_http_backends.py::test_what_never_ends_is_cut",
    ("hangs up", "promises more than comes"): EACH,
    ("HTML", "JSON that ends in the middle", "nothing", "another schema", "null"): EACH,
    ("an endless reply", "a gigabyte, announced", "a bomb"): EACH,
    ("401", "403"): EACH,
    ("429",): EACH,
    ("500", "503"): EACH,
    ("a redirect",): EACH,
}
OVER_HTTP: Mapping[str, str] = {
    "nobody there": "tests/faults/test_http_backends.py::test_nobody_there",
    **{", ".join(group): test for group, test in GROUPS.items()},
    "items and scores without sense, ten thousand items": (
        "tests/faults/test_http_backends.py::test_items_are_judged_one_by_one"
    ),
    "flapping": "tests/faults/test_http_backends.py::test_flapping_costs_no_request_anything",
}
LEAK = "tests/faults/test_http_backends.py::test_another_users_memory_is_never_shown"
BOUND = "tests/backend_contract.py::BackendContract::test_scope_is_honoured"
DOCTOR = "tests/faults/test_http_backends.py::test_each_fault_is_told_to_doctor_with_its_mend"

OWN: Mapping[str, Mapping[str, str]] = {
    "qdrant": {
        "a missing collection": "tests/adapters/test_qdrant.py::test_a_missing_collection_is_named",
        "vectors of another dimension": "tests/adapters/test_qdrant.py::test_a_wrong_dimension_is_named",
        "another metric": "tests/adapters/test_qdrant.py::test_a_wrong_metric_is_named_and_may_be_meant",
        "a vector of another name": "tests/adapters/test_qdrant.py::test_a_vector_of_another_name_is_named",
        "a server of an older version": "tests/adapters/test_qdrant.py::test_an_older_server_is_told",
        "made anew in another shape": (
            "tests/adapters/test_qdrant.py::test_a_collection_that_is_made_anew_is_looked_at_again"
        ),
        "a payload in another shape": "tests/adapters/test_qdrant.py::test_a_text_that_stands_elsewhere_is_told",
        "an expired key": "tests/adapters/test_qdrant.py::test_an_expired_key_is_told_and_a_renewed_one_is_used",
        "gRPC's port": "tests/adapters/test_qdrant.py::test_grpcs_port_is_told_from_rests",
        "our own collection, changed": (
            "tests/adapters/test_qdrant.py::test_a_changed_collection_of_ours_is_not_written_to"
        ),
        "another model": "tests/adapters/test_qdrant.py::test_another_model_is_never_mixed_with_the_first",
        "no model": "tests/adapters/test_qdrant.py::test_a_failing_model_costs_no_memory",
    },
    "mem0": {
        "a server upgraded from 1.x to 2.x": (
            "tests/adapters/test_mem0_served.py::test_an_upgraded_server_is_asked_as_it_wants"
        ),
        "replies of 1.x and of its first list": "tests/adapters/test_mem0_served.py::test_a_recorded_reply_is_read",
    },
    "mem0, the library on a Qdrant server": {
        "a missing collection, another dimension, another metric": (
            "tests/adapters/test_mem0_served.py::test_what_is_wrong_with_a_collection_is_named"
        ),
        "an expired key, a renewed one": "tests/adapters/test_mem0_served.py::test_an_expired_key_is_told",
        "a Qdrant of an older version": "tests/adapters/test_mem0_served.py::test_an_older_qdrant_is_told",
        "a library of 1.x": "tests/adapters/test_mem0_served.py::test_a_library_of_one_is_called_as_it_wants",
        "no model": "tests/adapters/test_mem0_served.py::test_without_its_vector_nothing_is_stored_on_a_server",
        "a model that fails": "tests/adapters/test_mem0_served.py::test_a_model_that_fails_fails_the_delivery",
        "another tenant's memories": (
            "tests/adapters/test_mem0_served.py::test_another_tenants_memories_stay_out_of_what_others_read"
        ),
    },
    "mem0, the library in a folder": {
        "a model that fails": "tests/adapters/test_mem0.py::test_a_failing_model_costs_no_memory",
    },
    "cognee": {
        "each status, by the search and by the doctor": "tests/adapters/test_cognee.py::test_each_fault_has_its_error",
        "an expired token": "tests/adapters/test_cognee.py::test_an_expired_token_is_renewed_once",
        "no data": "tests/adapters/test_cognee.py::test_nothing_there_is_nothing_found",
        "a server of another shape": (
            "tests/adapters/test_cognee.py::test_passages_and_triplets_in_both_shapes_of_reply"
        ),
        "a graph that is not made": "tests/adapters/test_cognee.py::test_a_graph_that_is_not_made_is_said",
    },
    "bolt (cortex, neo4j)": {
        "nobody there": "tests/bolt/test_driver.py::test_no_server_is_unreachable",
        "no such host": "tests/bolt/test_driver.py::test_no_such_host_is_unreachable",
        "hangs": "tests/bolt/test_driver.py::test_the_deadline_covers_everything",
        "a reset in mid-result": "tests/bolt/test_driver.py::test_a_reset_in_mid_result_is_asked_again",
        "resets again and again": "tests/bolt/test_driver.py::test_a_server_that_keeps_resetting_is_unreachable",
        "a restart": "tests/bolt/test_driver.py::test_the_pool_recovers_when_the_server_restarts",
        "what is no Bolt": "tests/bolt/test_driver.py::test_who_speaks_no_bolt_is_told_from_a_database",
        "garbage": "tests/bolt/test_driver.py::test_a_broken_message_is_an_invalid_answer",
        "a replica that only reads, and other failures by their codes": (
            "tests/bolt/test_driver.py::test_failures_have_names"
        ),
        "a refused password": "tests/bolt/test_driver.py::test_a_refused_password_is_unauthorized",
        "a renewed password": "tests/bolt/test_driver.py::test_a_renewed_password_is_used_without_a_restart",
        "too many refused log-ons": "tests/bolt/test_driver.py::test_too_many_refused_log_ons_ask_to_wait",
        "`auth=None`": "tests/bolt/test_driver.py::test_nobody_logs_on_with_two_empty_texts",
    },
    "neo4j": {
        "each fault, its status and its mend": "tests/adapters/test_neo4j.py::test_a_fault_has_its_name_and_its_mend",
        "hangs": "tests/adapters/test_neo4j.py::test_a_server_that_hangs_costs_the_deadline",
        "a missing index": "tests/adapters/test_neo4j.py::test_a_missing_index_is_named_with_its_mend",
        "an index that goes": "tests/adapters/test_neo4j.py::test_an_index_that_goes_is_noticed",
        "labels that are not there": "tests/adapters/test_neo4j.py::test_labels_and_properties_that_the_graph_has_not",
        "vectors of another dimension": "tests/adapters/test_neo4j.py::test_vectors_of_another_size_leave_words",
        "items without sense": "tests/adapters/test_neo4j.py::test_rows_that_make_no_sense_are_dropped",
        "another user's memory": "tests/adapters/test_neo4j.py::test_the_database_itself_filters_whose_it_is",
        "flapping": "tests/adapters/test_neo4j.py::test_a_server_that_comes_back_is_asked_again",
        "names that could break out": "tests/adapters/test_neo4j.py::test_a_name_that_could_break_out_is_refused",
    },
}


def lines() -> Iterator[str]:
    """The table, a line an adapter and fault."""
    yield "| adapter: what goes wrong | seed | test |"
    yield "|---|---|---|"
    for name, system in SYSTEMS.items():
        tried = dict(OVER_HTTP)
        tried["another user's memory" if system.leak else "bound to one user, asked for another's"] = (
            LEAK if system.leak else BOUND
        )
        tried["each of them, told to doctor with its mend"] = DOCTOR
        yield from (f"| {name}: {fault} | A153 | `{test}` |" for fault, test in tried.items())
    for name, tried in OWN.items():
        yield from (f"| {name}: {fault} | own | `{test}` |" for fault, test in tried.items())


def test_the_list_is_that_of_the_tests() -> None:
    """The page has what is printed here; `test_project` sees that each test that it names is there."""
    page = (ROOT / "tests" / "FEATURES.md").read_text(encoding="utf-8")
    section = re.search(rf"^{TITLE}\n(.*?)(?=^## )", page, re.MULTILINE | re.DOTALL)
    assert section
    assert [line for line in section[1].splitlines() if line.startswith("|")] == list(lines())


def test_every_fault_that_is_tried_is_listed() -> None:
    """The groups together are the faults that every adapter over HTTP is tried with, each once."""
    listed = [fault for group in GROUPS for fault in group]
    assert sorted(listed) == sorted([*ENDLESS, *FAULTS])


if __name__ == "__main__":
    sys.stdout.write("\n".join([*lines(), ""]))
