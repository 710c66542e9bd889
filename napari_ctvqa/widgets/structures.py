"""Structures: fulfils what the Structures panel wishes for: masks beside, hiding, error maps."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.cases import CaseFiles, Mask, MaskProblem, Source
from napari_ctvqa.core.error_maps import ErrorMap, error_map
from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.overlay_state import Drawing
from napari_ctvqa.core.session import CaseState
from napari_ctvqa.core.structure_list import structure_rows
from napari_ctvqa.io.case_files import with_masks
from napari_ctvqa.io.reader import read_masks
from napari_ctvqa.io.segmentations import kept
from napari_ctvqa.widgets.problems import report

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator
    from pathlib import Path

    from napari_ctvqa.core.cases import Volume
    from napari_ctvqa.core.session import Session
    from napari_ctvqa.widgets.focus import Focus
    from napari_ctvqa.widgets.jobs import Jobs

Found = tuple[Source, tuple[Mask, ...], tuple[MaskProblem, ...]]
OPENED, MADE, ERRORS = "masks beside", "masks of a program", "error map"


class Structures:
    """Sets ``session.beside``, ``session.overlays`` and ``session.error_map``; layers draw them.

    Parameters
    ----------
    session, jobs, focus
        What is shown, what runs slow work, and what goes to a mask.
    """

    def __init__(self, session: Session, jobs: Jobs, focus: Focus) -> None:
        self.session, self.jobs, self.focus = session, jobs, focus
        self._volume: Volume | None = None
        self._made: tuple[str, ...] = ()
        """The program's structures that are read, or being read."""
        self._outlined: tuple[Mask, ...] = ()
        wishes = session.wishes
        self._connections: list[tuple[Any, Callable[..., None]]] = [
            (wishes.open_masks, self.open),
            (wishes.show_structures, self.show),
            (wishes.solo, self.solo),
            (wishes.draw_source, self.draw),
            (wishes.error_map, self.compare),
            (wishes.go_to_mask, self.go_to),
            (session.case_changed, self._on_case_changed),
            (session.segmenting_changed, self._read_made),
            (session.live_changed, self._take_outlined),
            (session.saw_changed, self._take_outlined),
        ]
        for signal, slot in self._connections:
            signal.connect(slot)

    def close(self) -> None:
        """Let go of the session."""
        for signal, slot in self._connections:
            signal.disconnect(slot)
        self._connections.clear()

    # ------------------------------------------------------------------ choice

    def show(self, structures: Collection[str], shown: bool) -> None:
        """Show or hide structures, in this and every other case."""
        self.session.update(overlays=self.session.overlays.with_shown(structures, shown))

    def solo(self, structure: str) -> None:
        """Show one structure alone; with it alone already, all as before."""
        self.session.update(overlays=self.session.overlays.with_solo(structure))

    def draw(self, source: str, drawing: str) -> None:
        """Draw a source's masks filled, in outline or not; with no drawing named, the next one."""
        state, of = self.session.overlays, Source(source)
        wanted = Drawing(drawing) if drawing else state.drawing(of).after
        self.session.update(overlays=state.with_drawing(of, wanted))

    def go_to(self, mask: Mask) -> None:
        """Go to the slice where a mask is largest and make it stand out."""
        self.focus.mask(mask)

    # ---------------------------------------------------------------- error map

    def compare(self, structure: str) -> None:
        """Lay the two masks of a structure over each other; again, or empty, takes it away."""
        session, case = self.session, self.session.case
        shown = session.error_map
        if case is None or not structure or (shown is not None and shown.structure == structure):
            self.jobs.cancel(ERRORS)
            session.update(error_map=None)
            return
        rows = [r for r in structure_rows(case, session.beside) if r.structure == structure]
        pair = next(((r.mask, r.partner) for r in rows if r.partner is not None), None)
        if pair is None:
            hint = "Open the model's masks with Open masks in the Structures panel."
            report(session, CtvqaError(f"There is one mask of {structure} only.", hint=hint))
            return
        first, second = pair
        self.jobs.start(ERRORS, _compared(first, second), self._show_errors)

    def _show_errors(self, found: ErrorMap) -> None:
        self.session.update(error_map=found)

    # -------------------------------------------------------------- masks beside

    def open(self, path: Path) -> None:
        """Read a model's masks of the open case and show them beside its own."""
        case = self.session.case
        if case is None:
            hint = "Open the case first, then the model's masks of it."
            report(self.session, CtvqaError("There is no case for these masks.", hint=hint))
            return
        steps = masks_beside(case.files, case.volume, path)
        self.jobs.start(OPENED, steps, self._take)

    def _take(self, found: Found) -> None:
        source, masks, problems = found
        others = tuple(mask for mask in self.session.beside if mask.source is not source)
        self.session.update(beside=(*others, *masks), error_map=None)
        if problems:
            said = problems[0].message
            more = f" {len(problems) - 1} more masks cannot be shown." if len(problems) > 1 else ""
            report(self.session, CtvqaError(f"{said}{more}", hint="The others are shown."))

    def _take_outlined(self) -> None:
        """Show what a volume model outlined beside its answer, in the case that it is of."""
        session, question, case = self.session, self.session.question, self.session.case
        for said in (session.live, session.saw):
            if said is None or question is None or said.question_id != question.id:
                continue
            if said.masks and said.masks is not self._outlined and case is not None:
                self._outlined = said.masks
                if all(m.region.grid is case.volume.display_grid for m in said.masks):
                    self._take((Source.PREDICTED, said.masks, ()))

    def _read_made(self) -> None:
        """Read what a program has made of the CT, once the case's own masks are there."""
        case, made = self.session.case, self.session.segmenting.made
        if case is None or self.session.case_state is not CaseState.READY or made == self._made:
            return
        self._made = made
        place = kept(case.files.ct) if made and case.files.ct is not None else None
        if place is not None:
            files = CaseFiles(case.files.case_id, case.files.ct, place.masks())
            self.jobs.start(MADE, _read(files, case.volume, Source.TOOL), self._take)

    def _on_case_changed(self) -> None:
        case = self.session.case
        volume = None if case is None else case.volume
        if volume is not self._volume:
            self._volume, self._made = volume, ()
            for slot in (OPENED, MADE, ERRORS):
                self.jobs.cancel(slot)
            if self.session.beside or self.session.error_map is not None:
                self.session.update(beside=(), error_map=None)
        self._read_made()


def masks_beside(files: CaseFiles, volume: Volume, path: Path) -> Generator[Found, None, None]:
    """Yield a model's masks from a folder of files or one label file, on the CT's grid.

    Raises
    ------
    CtvqaError
        Where the path holds no masks.
    """
    found = with_masks(CaseFiles(files.case_id, files.ct), path)
    yield from _read(found, volume, Source.PREDICTED)


def _read(files: CaseFiles, volume: Volume, source: Source) -> Generator[Found, None, None]:
    masks: list[Mask] = []
    problems: list[MaskProblem] = []
    for item in read_masks(files, volume):
        if isinstance(item, MaskProblem):
            problems.append(item)
        else:
            masks.append(replace(item, source=source))
    yield source, tuple(masks), tuple(problems)


def _compared(first: Mask, second: Mask) -> Generator[ErrorMap, None, None]:
    yield error_map(first, second)
