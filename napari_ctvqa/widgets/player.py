"""Player: the evidence chain as a film in the window: play, step, speed, caption."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from qtpy.QtCore import QObject, Qt, QTimer, Signal
from qtpy.QtWidgets import (
    QComboBox,
    QHBoxLayout,
    QPushButton,
    QSlider,
    QVBoxLayout,
    QWidget,
)

from napari_ctvqa.core.film_steps import FilmStep, film_steps
from napari_ctvqa.widgets.listening import Listening
from napari_ctvqa.widgets.text import Label
from napari_ctvqa.widgets.theme import GAP_PX, Styling

if TYPE_CHECKING:
    from collections.abc import Callable

    from qtpy.QtGui import QCloseEvent

    from napari_ctvqa.core.session import Session

SPEEDS_S = (8.0, 4.0, 2.5, 1.5, 0.75)
"""Seconds a step, slowest first."""
USUAL = 2
_HIGHEST_PX = 84
_NARROW_PX = 32
"""Narrow enough for the bar to fit below a picture of 500 pixels."""


class Player(QObject):
    """Goes through the steps of the shown film; what is shown, the session's focus says.

    Parameters
    ----------
    session
        Observed; steps are wished for, never gone to from here.
    model
        Asked which model's chain is shown.
    busy
        Asked whether something is still being read or computed: then a step waits.
    """

    changed = Signal()
    """Other steps, another place, playing or not, another speed."""

    def __init__(
        self, session: Session, model: Callable[[], str], busy: Callable[[], bool]
    ) -> None:
        super().__init__()
        self.session = session
        self.steps: tuple[FilmStep, ...] = ()
        self.place = -1
        """Index of the step that is shown, -1 before the first."""
        self.speed = USUAL
        self._interval_ms: int | None = None
        self._model, self._busy = model, busy
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._play_on)
        self._listening = Listening(
            (session.chains_changed, self.reload),
            (session.question_changed, self.reload),
            (session.reveal_changed, self.reload),
            (session.case_changed, self.reload),
            (session.focus_changed, self._follow),
        )
        self.reload()

    def close(self) -> None:
        """Stop, and let go of the session."""
        self.pause()
        self._listening.close()

    @property
    def playing(self) -> bool:
        """Return whether it goes on by itself."""
        return bool(self._timer.isActive())

    @property
    def model(self) -> str:
        """Return the model whose chain is played, empty for none."""
        return self._model()

    @property
    def step(self) -> FilmStep | None:
        """Return the step that is shown."""
        return self.steps[self.place] if 0 <= self.place < len(self.steps) else None

    @property
    def first_difference(self) -> int | None:
        """Return the place of the first differing step, None without one."""
        return next((n for n, step in enumerate(self.steps) if step.first), None)

    # ------------------------------------------------------------------ control

    def toggle(self) -> None:
        """Play, or pause; at the end, play again from the beginning."""
        if self.playing:
            self.pause()
        else:
            self.play()

    def play(self, interval_ms: int | None = None) -> None:
        """Go on by itself; ``interval_ms`` instead of the speed, and then without an end."""
        self._interval_ms = interval_ms
        if interval_ms is None and self.steps:
            self.go_to(self.place if 0 <= self.place < len(self.steps) - 1 else 0)
        self._timer.start(interval_ms or round(1000 * SPEEDS_S[self.speed]))
        self.changed.emit()

    def pause(self) -> None:
        """Stay at the step that is shown."""
        self._timer.stop()
        self.changed.emit()

    def go(self, by: int) -> None:
        """Go some steps forward (+) or back (-)."""
        self.go_to(self.place + by)

    def go_to(self, place: int) -> None:
        """Show a step; beyond the ends, the last one there is."""
        if not self.steps:
            return
        self.place = min(max(place, 0), len(self.steps) - 1)
        self.session.wishes.focus_step.emit(self.steps[self.place].step)
        self.changed.emit()

    def faster(self, by: int = 1) -> None:
        """Play faster (+1) or slower (-1)."""
        self.set_speed(self.speed + by)

    def set_speed(self, speed: int) -> None:
        """Play at an entry of ``SPEEDS_S``."""
        self.speed = min(max(speed, 0), len(SPEEDS_S) - 1)
        if self.playing and self._interval_ms is None:
            self._timer.start(round(1000 * SPEEDS_S[self.speed]))
        self.changed.emit()

    def _play_on(self) -> None:
        if self._busy() or not self.steps:
            return
        if self.place < len(self.steps) - 1:
            self.go(1)
        elif self._interval_ms is None:
            self.pause()

    # ---------------------------------------------------------------- following

    def reload(self) -> None:
        """Take over the chains that are shown; another film begins before its first step."""
        session, model = self.session, self._model()
        if session.case is None or session.question is None:
            steps: tuple[FilmStep, ...] = ()
        else:
            steps = film_steps(
                session.case,
                session.reference_chain,
                session.model_chains.get(model),
                session.comparisons.get(model),
                revealed=session.revealed,
                located=False,
            )
        same = [step.lines for step in steps] == [step.lines for step in self.steps]
        self.steps = steps
        if not same:
            self.place = -1
            if self._interval_ms is None:
                self._timer.stop()
        self._follow()

    def _follow(self) -> None:
        """Take over a step that was chosen elsewhere, in the Evidence panel for one."""
        chosen = self.session.focused_step
        here = self.step
        if chosen is not None and (here is None or chosen not in (here.model, here.reference)):
            places = [
                n for n, step in enumerate(self.steps) if chosen in (step.model, step.reference)
            ]
            if places:
                self.place = places[0]
        self.changed.emit()


class PlayerBar(QWidget):
    """Shows a Player: buttons, the row of steps with the first difference marked, the caption."""

    def __init__(self, player: Player, export: Callable[[], None]) -> None:
        super().__init__()
        self._player = player
        self._styling = Styling(self)
        self._back = QPushButton("‹")
        self._play = QPushButton("▶ Play")
        self._on = QPushButton("›")
        self._first = QPushButton("First ≠")
        self._export = QPushButton("Export…")
        self._speed = QComboBox()
        self._line = QSlider(Qt.Orientation.Horizontal)
        self._caption = Label(role="heading")
        self._build()
        self._back.clicked.connect(partial(player.go, -1))
        self._on.clicked.connect(partial(player.go, 1))
        self._play.clicked.connect(player.toggle)
        self._first.clicked.connect(self._to_first)
        self._export.clicked.connect(export)
        self._speed.activated.connect(player.set_speed)
        self._line.actionTriggered.connect(self._slid)
        player.changed.connect(self._show)
        self._show()

    def _build(self) -> None:
        for button, name, words in (
            (self._back, "Step back", "Previous step (K)"),
            (self._play, "Play or pause", "Play or pause (Shift+P)"),
            (self._on, "Step forward", "Next step (J)"),
            (self._first, "To the first difference", "Go to the first differing step"),
            (self._export, "Export", "Save this film, or this view, as files"),
        ):
            button.setAccessibleName(name)
            button.setToolTip(words)
        self._speed.setAccessibleName("Seconds a step")
        self._speed.setToolTip("Seconds a step (, slower . faster)")
        for seconds in SPEEDS_S:
            self._speed.addItem(f"{seconds:g} s", seconds)
        for button in (self._back, self._on):
            button.setMaximumWidth(_NARROW_PX)
        self._line.setMinimumWidth(2 * _NARROW_PX)
        self._line.setAccessibleName("Step of the film")
        self._line.setTickPosition(QSlider.TickPosition.TicksBelow)
        self._line.setTickInterval(1)
        row = QHBoxLayout()
        row.setSpacing(GAP_PX)
        for part in (self._back, self._play, self._on):
            row.addWidget(part)
        row.addWidget(self._line, 1)
        for part in (self._first, self._speed, self._export):
            row.addWidget(part)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(GAP_PX, 2, GAP_PX, 2)
        layout.setSpacing(2)
        layout.addLayout(row)
        layout.addWidget(self._caption, 1, Qt.AlignmentFlag.AlignTop)
        self.setMaximumHeight(_HIGHEST_PX)

    def _to_first(self) -> None:
        first = self._player.first_difference
        if first is not None:
            self._player.go_to(first)

    def _slid(self) -> None:
        self._player.go_to(self._line.sliderPosition())

    def _show(self) -> None:
        player = self._player
        count, step = len(player.steps), player.step
        self._line.setRange(0, max(count - 1, 0))
        self._line.setValue(max(player.place, 0))
        for part in (self._back, self._play, self._on, self._line, self._export):
            part.setEnabled(count > 0)
        self._first.setEnabled(player.first_difference is not None)
        self._play.setText("⏸ Pause" if player.playing else "▶ Play")
        self._speed.setCurrentIndex(player.speed)
        self._caption.show_role("wrong" if step is not None and step.first else "heading")
        words = () if step is None else (f"{player.place + 1} of {count}", *step.lines)
        self._caption.show_text(" · ".join(words) or _before(count))

    def closeEvent(self, event: QCloseEvent) -> None:
        """Let go of the player."""
        self._player.changed.disconnect(self._show)
        super().closeEvent(event)


def _before(count: int) -> str:
    return (
        f"{count} steps. Play (Shift+P), or step with J and K."
        if count
        else "No evidence to play yet."
    )
