"""Which foreign code a person has allowed to run: a model, where it lies, and its exact state."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.plain_data import plain
from napari_ctvqa.io.user_config import config_folder, store_object, stored_object

_FILE = "model_code.json"
_MOST = 256


@dataclass(frozen=True, slots=True)
class CodeConsent:
    """One "yes": for this model, this folder, and the code as it is now.

    ``mark`` is a mark of all its Python files: changed code is other code, and asked about again.
    ``revision`` is the commit that a download's folder names, empty where none does.
    """

    model: str
    folder: str
    mark: str
    revision: str = ""


def consents() -> tuple[CodeConsent, ...]:
    """Return what was allowed, newest first; rows that cannot be used are left out."""
    rows = stored_object(_FILE).get("allowed")
    found = [_consent(row) for row in rows[:_MOST]] if isinstance(rows, list) else []
    return tuple(consent for consent in found if consent is not None)


def is_allowed(wanted: CodeConsent) -> bool:
    """Return whether a person has allowed exactly this code for this model."""
    return any(
        (one.model, one.folder, one.mark) == (wanted.model, wanted.folder, wanted.mark)
        for one in consents()
    )


def allow(consent: CodeConsent) -> None:
    """Remember a consent.

    Raises
    ------
    CtvqaError
        When it cannot be kept.
    """
    _keep([consent, *(one for one in consents() if one != consent)])


def forget(consent: CodeConsent) -> None:
    """Take a consent back. Raises CtvqaError when that cannot be kept."""
    _keep([one for one in consents() if one != consent])


def revision_of(folder: Path) -> str:
    """Return the commit that a folder of a download cache is named after; empty for others."""
    name = folder.resolve().name
    known = len(name) == 40 and all(letter in "0123456789abcdef" for letter in name)
    return name if known else ""


def _consent(row: Any) -> CodeConsent | None:
    if not isinstance(row, dict):
        return None
    values = {one.name: row.get(one.name, "") for one in fields(CodeConsent)}
    usable = all(isinstance(value, str) for value in values.values())
    return CodeConsent(**values) if usable and values["model"] and values["mark"] else None


def _keep(kept: list[CodeConsent]) -> None:
    try:
        store_object(_FILE, {"allowed": plain(kept[:_MOST])})
    except OSError as error:
        raise CtvqaError(
            f"That code may run cannot be kept in {config_folder()} ({error.strerror or error}).",
            hint="Make that folder writable, or name another one in NAPARI_CTVQA_CONFIG_DIR.",
        ) from None
