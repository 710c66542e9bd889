"""What a person set for runs in the window, kept in the user's config folder."""

from __future__ import annotations

import logging
from typing import Any

from napari_ctvqa.core.servers import MOST_AT_ONCE
from napari_ctvqa.io.user_config import config_folder, store_object, stored_object

logger = logging.getLogger(__name__)

_FILE, _IDLE = "runs.json", "unload_after_min"
_SERVERS, _AT_ONCE = "servers", "at_once"
DEFAULT_IDLE_MIN, MOST_IDLE_MIN = 15, 24 * 60
_MOST_CHARACTERS = 4000


def idle_minutes() -> int:
    """Return after how many minutes without a question a local model unloads itself; 0: never."""
    return _number(_IDLE, DEFAULT_IDLE_MIN, MOST_IDLE_MIN)


def remember_idle_minutes(minutes: int) -> None:
    """Keep that number for the next window; a failure is logged only."""
    _remember(_IDLE, minutes)


def last_servers() -> str:
    """Return the addresses of the servers that were asked last, blanks between them."""
    text = stored_object(_FILE).get(_SERVERS)
    return text[:_MOST_CHARACTERS] if isinstance(text, str) else ""


def remember_servers(text: str) -> None:
    """Keep addresses for the next window; they hold no keys. A failure is logged only."""
    _remember(_SERVERS, text[:_MOST_CHARACTERS])


def last_at_once() -> int:
    """Return how many questions each server was asked at once; 0 for the usual number."""
    return _number(_AT_ONCE, 0, MOST_AT_ONCE)


def remember_at_once(number: int) -> None:
    """Keep that number for the next window; a failure is logged only."""
    _remember(_AT_ONCE, number)


def _number(name: str, usual: int, most: int) -> int:
    value = stored_object(_FILE).get(name)
    known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most
    return int(value) if known and value is not None else usual


def _remember(name: str, value: Any) -> None:
    try:
        store_object(_FILE, {**stored_object(_FILE), name: value})
    except OSError as error:
        logger.warning("a setting cannot be kept in %s: %s", config_folder(), error)
