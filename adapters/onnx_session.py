"""Opens ONNX models on the processor: no telemetry, little memory, and threads of the caller alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from fusion.errors import ModelMissing


def open_session(path: Path, model: bytes | None = None, *, arena: bool = False) -> Any:
    """A session of ONNX Runtime for the file, or for ``model``, which was made of it.

    With ``arena`` the memory of a run is kept for the next one: for runs that are all small.
    Raises ModelMissing if ONNX Runtime is not installed or cannot run the model.
    """
    # Its builds from PyPI send telemetry to Microsoft, and keep a device id in the user's home, unless that is
    # switched off before they are loaded.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    try:
        import onnxruntime
    except ImportError as error:
        raise ModelMissing("local models need onnxruntime: pip install onnxruntime") from error
    options = onnxruntime.SessionOptions()
    # One thread a run: our own threads run side by side on the same weights, and none spins for work while idle.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    # It grows to the largest run, and is not given back: with MiniLM a process has 970 MB after one large batch.
    options.enable_cpu_mem_arena = arena
    options.enable_mem_pattern = False
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(model or str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ModelMissing(f"onnxruntime {onnxruntime.__version__} cannot run {path}: {error}") from error
