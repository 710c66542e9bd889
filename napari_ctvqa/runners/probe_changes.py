"""What a probe changes for one question: the case, the words, what is sent, or the tools."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.changed_asks import fingerprint, with_marks
from napari_ctvqa.core.changed_cases import ChangedCase, blank, mirrored, regridded
from napari_ctvqa.core.changed_lesions import (
    organs_asked,
    structure_asked,
    with_copies,
    without_lesions,
)
from napari_ctvqa.core.changed_questions import QUESTION_CHANGES
from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.kits import ORACLE, PREDICTED
from napari_ctvqa.core.probes import CannotProbeError
from napari_ctvqa.runners.answering import AGENT, ModelAnswerer
from napari_ctvqa.runners.marking import asked_region

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from napari_ctvqa.core.asking import Ask, Prepared, Preset
    from napari_ctvqa.core.cases import Case
    from napari_ctvqa.core.ports import Answerer, Family
    from napari_ctvqa.core.records import AnswerFormat, Question

WIDER = 1.5
"""By how much the window of the probe ``window`` is wider."""
COARSER, FINER = 1.5, 2 / 3
_COMPUTED = ("computed now", "oracle masks", "rendered from the CT")
"""What may stand behind a kit for a probe that changes the case: what looks at the case itself."""
BODIES = frozenset({"mirrored", "lesion_removed", "lesion_copied", "blank", "coarser", "finer"})
MARKS = frozenset({"overlay", "box", "point", "label"})
PLANES = ("axial", "coronal", "sagittal")


@dataclass
class Original:
    """What is known of a question as it is."""

    text: str
    mark: str = ""
    sent: Mapping[str, Any] = field(default_factory=dict)
    """What ``_sent`` tells of it: plane, slices and windows, or how a volume was scaled."""


@dataclass(frozen=True)
class Change:
    """What is changed of the ask: settings of the family, then what it made of them."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    ask: Callable[[Ask], Ask] | None = None
    to_original: npt.NDArray[np.float64] | None = None
    original_mark: str = ""
    """The mark of what was sent for the original; the same again is no probe."""
    shown: tuple[int, ...] = ()
    """The display slices that were sent for the original, where the case is changed: of the
    changed one the same are to be sent."""


@dataclass(frozen=True)
class Changed:
    """What is asked instead: of which case, and how it is put; ``note`` says what was changed."""

    question: Question
    case: Case
    change: Change = Change()
    note: str = ""
    tools: Any = None
    """What makes the agent's kit instead of its own."""
    tools_named: str = ""


@dataclass
class Made:
    """The changed cases of one case, each made once for all questions that share it."""

    case: Case
    kept: dict[tuple[str, tuple[str, ...], str], ChangedCase | CannotProbeError] = field(
        default_factory=dict
    )

    def get(self, probe: str, question: Question) -> ChangedCase:
        """Return the changed case. Raises CannotProbeError."""
        organs = organs_asked(question) if probe.startswith("lesion_") else ()
        key = (probe, organs, structure_asked(question) if probe == "lesion_copied" else "")
        if key not in self.kept:
            try:
                self.kept[key] = _BODY[probe](self.case, organs, key[2])
            except CannotProbeError as error:
                self.kept[key] = error
        found = self.kept[key]
        if isinstance(found, CannotProbeError):
            raise CannotProbeError(found.message)
        return found

    def forget(self) -> None:
        """Let go of volumes before the next probe makes its own."""
        self.kept.clear()


_BODY: Mapping[str, Callable[[Case, tuple[str, ...], str], ChangedCase]] = {
    "mirrored": lambda case, *_: mirrored(case),
    "blank": lambda case, *_: blank(case),
    "coarser": lambda case, *_: regridded(case, COARSER),
    "finer": lambda case, *_: regridded(case, FINER),
    "lesion_removed": lambda case, organs, _: without_lesions(case, organs),
    "lesion_copied": with_copies,
}


