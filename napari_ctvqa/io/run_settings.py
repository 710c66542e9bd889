"""What a person set for runs in the window, kept in the user's config folder."""

from __future__ import annotations

import logging

from napari_ctvqa.io.user_config import config_folder, store_object, stored_object

logger = logging.getLogger(__name__)

_FILE, _IDLE = "runs.json", "unload_after_min"
DEFAULT_IDLE_MIN, MOST_IDLE_MIN = 15, 24 * 60


def idle_minutes() -> int:
    """Return after how many minutes without a question a local model unloads itself; 0: never."""
    value = stored_object(_FILE).get(_IDLE)
    known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_IDLE_MIN
    return int(value) if known and value is not None else DEFAULT_IDLE_MIN


def remember_idle_minutes(minutes: int) -> None:
    """Keep that number for the next window; a failure is logged only."""
    try:
        store_object(_FILE, {**stored_object(_FILE), _IDLE: minutes})
    except OSError as error:
        logger.warning("a setting cannot be kept in %s: %s", config_folder(), error)
