"""Model panel: the words as they come, the calls, what went in, and how to stop it."""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING

from qtpy.QtCore import QTimer
from qtpy.QtGui import QTextCursor
from qtpy.QtWidgets import (
    QHBoxLayout,
    QPlainTextEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from napari_ctvqa.core.grounding import Grounded, boxes, picture_of, slices_named
from napari_ctvqa.core.model_volumes import box_picture
from napari_ctvqa.core.session import RunState
from napari_ctvqa.core.volume_grounding import volume_boxes
from napari_ctvqa.runners.sight import is_of_case, preset_of
from napari_ctvqa.widgets.banner import Banner, Folding
from napari_ctvqa.widgets.bar import ProgressBar
from napari_ctvqa.widgets.listening import Listening
from napari_ctvqa.widgets.pictures import MAX_SHOWN, PictureGrid
from napari_ctvqa.widgets.scrolling import fill
from napari_ctvqa.widgets.text import Label, SteadyLabel, TextBox, one_line, visible
from napari_ctvqa.widgets.theme import GAP_PX, MARGIN_PX, Styling
from napari_ctvqa.widgets.words import sure_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qtpy.QtGui import QCloseEvent

    from napari_ctvqa.core.asking import Message, Picture, Prepared, Preset
    from napari_ctvqa.core.cases import Case
    from napari_ctvqa.core.live import LiveCall, LiveRun
    from napari_ctvqa.core.session import Session

FORCE_AFTER_S = 2.0
"""How long a model may take to stop by itself before force is offered."""
SHOWN_TEXT = 200_000
SHOWN_CALLS = 12
SHOWN_ARGUMENTS = 8
SHOWN_SIGHTS = 6
NOTHING = (
    "No model has answered this question in this window, and no pictures of an answer are kept. "
    "Choose a model in Run: its words, its tool calls and the pictures it is given appear here."
)
RECORDING = "An answer to this question is recorded: it can be played without model and network."


class ModelPanel(QWidget):
    """Shows ``session.live``."""

    title = "Model"
    order = 5

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._of: tuple[str, str, float] | None = None
        self._cancelled_at: float | None = None
        Styling(self)
        self._nothing = Label(NOTHING, role="muted")
        self._title = Label(role="heading")
        self._where = Label(role="small")
        self._state = SteadyLabel()
        self._bar = ProgressBar()
        self._bar.setAccessibleName("Progress of the model")
        self._bar.setMaximum(1000)
        self._trouble = Banner()
        self._text = WordStream()
        self._calls = Label(role="small")
        self._sure = Label(role="small")
        self._cancel = QPushButton("Stop")
        self._force = QPushButton("Stop by force")
        self._force.setToolTip("End its process or connection; it is loaded anew next time.")
        self._recording = Label(role="muted")
        self._play = QPushButton("Play the recording")
        self._saw = QWidget()
        self._notes = Label(role="muted")
        self._pictures = PictureGrid()
        self._prompt = TextBox("The prompt", max_lines=16, code=True)
        self._folded_prompt = Folding("The prompt", self._prompt)
        self._saw_heading = Label("What the model saw", role="heading")
        self._missed = Banner()
        self._sent: tuple[Prepared, ...] = ()
        self._places = PictureGrid("Where the text points", rows=1)
        self._places_heading = Label("Where the text points", role="heading")
        self._placeless = Label(role="muted")
        self._places_of: tuple[object, ...] = ()
        self._build()
        self._connect()
        self._clock = QTimer(self)
        self._clock.setInterval(500)
        self._clock.timeout.connect(self._show_state)
        self._listening = Listening(
            (session.live_changed, self._show),
            (session.saw_changed, self._show),
            (session.question_changed, self._show),
            (session.runs_changed, self._show_sure),
            (session.reveal_changed, self._show),
            (session.progress_changed, self._show_state),
            (session.chains_changed, self._show_missed),
            (session.case_changed, self._show_missed),
            panel=self,
            session=session,
        )
        self._show()

    def _build(self) -> None:
        buttons = QHBoxLayout()
        buttons.addWidget(self._cancel, 1)
        buttons.addWidget(self._force, 1)
        saw = QVBoxLayout(self._saw)
        saw.setContentsMargins(0, 0, 0, 0)
        for part in (
            *(self._places_heading, self._places, self._placeless),
            *(self._saw_heading, self._missed, self._notes, self._pictures, self._folded_prompt),
        ):
            saw.addWidget(part)
        body = QWidget()
        column = QVBoxLayout(body)
        column.setContentsMargins(MARGIN_PX, MARGIN_PX, MARGIN_PX, MARGIN_PX)
        column.setSpacing(GAP_PX)
        for part in (self._nothing, self._title, self._where, self._state, self._bar):
            column.addWidget(part)
        column.addLayout(buttons)
        for part in (
            self._trouble,
            self._recording,
            self._play,
            self._text,
            self._sure,
            self._calls,
            self._saw,
        ):
            column.addWidget(part)
        column.addStretch(1)
        for part in (self._places_heading, self._places, self._placeless, self._missed):
            part.hide()
        fill(self, body, "Model")

    def _connect(self) -> None:
        wishes = self._session.wishes
        self._cancel.clicked.connect(lambda: wishes.cancel_run.emit())
        self._force.clicked.connect(lambda: wishes.force_stop.emit())
        self._play.clicked.connect(self._replay)
        for grid in (self._pictures, self._places):
            grid.pointed.connect(self._point)

    # ---------------------------------------------------------------- showing

    def _show(self) -> None:
        live = self._live()
        self._show_recording()
        self._show_sure()
        if live is None:
            self._show_kept()
            return
        self._nothing.hide()
        self._text.show()
        key = (live.model, live.question_id, live.began_s)
        if key != self._of:
            self._begin(live)
            self._of = key
        self._text.follow(live.text)
        self._calls.show_text(calls_text(live.calls))
        self._trouble.show_message(*trouble(live))
        self._show_sent(live.sent, live.text, finished=not live.running)
        self._show_state()

    def _show_sure(self) -> None:
        """Show how sure the model was, once its answer is there."""
        live, saw = self._live(), self._session.saw
        model = saw.model if live is None and saw is not None else live.model if live else ""
        coming = live is not None and live.running
        said = "" if coming else sure_text(self._session.predictions.get(model))
        self._sure.show_text(said)
        self._sure.setVisible(bool(said))

    def _live(self) -> LiveRun | None:
        """Return the answer that comes, also to another question, or the last one to this one."""
        live, question = self._session.live, self._session.question
        if live is None or live.running or question is None:
            return live
        return live if live.question_id == question.id else None

    def _show_kept(self) -> None:
        """Show what is kept of an earlier answer, or that there is nothing."""
        self._clock.stop()
        saw = self._session.saw
        kept = saw is not None and bool(saw.model)
        self._nothing.setVisible(not kept)
        self._text.setVisible(kept)
        for part in (self._bar, self._cancel, self._force):
            part.hide()
        self._calls.show_text("")
        key = ("", saw.question_id, 0.0) if kept else None
        if key != self._of or key is None:
            self._of = key
            self._text.restart()
        self._title.show_text(one_line(saw.model, 120) if kept else "")
        self._where.show_text(one_line(saw.question_id, 120) if kept else "")
        self._state.show_text("Answered earlier; what it saw was kept." if kept else "")
        self._trouble.show_message("amber", saw.problem if saw is not None else "")
        if kept:
            self._text.follow(saw.words)
        self._show_sent(saw.sent if kept else (), saw.words if kept else "", finished=True)

    def _show_recording(self) -> None:
        saw, live = self._session.saw, self._session.live
        there = bool(saw is not None and saw.recording) and (live is None or not live.running)
        self._recording.show_text(RECORDING if there else "")
        self._play.setVisible(there)

    def _replay(self) -> None:
        saw = self._session.saw
        if saw is not None and saw.recording:
            self._session.wishes.replay.emit(saw.recording)

    def _begin(self, live: LiveRun) -> None:
        self._text.restart()
        self._cancelled_at = None
        recorded = "  (recorded)" if live.recorded else ""
        self._title.show_text(one_line(live.title or live.model, 120) + recorded)
        where = f"Pictures go to {one_line(live.host, 120)}." if live.host else "On this machine."
        if live.recorded:
            where = "A recording is played: nothing is asked, nothing is sent."
        self._where.show_text(f"{one_line(live.question_id, 120)} · {where}")

    def _show_state(self) -> None:
        live = self._live()
        if live is None:
            return
        stopping = self._session.progress.state is RunState.CANCELLING and live.running
        now = time.monotonic()
        if stopping and self._cancelled_at is None:
            self._cancelled_at = now
        waited = now - self._cancelled_at if self._cancelled_at is not None else 0.0
        self._state.show_text(state_text(live, now, stopping=stopping))
        self._bar.setVisible(live.running and live.fraction is not None)
        if live.fraction is not None:
            self._bar.show_value(round(1000 * min(max(live.fraction, 0.0), 1.0)))
        self._cancel.setVisible(live.running)
        self._cancel.setEnabled(not stopping)
        self._cancel.setText("Stopping …" if stopping else "Stop")
        self._force.setVisible(live.running and stopping and waited >= FORCE_AFTER_S)
        if live.running != self._clock.isActive():
            self._clock.start() if live.running else self._clock.stop()

    def _show_sent(self, sent: tuple[Prepared, ...], text: str, *, finished: bool) -> None:
        self._sent = sent
        pictures = [p for prepared in sent[-1:] for p in prepared.ask.pictures]
        pictures += self._slices(sent)
        self._saw.setVisible(bool(sent))
        if not sent:
            self._pictures.show_pictures(())
            return
        self._notes.show_text(sent_text(sent, pictures))
        self._pictures.show_pictures(pictures)
        self._prompt.show_text(prompt_text(sent[-1].ask.messages))
        self._show_missed()
        self._show_places(sent[-1], text if finished else "", pictures)

    def _slices(self, sent: Sequence[Prepared]) -> tuple[Picture, ...]:
        """Return the slices of the volume that went in, once they are there."""
        saw = self._session.saw
        there = saw is not None and bool(saw.sent) and bool(sent) and saw.sent[-1] is sent[-1]
        return saw.slices if there else ()

    def _show_missed(self) -> None:
        """Warn of what the reference rests on and the model was not shown; never before reveal."""
        session = self._session
        saw, sent = session.saw, self._sent
        known = saw is not None and bool(saw.sent) and bool(sent) and saw.sent[-1] is sent[-1]
        told = known and not session.hides(saw.question_id) and is_of_case(sent[-1], session.case)
        lines = [f"⚠ {one_line(s.text, 200)}." for s in saw.sights if s.warns] if told else []
        hidden = len(lines) - SHOWN_SIGHTS
        more = [f"… {hidden} more"] if hidden > 0 else []
        heading = ["Of what the reference rests on:"] if lines else []
        self._missed.show_message("amber", "\n".join(heading + lines[:SHOWN_SIGHTS] + more))

    def _point(self, picture: Picture | None) -> None:
        """Ask for a picture's frame in the planes, only in the CT that it was cut from."""
        there = bool(self._sent) and is_of_case(self._sent[-1], self._session.case)
        self._session.wishes.show_picture.emit(picture if there else None)

    def _show_places(self, sent: Prepared, text: str, pictures: Sequence[Picture]) -> None:
        """Show where boxes and slice numbers of a finished answer lie."""
        preset = preset_of(sent)
        key = () if not text or preset is None else (text, sent)
        if key and self._places_of and key[1] is self._places_of[1] and key == self._places_of:
            return
        self._places_of = key
        found = Grounded()
        places: list[Picture] = []
        case = self._session.case if is_of_case(sent, self._session.case) else None
        if key and preset is not None and sent.ask.volume is not None:
            found, places = self._boxes(sent, preset, text, case)
        elif key and preset is not None:
            found = pointed_at(preset, text, pictures, case)
            places = [picture_of(placed, pictures) for placed in found.placed]
        self._places.show_pictures(places)
        lines = [f"{one_line(u.text, 80)}: no place in the CT, {u.why}." for u in found.unplaced]
        self._placeless.show_text("\n".join((*lines[:SHOWN_CALLS], *found.notes)))
        self._placeless.setVisible(bool(lines or found.notes))
        self._places_heading.setVisible(bool(places or lines))

    def _boxes(
        self, sent: Prepared, preset: Preset, text: str, case: Case | None
    ) -> tuple[Grounded, list[Picture]]:
        """Return the boxes of a volume model's answer, each as a part of its middle slice."""
        saw, volume = self._session.saw, sent.ask.volume
        if volume is not None and volume.values is None and saw is not None:
            volume = saw.volume
        if preset.grounding != "norm3d" or volume is None or case is None:
            return Grounded(), []
        found = volume_boxes(text, volume, case.volume.display_grid)
        places = [
            box_picture(volume, box.low_voxel, box.high_voxel, f"box {number}")
            for number, box in enumerate(found.placed, start=1)
            if volume.values is not None
        ]
        return Grounded(unplaced=found.unplaced), places

    def closeEvent(self, event: QCloseEvent) -> None:
        """Let go of the session."""
        self._clock.stop()
        self._listening.close()
        super().closeEvent(event)


class WordStream(QPlainTextEdit):
    """Plain text that grows at its end; only what is new is drawn, the view stays at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.setReadOnly(True)
        self.setTabChangesFocus(True)
        self.setUndoRedoEnabled(False)
        self.setAccessibleName("The model's words, as they come")
        self.setPlaceholderText("No words yet.")
        self.setMinimumHeight(7 * self.fontMetrics().lineSpacing())
        self._seen = 0

    def restart(self) -> None:
        """Forget the former text."""
        self._seen = 0
        self.clear()

    def follow(self, text: str) -> None:
        """Show the text, of which what was shown before is the beginning."""
        if len(text) < self._seen:
            self.restart()
        new, full = text[self._seen : SHOWN_TEXT], self._seen >= SHOWN_TEXT
        self._seen = len(text)
        if full or not new:
            return
        if len(text) > SHOWN_TEXT:
            new += "\n… the rest is in the answer"
        bar = self.verticalScrollBar()
        at_end = bar.value() >= bar.maximum() - 4
        cursor = QTextCursor(self.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.insertText(visible(new, SHOWN_TEXT + 100))
        if at_end:
            bar.setValue(bar.maximum())


# What is said -------------------------------------------------------------------------------


def state_text(live: LiveRun, now_s: float, *, stopping: bool) -> str:
    """Return in one line what the model does, for how long, and how fast."""
    seconds = (now_s if live.ended_s is None else live.ended_s) - live.began_s
    parts = [f"{max(seconds, 0):.1f} s"]
    if live.new_tokens:
        parts.append(f"{live.new_tokens:,} tokens")
    if live.usage is not None and live.usage.prompt_tokens:
        parts.append(f"{live.usage.prompt_tokens:,} tokens went in")
    if live.running:
        doing = "stopping" if stopping else one_line(live.status, 120) or "working"
    elif live.failure is not None:
        doing = "failed"
    elif live.reason == "cancelled":
        doing = "stopped: these words are no answer"
    elif live.reason == "length":
        doing = "ended at the limit of its length"
    else:
        doing = "done"
    return " · ".join((doing[:1].upper() + doing[1:], *parts))


def trouble(live: LiveRun) -> tuple[str, str]:
    """Return look and text of the banner: what failed or makes the answer doubtful."""
    if live.failure is not None:
        return "red", "\n".join(
            text
            for text in (
                live.failure.message,
                live.failure.hint,
                one_line(live.failure.detail, 600),
            )
            if text
        )
    lines = [f"{w.message} {w.hint}".strip() for w in live.warnings]
    return "amber", "\n".join(dict.fromkeys(lines))


def calls_text(calls: Sequence[LiveCall]) -> str:
    """Return the tool calls, one line each, the last ones last."""
    lines = []
    for call in calls[-SHOWN_CALLS:]:
        made = call.made
        arguments = _arguments_text(made.call.arguments)
        result = "…" if call.returned is None else _result_text(call)
        mended = f"  (mended: {one_line(made.repaired, 80)})" if made.repaired else ""
        lines.append(
            f"{made.step}. {one_line(made.call.name, 60)} ({arguments}) → {result}{mended}"
        )
    hidden = len(calls) - SHOWN_CALLS
    return "\n".join(([f"… {hidden} earlier calls"] if hidden > 0 else []) + lines)


def _arguments_text(arguments: Mapping[str, object]) -> str:
    """Return the first arguments; names are the model's words, too, and must not look like ours."""
    shown = islice(arguments.items(), SHOWN_ARGUMENTS)
    more = ", …" if len(arguments) > SHOWN_ARGUMENTS else ""
    return ", ".join(f"{one_line(key, 40)}: {one_line(value, 40)}" for key, value in shown) + more


def _result_text(call: LiveCall) -> str:
    assert call.returned is not None
    result = call.returned.result
    if result.error:
        return f"failed: {one_line(result.error, 120)}"
    content = result.content
    if isinstance(content, dict):
        shown = {k: v for k, v in content.items() if k not in ("region_id", "image_base64")}
        return one_line(", ".join(f"{k} {v}" for k, v in shown.items()), 160)
    return one_line(content, 160)


def sent_text(sent: Sequence[Prepared], pictures: Sequence[Picture]) -> str:
    """Return what went in with the last turn, in numbers, and the family's notes."""
    prepared = sent[-1]
    volume = prepared.ask.volume
    if volume is not None:
        tensor = " × ".join(str(size) for size in volume.tensor_shape)
        return "\n".join((f"a volume as a tensor of {tensor}", *prepared.notes))
    count = f"{len(pictures)} picture{'s' if len(pictures) != 1 else ''}"
    turn = f"turn {len(sent)}: " if len(sent) > 1 else ""
    sizes = sorted({p.pixels.shape[1::-1] for p in pictures})
    size = " of " + ", ".join(f"{w} × {h}" for w, h in sizes[:3]) + " pixels" if sizes else ""
    tools = f", {len(prepared.ask.tools)} tools offered" if prepared.ask.tools else ""
    left = len(pictures) - MAX_SHOWN
    more = f" (the first {MAX_SHOWN} are shown)" if left > 0 else ""
    return "\n".join((f"{turn}{count}{size}{tools}{more}", *prepared.notes))


def pointed_at(
    preset: Preset, text: str, pictures: Sequence[Picture], case: Case | None
) -> Grounded:
    """Return the boxes, points and slices that an answer names."""
    shape = case.volume.display_grid.shape_zyx if case is not None else None
    boxed = boxes(preset, text, pictures, shape_zyx=shape)
    held = {placed.picture for placed in boxed.placed}
    named = slices_named(text, pictures)
    whole = [placed for placed in named.placed if placed.picture not in held]
    return Grounded((*boxed.placed, *whole), (*boxed.unplaced, *named.unplaced), boxed.notes)


def prompt_text(messages: Sequence[Message]) -> str:
    """Return the messages as text, pictures by their place."""
    lines: list[str] = []
    for message in messages:
        name = f" {message.tool}" if message.tool else ""
        lines.append(f"[{message.role}{name}]")
        lines += [p if isinstance(p, str) else f"⟨picture {p.label}⟩" for p in message.parts]
        lines += [f"⟨calls {c.name} {dict(c.arguments)}⟩" for c in message.calls]
        lines.append("")
    return "\n".join(lines).strip()


PANEL = ModelPanel
