"""One thread for each product of matrices: several stores multiply at once, and threads that wait burn CPU."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

LOOK = """
import sys
from fusion.__main__ import main
sys.argv = ["fusion", "serve", "--help"]
try:
    main()
except SystemExit:
    pass
import ctypes, fusion.doors.http.serve, numpy.linalg
[lib] = {line.split()[-1] for line in open("/proc/self/maps") if "openblas" in line}
print(f"threads: {ctypes.CDLL(lib).scipy_openblas_get_num_threads64_()}")
"""


@pytest.mark.feature(
    "the command's processes multiply matrices with one thread each, unless OPENBLAS_NUM_THREADS says more"
)
@pytest.mark.skipif(sys.platform != "linux" or os.cpu_count() == 1, reason="looks into /proc; one core has one thread")
@pytest.mark.parametrize(("given", "threads"), [(None, 1), ("2", 2)])
def test_command_bounds_the_threads_of_blas(given: str | None, threads: int) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "OPENBLAS_NUM_THREADS"}
    environment |= {} if given is None else {"OPENBLAS_NUM_THREADS": given}
    done = subprocess.run([sys.executable, "-c", LOOK], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == f"threads: {threads}"
