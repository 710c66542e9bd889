"""What a person set for runs in the window, kept in the user's config folder."""

from __future__ import annotations

import logging
from typing import Any

from napari_ctvqa.core.servers import MOST_AT_ONCE
from napari_ctvqa.io.user_config import config_folder, store_object, stored_object

logger = logging.getLogger(__name__)

_FILE, _IDLE = "runs.json", "unload_after_min"
_SERVERS, _AT_ONCE = "servers", "at_once"
_SCHEDULER, _TRUSTED = "scheduler", "trusted_schedulers"
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
    return _text(_SERVERS)


def remember_servers(text: str) -> None:
    """Keep addresses for the next window; they hold no keys. A failure is logged only."""
    _remember(_SERVERS, text[:_MOST_CHARACTERS])


def last_at_once() -> int:
    """Return how many questions each server was asked at once; 0 for the usual number."""
    return _number(_AT_ONCE, 0, MOST_AT_ONCE)


def remember_at_once(number: int) -> None:
    """Keep that number for the next window; a failure is logged only."""
    _remember(_AT_ONCE, number)


def last_scheduler() -> str:
    """Return the address of the cluster that answered last; empty for none."""
    return _text(_SCHEDULER)


def remember_scheduler(address: str) -> None:
    """Keep that address for the next window; a failure is logged only."""
    if address != last_scheduler():
        _remember(_SCHEDULER, address)


def is_trusted(scheduler: str) -> bool:
    """Return whether a person has said that this scheduler may be used."""
    known = stored_object(_FILE).get(_TRUSTED)
    return isinstance(known, list) and scheduler in known


def trust(scheduler: str) -> None:
    """Keep that a person has said so; a failure is logged only."""
    known = stored_object(_FILE).get(_TRUSTED)
    _remember(_TRUSTED, [*(known if isinstance(known, list) else []), scheduler])


def _text(name: str) -> str:
    text = stored_object(_FILE).get(name)
    return text[:_MOST_CHARACTERS] if isinstance(text, str) else ""


def _number(name: str, usual: int, most: int) -> int:
    value = stored_object(_FILE).get(name)
    known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most
    return int(value) if known and value is not None else usual


def _remember(name: str, value: Any) -> None:
    try:
        store_object(_FILE, {**stored_object(_FILE), name: value})
    except OSError as error:
        logger.warning("a setting cannot be kept in %s: %s", config_folder(), error)
