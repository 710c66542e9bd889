"""Session: what is open, chosen, shown and running; the one mutable object, evented.

Panels observe it and never hold each other. It is touched in the GUI thread only. State changes
are announced by ``…_changed`` signals without arguments: a listener reads the state it needs.
What a panel wants done it says through ``wishes``; the coordinator in ``widgets`` fulfils them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from psygnal import Signal

from napari_ctvqa.core.checks import Validation
from napari_ctvqa.core.measuring import PROBE_RADIUS_MM
from napari_ctvqa.core.overlay_state import OverlayState
from napari_ctvqa.core.probing import Probing
from napari_ctvqa.core.records import AnswerFormat
from napari_ctvqa.core.segmenting import Segmenting

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy.typing as npt

    from napari_ctvqa.core.audited import Audited
    from napari_ctvqa.core.cases import Case, Mask
    from napari_ctvqa.core.chains import ChainComparison, EvidenceChain, EvidenceStep
    from napari_ctvqa.core.error_maps import ErrorMap
    from napari_ctvqa.core.errors import CtvqaError
    from napari_ctvqa.core.kept_drawings import KeptDrawing
    from napari_ctvqa.core.live import LiveRun
    from napari_ctvqa.core.ports import Benchmark
    from napari_ctvqa.core.questions import QuestionSet
    from napari_ctvqa.core.records import Prediction, Question, Run, Score
    from napari_ctvqa.core.servers import ServerCount
    from napari_ctvqa.core.unfinished import Unfinished


WINDOW_REGION = "window_region"
"""The tool that takes the window from a rectangle."""


class CaseState(StrEnum):
    """How far the current case is."""

    NONE = "none"
    LOADING = "loading"
    CT_SHOWN = "ct shown"
    """The CT is on screen, masks are still being read."""
    READY = "ready"
    FAILED = "failed"


class RunState(StrEnum):
    """What the active run does."""

    IDLE = "idle"
    RUNNING = "running"
    CANCELLING = "cancelling"


@dataclass(frozen=True)
class RunProgress:
    """The active run in numbers; ``seconds_left`` is None until it can be estimated."""

    state: RunState = RunState.IDLE
    model: str = ""
    done: int = 0
    total: int = 0
    failed: int = 0
    seconds_left: float | None = None
    message: str = ""
    path: str = ""
    """The file that answers are appended to; empty when they are shown only."""
    accuracy: float | None = None
    """Mean official credit of the ``scored`` answers so far, 0 to 1; None before the first."""
    scored: int = 0
    servers: tuple[ServerCount, ...] = ()
    """What each of several servers has done."""
    per_second: float = 0.0
    """Answers a second that this run has made; what an earlier one had made does not count."""


@dataclass(frozen=True)
class MaskFocus:
    """What stands out in the voxels: a structure, the slice shown, and why."""

    structure: str
    display_slice: int
    file_slice: int | None
    """0-based, along the file's own axis; None where the picture is resampled (sheared CT)."""
    origin: str = ""
    mask: Mask | None = None
    """What stands out, where it is no mask of the case: several together, or components of one."""
    members: tuple[str, ...] = ()
    """The structures that it is made of; empty for components."""


