"""The version of the package; the wheel's metadata has the same number (pyproject.toml)."""

VERSION = "0.1.0"
