"""`fusion.lib.statements`: what stays of a note without what was forgotten in it."""

from __future__ import annotations

import pytest

from fusion.lib.statements import statements, without

BODY = ["AAAAC3NzaC1lZDI1NTE5AAAAIJxWm0cq7rRk1fTt", "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9u"]
PUTTY = ["PuTTY-User-Key-File-3: ssh-ed25519", "Encryption: none", "Private-Lines: 2", *BODY, "Private-MAC: 0"]
PEM = ["-----BEGIN OPENSSH PRIVATE KEY-----", *BODY, "-----END OPENSSH PRIVATE KEY-----"]
CUT_PEM = [*BODY, "-----END OPENSSH PRIVATE KEY-----"]


def left(lines: list[str], forgotten: str) -> str:
    """What stays of these lines of a note once the line that begins so was forgotten."""
    text = "\n".join(["The key of the build server:", *lines, "It is rotated in May."])
    gone = {one.key for one in statements(text) if text[one.start : one.end].startswith(forgotten)}
    assert gone
    shown = without(text, gone.__contains__)
    assert shown.count("\n") == text.count("\n"), "line numbers stay"
    return shown


@pytest.mark.feature("forgetting the line that names a private key leaves none of its other lines")
@pytest.mark.parametrize(
    ("lines", "forgotten"),
    [
        pytest.param(PUTTY, "Private-Lines", id="putty"),
        pytest.param(PEM, "-----BEGIN", id="pem"),
        pytest.param(CUT_PEM, "-----END", id="pem without its beginning"),
    ],
)
def test_forgetting_the_line_that_names_a_private_key_leaves_none_of_its_other_lines(
    lines: list[str], forgotten: str
) -> None:
    shown = left(lines, forgotten)
    assert not any(line in shown for line in BODY)
    assert "It is rotated in May." in shown
