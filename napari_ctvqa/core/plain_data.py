"""Records as plain data: what JSON holds, the same after being written and read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np

_MAX_DEPTH = 60


def plain(value: Any, depth: int = 0) -> Any:
    """Return dataclasses as objects, tuples and arrays as lists, enums as their values.

    ``dataclasses.asdict`` fails at read-only mappings and keeps tuples. What is none of these and
    no JSON value becomes its ``str``; what is nested more than 60 deep is left out, as a model may
    nest its arguments to any depth.
    """
    if isinstance(value, Enum):
        return plain(value.value, depth)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if depth >= _MAX_DEPTH:
        return "[nested too deeply, left out]"
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name), depth + 1) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(inner, depth + 1) for inner in value]
    return str(value)