class Wishes:
    """What panels ask for. Arguments: see each signal."""

    open_path = Signal(object)
    """Path of a case, a benchmark or a question file."""
    open_results = Signal(object)
    """Path of a result file."""
    add_case_root = Signal(object)
    """Path of a folder that holds CTs and masks."""
    open_demo = Signal()
    """Make the demo data if they are not there yet, and open them."""
    filter = Signal(str)
    """Text in the grammar of ``core.where``; the coordinator sets ``where`` and ``rows``."""
    sort = Signal(str, bool)
    """Column (of ``core.ordering``; empty for file order), descending: order ``rows`` by it."""
    select_row = Signal(int)
    """Row of the QuestionSet."""
    step_question = Signal(int)
    """+1 next, -1 previous, within the filter."""
    reveal = Signal()
    hide_reference = Signal(bool)
    """Hide references until each is revealed, or show them all."""
    focus_step = Signal(object)
    """EvidenceStep: go to its mask and make it stand out."""
    mask_slice = Signal(int)
    """+1 / -1: next / previous slice of the focused mask."""
    back = Signal()
    """Return to the slice where the reader was before the first focus."""
    run = Signal(object, str)
    """What is to run (``runners.choices.Wanted``), on ``"question"`` or ``"filter"``."""
    answer_format = Signal(str)
    """``"mc"`` or ``"freeform"``: how the next run asks; sets ``answer_format``."""
    cancel_run = Signal()
    """Stop after the word that is being written; what is done is kept."""
    unload = Signal()
    """Free the memory of the model that was run last."""
    replay = Signal(str)
    """Result file whose recorded answer to the current question is to be played again."""
    force_stop = Signal()
    """End what does not stop by itself: its process or its connection."""
    show_picture = Signal(object)
    """Picture that a model saw: go to its slice and draw its frame; None takes the frame away."""
    probe = Signal(str, object)
    """Ask again with one thing changed: ``"question"`` or ``"filter"``, and names of probes."""
    cancel_probes = Signal()
    show_probe = Signal(str)
    """Probe: make what it sent for the current question again; sets ``probe_sight``."""
    validate = Signal()
    """Recompute the references of all that the filter shows; sets ``validation``."""
    cancel_validate = Signal()
    audit = Signal(str)
    """Model: audit its run as it is now; sets ``audited``."""
    absent_means_none = Signal(bool)
    """Take lesions without a mask file as not there, here and in runs and validations."""
    segment = Signal()
    """Let a program segment what the case has no masks of; sets ``segmenting``."""
    cancel_segment = Signal()
    use_segmented = Signal(bool)
    """Let the tools of the live kit work on a program's masks where there is no file."""
    preset = Signal(str)
    """Window preset by name."""
    tool = Signal(str)
    """What dragging in the picture does: ``WINDOW_REGION`` or a kind of drawing, empty for none."""
    measure_choose = Signal(str)
    """Id of a measurement to make stand out, empty for none."""
    measure_jump = Signal(str)
    """Id: choose it, and go to its plane and slice."""
    measure_step = Signal(int)
    """+1 / -1: choose the next / previous measurement and go there."""
    measure_rename = Signal(str, str)
    """Id and new name."""
    measure_delete = Signal(str)
    """Id; empty: the chosen one."""
    measure_export = Signal(object)
    """Path of the CSV table to write."""
    probe_radius = Signal(float)
    """Radius in mm of the circle under the pointer that HU are averaged in."""
    toggle_overlays = Signal()
    open_masks = Signal(object)
    """Path of a folder or file of a model's masks of the open case: show them beside its own."""
    show_structures = Signal(object, bool)
    """Structure names to show (True) or hide, in this and every other case."""
    solo = Signal(str)
    """Show one structure alone, or all as before where it is alone already."""
    draw_source = Signal(str, str)
    """How masks of a source are drawn (``core.overlay_state.Drawing``; empty: the next one)."""
    error_map = Signal(str)
    """Structure whose two masks are laid over each other; empty, or the same again, for none."""
    go_to_mask = Signal(object)
    """Mask to go to, where it is largest, and to make stand out."""


