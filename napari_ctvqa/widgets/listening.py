"""Listening: a widget's connections to the session, with one owner and one end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from napari_ctvqa.widgets.docks import dock_of, is_behind

if TYPE_CHECKING:
    from collections.abc import Callable

    from qtpy.QtWidgets import QDockWidget, QWidget

    from napari_ctvqa.core.session import Session


class Listening:
    """Connects (signal, slot) pairs; ``close`` disconnects them, once.

    Parameters
    ----------
    pairs
        Signals without arguments, and what is to be called.
    panel
        A widget in a dock. While its dock is closed or behind another tab nothing is called; once
        it is seen again, each slot that was due is called once, in the order in which they came.
    session
        Whose ``update_unhurried`` the panel may follow a moment later, in a turn of its own.
    """

    def __init__(
        self,
        *pairs: tuple[Any, Callable[..., None]],
        panel: QWidget | None = None,
        session: Session | None = None,
    ) -> None:
        self._panel = panel
        self._session = session
        self._dock: QDockWidget | None = None
        self._due: dict[Callable[..., None], None] = {}
        if panel is not None:
            pairs = tuple((signal, _Ear(self, slot).hear) for signal, slot in pairs)
        self._pairs = pairs
        for signal, slot in pairs:
            signal.connect(slot)

    def catch_up(self) -> None:
        """Call what is due now: somebody is about to use what the panel shows."""
        due, self._due = self._due, {}
        for slot in due:
            slot()

    def close(self) -> None:
        """Disconnect; a second call does nothing."""
        for signal, slot in self._pairs:
            signal.disconnect(slot, missing_ok=True)
        self._pairs = ()
        self._due.clear()
        if self._dock is not None:
            self._dock.visibilityChanged.disconnect(self._on_seen)
            self._dock = None

    def hear(self, slot: Callable[..., None]) -> None:
        """Call a slot now, or remember that it is due."""
        turns = self._session.turns if self._session is not None else None
        if self._is_behind():
            self._due[slot] = None
        elif turns is not None and self._session is not None and self._session.unhurried:
            if slot not in self._due:
                self._due[slot] = None
                turns.add(self)
        else:
            self.catch_up()
            slot()

    def take_turn(self) -> None:
        """Call one slot that is due; what it changes is painted when ``paint`` is called."""
        if self._panel is not None and self._due and not self._is_behind():
            self._panel.setUpdatesEnabled(False)
            slot = next(iter(self._due))
            del self._due[slot]
            slot()

    def paint(self) -> None:
        """Let the panel be painted."""
        if self._panel is not None and self._pairs:
            self._panel.setUpdatesEnabled(True)

    def _is_behind(self) -> bool:
        assert self._panel is not None
        dock = dock_of(self._panel)
        if dock is not self._dock:
            if self._dock is not None:
                self._dock.visibilityChanged.disconnect(self._on_seen)
            self._dock = dock
            if dock is not None:
                dock.visibilityChanged.connect(self._on_seen)
        return dock is not None and is_behind(dock)

    def _on_seen(self, seen: bool) -> None:
        if seen:
            self.catch_up()


class _Ear:
    """One slot of a panel, as a signal's own listener: psygnal tells bound methods apart."""

    def __init__(self, listening: Listening, slot: Callable[..., None]) -> None:
        self._listening, self._slot = listening, slot

    def hear(self) -> None:
        self._listening.hear(self._slot)
