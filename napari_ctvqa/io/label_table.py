"""Read the names of a multi-label mask file: ``{"1": "spleen"}`` or the inverse."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.errors import InputFileError, RecordError

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES = 8 << 20
EXAMPLE = 'a label table looks like {"1": "spleen", "2": "kidney_right"}'


def read_label_table(path: Path) -> dict[int, str]:
    """Return label value to structure name, background left out.

    Reads ``{"1": "spleen"}``, ``{"spleen": 1}``, and either under a key ``labels``.

    Raises
    ------
    InputFileError, RecordError
        Naming the file, and the line or the key.
    """
    data = _json(path)
    if isinstance(data, dict) and isinstance(data.get("labels"), dict):
        data = data["labels"]
    if not isinstance(data, dict):
        raise RecordError(f"{path}: holds a {type(data).__name__}; {EXAMPLE}.", hint=_hint(path))
    table: dict[int, str] = {}
    for key, value in data.items():
        label, name = _pair(path, key, value)
        if label == 0:
            continue
        if table.setdefault(label, name) != name:
            raise RecordError(
                f"{path}: label {label} has two names, {table[label]!r} and {name!r}.",
                hint=_hint(path),
            )
    return table


def _pair(path: Path, key: str, value: Any) -> tuple[int, str]:
    for label, name in ((key, value), (value, key)):
        number = _label(label)
        if number is not None and isinstance(name, str) and name.strip():
            return number, name.strip()
    raise RecordError(
        f"{path}: the entry {key!r} does not join a label from 0 to 65535 and a name; {EXAMPLE}.",
        hint=_hint(path),
    )


def _label(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return None
    text = str(value).strip()
    if not text.isascii() or not text.isdecimal() or len(text) > 5:
        return None
    return int(text) if int(text) <= 0xFFFF else None


def _json(path: Path) -> Any:
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise InputFileError(
                path,
                f"is {size} bytes long; a label table has at most {MAX_BYTES}.",
                hint=_hint(path),
            )
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputFileError(
            path, f"cannot be read ({error.strerror}); {EXAMPLE}.", hint="Check the path."
        ) from None
    except UnicodeDecodeError as error:
        raise InputFileError(
            path, f"is not UTF-8 text at byte {error.start}; {EXAMPLE}.", hint=_hint(path)
        ) from None
    except json.JSONDecodeError as error:
        raise InputFileError(
            path,
            f"is not JSON at line {error.lineno}, column {error.colno} ({error.msg}); {EXAMPLE}.",
            hint=_hint(path),
        ) from None
    except RecursionError:
        raise InputFileError(path, f"is nested too deeply; {EXAMPLE}.", hint=_hint(path)) from None


def _hint(path: Path) -> str:
    return f"Correct {path.name} or give another with --labels."
