"""Listening: a widget's connections to the session, with one owner and one end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Listening:
    """Connects (signal, slot) pairs; ``close`` disconnects them, once."""

    def __init__(self, *pairs: tuple[Any, Callable[..., None]]) -> None:
        self._pairs = pairs
        for signal, slot in pairs:
            signal.connect(slot)

    def close(self) -> None:
        """Disconnect; a second call does nothing."""
        for signal, slot in self._pairs:
            signal.disconnect(slot, missing_ok=True)
        self._pairs = ()
