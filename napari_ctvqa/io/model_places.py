"""Servers and model folders that a person has used, kept in the user's config folder."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from napari_ctvqa.core.plain_data import plain
from napari_ctvqa.io.user_config import config_folder, store_object, stored_object

logger = logging.getLogger(__name__)

_FILE = "models.json"
_MOST = 64


@dataclass(frozen=True, slots=True)
class ModelPlace:
    """Where a model can be reached, and how it is fed.

    ``server`` is an address and ``model`` its name there, or ``folder`` a model folder on this
    machine, run by the interpreter ``python`` (empty for our own) on ``device``, with the code in
    ``repository`` upon the model in ``base`` where it needs those. Keys are never part of it.
    """

    preset: str
    server: str = ""
    model: str = ""
    folder: str = ""
    python: str = ""
    device: str = ""
    repository: str = ""
    base: str = ""


def remembered_places() -> tuple[ModelPlace, ...]:
    """Return the places, newest first; rows that cannot be used are left out."""
    rows = stored_object(_FILE).get("places")
    found = [_place(row) for row in rows[:_MOST]] if isinstance(rows, list) else []
    return tuple(place for place in found if place is not None)


def _place(row: Any) -> ModelPlace | None:
    if not isinstance(row, Mapping):
        return None
    values = {one.name: row.get(one.name, "") for one in fields(ModelPlace)}
    if not all(isinstance(value, str) for value in values.values()) or not values["preset"]:
        return None
    return ModelPlace(**values) if values["server"] or values["folder"] else None


def remember_place(place: ModelPlace) -> None:
    """Put a place in front of those remembered; a failure is logged only."""
    _store([place, *(one for one in remembered_places() if one != place)][:_MOST])


def forget_place(place: ModelPlace) -> None:
    """Take a place away; a failure is logged only."""
    _store([one for one in remembered_places() if one != place])


def _store(places: list[ModelPlace]) -> None:
    try:
        store_object(_FILE, {"places": plain(places)})
    except OSError as error:
        logger.warning("models cannot be remembered in %s: %s", config_folder(), error)
