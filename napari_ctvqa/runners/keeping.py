"""Keeper: the answerer that ran last stays, so that its model is loaded once for many questions."""

from __future__ import annotations

from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from napari_ctvqa.io.model_places import remember_place
from napari_ctvqa.runners.choices import answerer_for, place_of

if TYPE_CHECKING:
    from napari_ctvqa.runners.choices import Wanted
    from napari_ctvqa.runners.opening import Opened


class Keeper:
    """Makes answerers of what is wanted and keeps the last one; safe from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._last: tuple[Wanted, Opened, Any] | None = None

    def answerer(self, wanted: Wanted, opened: Opened) -> Any:
        """Return an answerer: the kept one where nothing has changed. May ask a server.

        Raises
        ------
        CtvqaError
            What ``choices.answerer_for`` raises; the kept one is let go of all the same.
        """
        with self._lock:
            last, self._last = self._last, None
        if last is not None and last[0] == wanted and last[1] is opened:
            answerer = last[2]
        else:
            _close(last)
            answerer = answerer_for(wanted, opened)
            place = place_of(wanted, answerer)
            if place is not None:
                remember_place(place)
        with self._lock:
            self._last = (wanted, opened, answerer)
        return answerer

    @property
    def kept(self) -> Any:
        """Return the answerer that ran last, None where nothing is kept."""
        with self._lock:
            return None if self._last is None else self._last[2]

    def let_go(self) -> None:
        """Free what the kept one holds, without waiting for it."""
        with self._lock:
            last, self._last = self._last, None
        if last is not None:
            Thread(target=_close, args=(last,), name="ctvqa-close", daemon=True).start()

    def close(self) -> None:
        """Free what the kept one holds, and wait until its process is gone."""
        with self._lock:
            last, self._last = self._last, None
        _close(last)


def _close(kept: tuple[Wanted, Opened, Any] | None) -> None:
    close = getattr(kept[2], "close", None) if kept is not None else None
    if close is not None:
        close()