def changed_for(
    probe: str,
    question: Question,
    original: Original,
    made: Made,
    answerer: Answerer,
    answer_format: AnswerFormat,
) -> Changed:
    """Return what a probe asks. Raises CannotProbeError saying why it cannot be made."""
    case = made.case
    model = answerer if isinstance(answerer, ModelAnswerer) else None
    agent = model is not None and model.mode == AGENT
    if probe in QUESTION_CHANGES:
        put = QUESTION_CHANGES[probe](question, answer_format)
        return Changed(put, case, Change(original_mark=original.mark), f"asked as: {put.text}")
    if probe in BODIES:
        if agent and model is not None:
            _check_tools(model, case)
        found = made.get(probe, question)
        mark = "" if agent else original.mark
        settings = _same_slices(original.sent, found.to_original)
        shown = tuple(original.sent.get("shown", ()))
        change = Change(settings, to_original=found.to_original, original_mark=mark, shown=shown)
        return Changed(question, found.case, change, found.note)
    if probe == "tools_predicted":
        return Changed(
            question, case, note="predicted masks", tools=_tools(model, case), tools_named=PREDICTED
        )
    if "volume" in original.sent:
        raise CannotProbeError(_why_not_of_a_volume(probe, str(original.sent["volume"])))
    if probe in MARKS and model is not None and original.sent.get("pictures"):
        change, note = _marked(probe, question, case, toy=model.preset.toy)
    elif model is None or not original.sent.get("slices"):
        raise CannotProbeError(_NO_SLICES if not original.sent.get("pictures") else _ONE_PICTURE)
    else:
        change, note = _view(probe, original)
    return Changed(question, case, replace(change, original_mark=original.mark), note)


_NO_SLICES = "No slices are sent to it for this question."
_ONE_PICTURE = "Its family chooses slice and window itself, and takes no others."


def _why_not_of_a_volume(probe: str, scaling: str) -> str:
    """Return why a probe of pictures cannot be made of a volume."""
    if probe == "window":
        return f"It gets the CT as one volume ({scaling}) and takes no other window."
    if probe == "slices":
        return "It gets the CT as one volume: there are no other slices to send."
    if probe in PLANES:
        return "It gets the CT as one volume, not as slices of a plane."
    return "It gets the CT as one volume: there is no picture to mark."


def _same_slices(
    sent: Mapping[str, Any], to_original: npt.NDArray[np.float64]
) -> Mapping[str, Any]:
    """Return settings that send the slices of the original from a changed case.

    Otherwise a choice by masks, or by their number, could send others, and two things would have
    changed. None where what was sent is not known, or where slices fall together.
    """
    slices = sent.get("slices")
    if not slices or sent["plane"] not in PLANES:
        return {}
    axis = PLANES.index(sent["plane"])
    step, first = to_original[axis, axis], to_original[axis, 3]
    moved = [round((index - first) / step) for index in slices]
    if step < 0:
        moved = moved[::-1]  # the order in which they are sent is part of the question
    return {"slices": moved} if len(set(moved)) == len(slices) and min(moved) >= 0 else {}


def _check_tools(model: ModelAnswerer, case: Case) -> None:
    """Raise where an agent's tools would not see a change of the case."""
    assert model.kit_of is not None
    origin = model.kit_of(case).origin
    if origin not in _COMPUTED:
        raise CannotProbeError(
            f"The agent's tools answer {origin}, which the probe does not change."
        )


def _tools(model: ModelAnswerer | None, case: Case) -> Any:
    if model is None or model.mode != AGENT or model.kit != ORACLE:
        raise CannotProbeError("It is no agent with tools on the reference masks (kit oracle).")
    other = getattr(model.kit_of, "named", None)
    if other is None:
        raise CannotProbeError("Its tools cannot be exchanged.")
    kit_of = other(PREDICTED)
    try:
        kit_of(case)
    except CtvqaError as error:
        raise CannotProbeError(error.message) from error
    return kit_of


def _view(probe: str, original: Original) -> tuple[Change, str]:
    sent = original.sent
    if probe == "window":
        windows = [_wider(low, high) for low, high in sent["windows_hu"]]
        said = ", ".join(f"{low:g} to {high:g}" for low, high in windows)
        return Change({"windows_hu": windows}), f"window {said} HU"
    if probe == "slices":
        slices = other_slices(sent["slices"], int(sent["count"]))
        return Change({"slices": slices}), f"slices {', '.join(map(str, slices))} (from 0)"
    if sent["plane"] == probe:
        raise CannotProbeError(f"Its slices are {probe} already.")
    return Change({"plane": probe, "slices": None}), f"{probe} slices"


def _marked(probe: str, question: Question, case: Case, *, toy: bool) -> tuple[Change, str]:
    region = asked_region(question, case)

    def mark(ask: Ask) -> Ask:
        return with_marks(ask, region, probe, say=not toy)  # the toy knows no such words

    return Change(ask=mark), f"marked in the pictures: {probe}"


def _wider(low: float, high: float) -> list[float]:
    more = (high - low) * (WIDER - 1) / 2
    return [low - more, high + more]


