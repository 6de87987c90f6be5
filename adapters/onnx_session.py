"""Opens ONNX models on the processor: no telemetry, little memory, and threads of the caller alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from fusion.errors import ModelMissing


def open_session(model: Path) -> Any:
    """A session of ONNX Runtime. Raises ModelMissing if it is not installed or cannot run the file."""
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
    # Without the arena the process stays at about 160 MB for the model; with it, 970 after one large batch.
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ModelMissing(f"onnxruntime {onnxruntime.__version__} cannot run {model}: {error}") from error