class Session:
    """One per dock widget, never a singleton."""

    questions_changed = Signal()
    """``benchmark``, ``questions``, ``path``."""
    rows_changed = Signal()
    """``rows``, ``where`` and ``order``: the filter and its sorting."""
    question_changed = Signal()
    """``row``, ``question``."""
    case_changed = Signal()
    """``case``, ``case_state``, ``case_message``; also when masks arrive."""
    runs_changed = Signal()
    """``runs``, ``scores``: predictions came or went."""
    reveal_changed = Signal()
    """``hide_reference``, ``revealed``."""
    chains_changed = Signal()
    """``reference_chain``, ``model_chains``, ``comparisons``."""
    focus_changed = Signal()
    """``focus``, ``focused_step``."""
    progress_changed = Signal()
    """``progress``."""
    saw_changed = Signal()
    """``saw``."""
    live_changed = Signal()
    """``live``: at most 30 times a second while words come."""
    probing_changed = Signal()
    """``probing``."""
    unfinished_changed = Signal()
    """``unfinished``."""
    wanted_changed = Signal()
    """``wanted``, ``scheduler``."""
    validation_changed = Signal()
    """``validation``, ``absent_means_none``."""
    audited_changed = Signal()
    """``audited``."""
    segmenting_changed = Signal()
    """``segmenting``, ``use_segmented``."""
    measurements_changed = Signal()
    """``measurements``, ``measurement``."""
    tool_changed = Signal()
    """``tool``."""
    probe_sight_changed = Signal()
    """``probe_sight``."""
    probe_changed = Signal()
    """``probe_radius_mm``."""
    masks_changed = Signal()
    """``beside``."""
    overlays_changed = Signal()
    """``overlays``, ``error_map``."""
    problem_changed = Signal()
    """``problem``: shown once by ``widgets/problems.py``."""

    def __init__(self) -> None:
        self.wishes = Wishes()
        self.turns: Any = None
        """What gives panels a turn each (``widgets.turns.Turns``); None: they show all at once."""
        self.unhurried = False
        """Whether what is being announced may be shown a moment later."""
        self.path: Path | None = None
        self.benchmark: Benchmark | None = None
        self.questions: QuestionSet | None = None
        self.where: str = ""
        self.rows: npt.NDArray[np.intp] = np.zeros(0, np.intp)
        """Rows of the QuestionSet that the filter shows, in the order shown."""
        self.order: tuple[str, bool] = ("", False)
        """Column and descending; an empty column is file order."""
        self.row: int | None = None
        self.question: Question | None = None
        self.case: Case | None = None
        self.case_state = CaseState.NONE
        self.case_message = ""
        self.runs: Mapping[str, Run] = {}
        """By model name, in the order shown."""
        self.scores: Mapping[str, Mapping[str, Score]] = {}
        """By model name, then question id."""
        self.answer_format = AnswerFormat.MC
        """How result files are scored where they do not say; the interface states it."""
        self.results_folder: Path | None = None
        """Where the files of new runs go."""
        self.hide_reference = False
        self.revealed_ids: frozenset[str] = frozenset()
        self.reference_chain: EvidenceChain | None = None
        self.model_chains: Mapping[str, EvidenceChain] = {}
        self.comparisons: Mapping[str, ChainComparison] = {}
        """By model name: its chain against the reference's."""
        self.focus: MaskFocus | None = None
        self.focused_step: EvidenceStep | None = None
        self.progress = RunProgress()
        self.loaded = ""
        """The model whose process is kept for the next question; empty for none."""
        self.saw: Any = None
        """What a model was given for the current question (``runners.sight.SawReport``)."""
        self.live: LiveRun | None = None
        """The answer that is coming, or the last one that came in this window."""
        self.probing = Probing()
        self.probe_sight: Any = None
        """What one probe sent (``runners.probe_sight.ProbeSight``); none until it is wished for."""
        self.wanted: Any = None
        """What Run has chosen (``runners.choices.Wanted``); None where it cannot be run."""
        self.scheduler = ""
        """The cluster that answers what the filter shows; empty: this program."""
        self.unfinished: tuple[Unfinished, ...] = ()
        """Runs of what is open that were stopped or killed and can go on, the newest first."""
        self.validation = Validation()
        self.absent_means_none = False
        """Off, absent masks are unknown; on, what follows says assumed."""
        self.audited: Audited | None = None
        """What was last worked out of a run as a whole, none until it is wished for."""
        self.segmenting = Segmenting()
        self.use_segmented = False
        """Off, a structure without a file has no mask; on, in runs, a program's."""
        self.measurements: tuple[KeptDrawing, ...] = ()
        """What was measured on the case that is shown; all of it is on disk."""
        self.measurement = ""
        """The id of the chosen one, empty for none."""
        self.tool = ""
        """What dragging in the picture does; empty: what napari does."""
        self.probe_radius_mm = PROBE_RADIUS_MM
        self.beside: tuple[Mask, ...] = ()
        """Masks of a model, a tool or a reader, drawn beside the case's own."""
        self.overlays = OverlayState()
        """What a reader chose to see of the masks, in every case."""
        self.error_map: ErrorMap | None = None
        self.problem: CtvqaError | None = None

    def update(self, **state: Any) -> None:
        """Set several attributes, then announce each affected signal once.

        Raises
        ------
        AttributeError
            For a name that is not part of the state.
        """
        announced: list[str] = []
        for name, value in state.items():
            if name not in _ANNOUNCES:
                raise AttributeError(f"Session has no state {name!r}")
            setattr(self, name, value)
            signal = _ANNOUNCES[name]
            if signal not in announced:
                announced.append(signal)
        for signal in announced:
            getattr(self, signal).emit()

    def update_unhurried(self, **state: Any) -> None:
        """Update with what came in the background; panels may show it a moment later.

        Raises
        ------
        AttributeError
            For a name that is not part of the state.
        """
        before, self.unhurried = self.unhurried, True
        try:
            self.update(**state)
        finally:
            self.unhurried = before

    @property
    def revealed(self) -> bool:
        """Return whether the reference of the current question may be shown."""
        return self.question is None or not self.hides(self.question.id)

    def hides(self, question_id: str) -> bool:
        """Return whether the reference of a question, and all that tells it, is hidden."""
        return self.hide_reference and question_id not in self.revealed_ids

    @property
    def chosen_measurement(self) -> KeptDrawing | None:
        """Return the measurement that is chosen."""
        return next((m for m in self.measurements if m.id == self.measurement), None)

    @property
    def predictions(self) -> dict[str, Prediction]:
        """Return the shown predictions for the current question, by model."""
        if self.question is None:
            return {}
        key = self.question.id
        return {m: run.predictions[key] for m, run in self.runs.items() if key in run.predictions}