def other_slices(slices: Sequence[int], count: int) -> list[int]:
    """Return as many slices of ``count``, each half-way to the next one.

    One more lies half-way beyond either end, or, where both ends of the volume are sent, a quarter
    of a step before the last.

    Raises
    ------
    CannotProbeError
        When there are no slices in between.
    """
    ordered = sorted(slices)
    if len(ordered) == 1:
        moved = [ordered[0] + 1 if ordered[0] + 1 < count else ordered[0] - 1]
    else:
        moved = [(a + b) // 2 for a, b in pairwise(ordered)]
        step = ordered[-1] - ordered[-2]
        beyond = (ordered[-1] + max(1, step // 2), ordered[0] - max(1, step // 2))
        within = [index for index in beyond if 0 <= index < count]
        moved.append(within[0] if within else ordered[-1] - max(1, step // 4))
    free = sorted(set(moved) - set(ordered))
    if len(free) != len(ordered) or not all(0 <= index < count for index in free):
        raise CannotProbeError("There are not as many other slices between those that are sent.")
    return free if list(slices) == ordered else free[::-1]


class WatchedFamily:
    """A family whose asks are changed on their way, and looked at.

    What it makes lies in the case that it is given, the changed one: so do the tools' pictures,
    masks that come back and what a family asks further. ``changed_asks.placed`` brings it to the CT
    for whoever shows it.
    """

    def __init__(self, family: Family, change: Change, *, probe: bool) -> None:
        self._family, self._change, self._probe = family, change, probe
        self.mark = ""
        self.sent: dict[str, Any] = {}
        self.cannot: CannotProbeError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._family, name)

    def prepare(
        self,
        preset: Preset,
        question: Question,
        case: Case,
        answer_format: AnswerFormat,
        settings: Mapping[str, Any],
    ) -> Prepared:
        """Return what is sent, changed; what cannot be is kept in ``cannot`` and raised."""
        try:
            return self._prepared(preset, question, case, answer_format, settings)
        except CannotProbeError as error:
            self.cannot = error
            raise
        except CtvqaError as error:
            if self._probe:  # the original was taken: it is the change that is not
                self.cannot = CannotProbeError(str(error))
            raise

    def _prepared(
        self,
        preset: Preset,
        question: Question,
        case: Case,
        answer_format: AnswerFormat,
        settings: Mapping[str, Any],
    ) -> Prepared:
        change = self._change
        settings = {**settings, **change.settings}
        prepared = self._family.prepare(preset, question, case, answer_format, settings)
        if change.ask is not None:
            prepared = replace(prepared, ask=change.ask(prepared.ask))
        self.mark = fingerprint(prepared.ask)
        self.sent = _sent(prepared)
        if change.to_original is not None:
            _check_same_shown(change.shown, self.sent.get("shown", ()), change.to_original)
        if change.original_mark and self.mark == change.original_mark:
            raise CannotProbeError("What is sent stays the same: this change does not reach it.")
        return prepared


def _check_same_shown(
    before: Sequence[int], now: Sequence[int], to_original: npt.NDArray[np.float64]
) -> None:
    """Raise where masks chose other slices of the changed case: two things would have changed.

    Both are display slices of families that send axial ones and take no choice of ours.
    """
    step, first = to_original[0, 0], to_original[0, 3]
    there = sorted(step * index + first for index in now)
    apart = zip(there, sorted(before), strict=False)
    if len(before) != len(now) or any(abs(a - b) > max(1.0, abs(step)) for a, b in apart):
        raise CannotProbeError(
            "Of the changed case another slice would be sent: a mask chose it, not the model."
        )


def watched(answerer: Any, change: Change | None) -> tuple[Any, WatchedFamily | None]:
    """Return a copy of an answerer whose family is watched; another answerer as it is.

    Without a change it is the original that is asked.
    """
    if not isinstance(answerer, ModelAnswerer):
        return answerer, None
    watch = WatchedFamily(answerer.family, change or Change(), probe=change is not None)
    again = copy.copy(answerer)  # shares the way to run, and the flag that stops it
    again.family = watch
    return again, watch


def _sent(prepared: Prepared) -> dict[str, Any]:
    """Return what was sent, as far as probes go by it: plain data, kept with the original.

    ``pictures`` counts them; ``plane``, ``slices``, ``count`` and ``windows_hu`` tell of slices
    whose choice a family takes as a setting, ``shown`` of those that it chooses itself; ``volume``
    is how one was scaled, in words.
    """
    recipe, volume = prepared.recipe, prepared.ask.volume
    if volume is not None:
        return {"volume": volume.scaling}
    if not prepared.ask.pictures:
        return {}
    sent: dict[str, Any] = {"pictures": len(prepared.ask.pictures)}
    slices = recipe.get("slices")
    if not isinstance(slices, list) or not all(isinstance(one, Mapping) for one in slices):
        return sent
    chosen = [int(one["display_slice"]) for one in slices]
    if "plane" not in recipe:
        return {**sent, "shown": chosen}
    return {
        **sent,
        "plane": recipe["plane"],
        "slices": chosen,
        "count": int(recipe["slices_in_plane"]),
        "windows_hu": [list(window) for window in recipe["windows_hu"]],
    }
