"""Measurements: those of the case that is shown: kept, changed, found again, taken back.

Everything is on disk before it is in the session, and so before anybody sees it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from napari_ctvqa.core.errors import CtvqaError, RecordError
from napari_ctvqa.core.kept_drawings import LONGEST_NAME, KeptDrawing, entry_of, kept_of
from napari_ctvqa.core.measuring import measured
from napari_ctvqa.core.undo import UndoStep
from napari_ctvqa.core.view_text import PLANES
from napari_ctvqa.io.measure_store import MeasureStore, write_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari_ctvqa.core.cases import Case, Volume
    from napari_ctvqa.core.drawings import Drawing
    from napari_ctvqa.core.session import Session
    from napari_ctvqa.core.undo import UndoStack
    from napari_ctvqa.widgets.layers import CaseLayers


class Measurements:
    """Sets ``session.measurements`` and fulfils the wishes about them.

    Parameters
    ----------
    session, layers
        Whose case these are of, and where "go there" leads.
    shows
        Whether one of the pictures that are seen shows this plane already.
    undo
        Cleared with every other CT: what was done on one is not taken back on the next.
    """

    def __init__(
        self,
        session: Session,
        layers: CaseLayers,
        undo: UndoStack,
        shows: Callable[[int], bool] = lambda plane: False,
    ) -> None:
        self.session, self.layers, self._undo, self._shows = session, layers, undo, shows
        self._volume: Volume | None = None
        self._store: MeasureStore | None = None
        wishes = session.wishes
        self._connections: list[tuple[Any, Callable[..., None]]] = [
            (session.case_changed, self._on_case),
            (wishes.measure_choose, self.choose),
            (wishes.measure_jump, self.jump),
            (wishes.measure_step, self.step),
            (wishes.measure_rename, self.rename),
            (wishes.measure_delete, self.delete),
            (wishes.measure_export, self.export),
        ]
        for signal, slot in self._connections:
            signal.connect(slot)
        self._on_case()

    def close(self) -> None:
        """Let go of the session."""
        for signal, slot in self._connections:
            signal.disconnect(slot)
        self._connections.clear()

    # ------------------------------------------------------------------- case

    def _on_case(self) -> None:
        case = self.session.case
        volume = None if case is None else case.volume
        if volume is self._volume:
            return
        self._volume, self._store = volume, None
        self._undo.clear()
        if case is None:
            self.session.update(measurements=(), measurement="")
        else:
            self._load(case)

    def _load(self, case: Case) -> None:
        store = MeasureStore(case.volume, case.case_id)
        try:
            loaded = store.load()
        except CtvqaError as error:
            self._tell(error)
            self.session.update(measurements=(), measurement="")
            return
        self._store = store
        found: list[KeptDrawing] = []
        refused: list[str] = []
        for entry in loaded.entries:
            try:
                found.append(kept_of(entry, case))
            except RecordError as error:
                refused.append(error.message)
        self.session.update(measurements=tuple(found), measurement="")
        if loaded.problem:
            self._tell(CtvqaError(loaded.problem))
        if refused:
            self._tell(
                CtvqaError(
                    f"{store.path.name}: {len(refused)} measurements cannot be shown "
                    f"({refused[0]}). They stay in the file.",
                    hint="They may be from a newer version of this program.",
                )
            )

    def _tell(self, error: CtvqaError) -> None:
        self.session.update(problem=error)

    # ---------------------------------------------------------------- changes

    def add(self, drawing: Drawing) -> None:
        """Keep a new drawing and choose it."""
        case = self.session.case
        if case is None:
            return
        number = 1 + sum(m.drawing.kind is drawing.kind for m in self.session.measurements)
        name = f"{drawing.kind.value.capitalize()} {number}"
        kept = KeptDrawing(uuid4().hex, name, drawing, _now(), measured(drawing, case))
        self._do("measurement", partial(self._put, kept), undo=partial(self._remove, kept.id))

    def change(self, key: str, drawing: Drawing) -> None:
        """Give a measurement other points."""
        before, case = self._named(key), self.session.case
        if before is None or case is None or before.drawing == drawing:
            return
        found = measured(drawing, case)
        after = replace(before, drawing=drawing, found=found, made_at=_now(), note="")
        self._do("change", partial(self._put, after), undo=partial(self._put, before))

    def rename(self, key: str, name: str) -> None:
        """Give a measurement another name; an empty one is none."""
        before, plain = self._named(key), " ".join(name.split())[:LONGEST_NAME]
        if before is None or not plain or plain == before.name:
            return
        after = replace(before, name=plain)
        self._do("name", partial(self._put, after), undo=partial(self._put, before))

    def delete(self, key: str = "") -> None:
        """Delete a measurement, the chosen one unless an id is given."""
        before = self._named(key or self.session.measurement)
        if before is not None:
            self._do("deletion", partial(self._remove, before.id), undo=partial(self._put, before))

    def _named(self, key: str) -> KeptDrawing | None:
        return next((m for m in self.session.measurements if m.id == key), None)

    def _do(self, title: str, act: Callable[[], None], *, undo: Callable[[], None]) -> None:
        try:
            act()
        except CtvqaError as error:
            self._tell(error)
            return
        self._undo.push(UndoStep(title, undo, act))

    def _put(self, kept: KeptDrawing) -> None:
        case = self.session.case
        assert case is not None  # steps are forgotten with their case
        self._open_store().put(entry_of(kept, case))
        others = self.session.measurements
        if self._named(kept.id) is None:
            now = (*others, kept)
        else:
            now = tuple(kept if m.id == kept.id else m for m in others)
        self.session.update(measurements=now, measurement=kept.id)

    def _remove(self, key: str) -> None:
        self._open_store().remove(key)
        left = tuple(m for m in self.session.measurements if m.id != key)
        chosen = self.session.measurement
        self.session.update(measurements=left, measurement="" if chosen == key else chosen)

    def _open_store(self) -> MeasureStore:
        if self._store is None:
            raise CtvqaError(
                "The measurements of this case could not be read, so none can be added.",
                hint="Correct what was told when the case was opened, and open it again.",
            )
        return self._store

    # ------------------------------------------------------------------ finding

    def choose(self, key: str) -> None:
        """Make a measurement stand out; an unknown id stands for none."""
        self.session.update(measurement=key if self._named(key) is not None else "")

    def jump(self, key: str) -> None:
        """Choose a measurement and go to its slice; to its plane, where no picture shows that."""
        kept = self._named(key)
        if kept is None:
            return
        drawing = kept.drawing
        if self.layers.plane != PLANES[drawing.plane] and not self._shows(drawing.plane):
            self.layers.set_plane(PLANES[drawing.plane])
        middle = drawing.index_zyx.mean(axis=0)
        z, y, x = (round(float(part)) for part in middle)
        self.layers.move_to((z, y, x))
        self.choose(key)

    def step(self, step: int) -> None:
        """Go to the next or previous measurement, around the end."""
        keys = [m.id for m in self.session.measurements]
        if not keys:
            return
        chosen = self.session.measurement
        if chosen in keys:
            at = (keys.index(chosen) + step) % len(keys)
        else:
            at = 0 if step > 0 else len(keys) - 1
        self.jump(keys[at])

    def export(self, path: object) -> None:
        """Write all measurements of the case as CSV."""
        case = self.session.case
        if case is None:
            return
        try:
            write_table(Path(str(path)), [entry_of(m, case) for m in self.session.measurements])
        except CtvqaError as error:
            self._tell(error)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