_ANNOUNCES = {
    "path": "questions_changed",
    "benchmark": "questions_changed",
    "questions": "questions_changed",
    "where": "rows_changed",
    "rows": "rows_changed",
    "order": "rows_changed",
    "row": "question_changed",
    "question": "question_changed",
    "case": "case_changed",
    "case_state": "case_changed",
    "case_message": "case_changed",
    "runs": "runs_changed",
    "scores": "runs_changed",
    "answer_format": "runs_changed",
    "hide_reference": "reveal_changed",
    "revealed_ids": "reveal_changed",
    "reference_chain": "chains_changed",
    "model_chains": "chains_changed",
    "comparisons": "chains_changed",
    "focus": "focus_changed",
    "focused_step": "focus_changed",
    "progress": "progress_changed",
    "live": "live_changed",
    "saw": "saw_changed",
    "results_folder": "progress_changed",
    "loaded": "progress_changed",
    "probing": "probing_changed",
    "probe_sight": "probe_sight_changed",
    "wanted": "wanted_changed",
    "scheduler": "wanted_changed",
    "unfinished": "unfinished_changed",
    "validation": "validation_changed",
    "absent_means_none": "validation_changed",
    "audited": "audited_changed",
    "segmenting": "segmenting_changed",
    "use_segmented": "segmenting_changed",
    "measurements": "measurements_changed",
    "measurement": "measurements_changed",
    "tool": "tool_changed",
    "probe_radius_mm": "probe_changed",
    "beside": "masks_changed",
    "overlays": "overlays_changed",
    "error_map": "overlays_changed",
    "problem": "problem_changed",
}
