"""What an agent passes to a tool is checked here: wrong input becomes a failure result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from napari_ctvqa.core.records import ToolResult

TEXT_LIMIT = 10_000
"""Characters; a longer argument is refused, not searched."""


def text_argument(arguments: Mapping[str, Any], *keys: str) -> str | ToolResult:
    """Return the first of these arguments as text, or the failure result to give back.

    A missing argument, one of another type and one that is too long are failures whose ``error``
    says what was expected.
    """
    if not isinstance(arguments, Mapping):
        return failure(f"arguments must be an object, got {type(arguments).__name__}")
    for key in keys:
        if key in arguments:
            return _checked(key, arguments[key])
    return failure(f"missing argument {keys[0]!r}")


def _checked(key: str, value: object) -> str | ToolResult:
    if not isinstance(value, str):
        return failure(f"argument {key!r} must be a string, got {type(value).__name__}")
    if len(value) > TEXT_LIMIT:
        return failure(
            f"argument {key!r} is too long: {len(value)} characters, at most {TEXT_LIMIT}"
        )
    if not value.strip():
        return failure(f"argument {key!r} is empty")
    return value.strip()


def failure(error: str) -> ToolResult:
    """Return the plain failure result: ``{error}``."""
    return ToolResult({"error": error}, error=error)
