"""What a model saw of the reference's masks: read and worked out off the window's thread."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from napari_ctvqa.core.asking import Preset
from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.model_volumes import content_of, slice_pictures
from napari_ctvqa.core.picture_tokens import resized_px
from napari_ctvqa.core.saw import seen_of_chain
from napari_ctvqa.core.volume_sight import seen_of_case
from napari_ctvqa.extensions import families
from napari_ctvqa.io.seen_files import has_seen, kept_masks, read_seen
from napari_ctvqa.runners.recorded import recorded_answers

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from napari_ctvqa.core.asking import Picture, Prepared
    from napari_ctvqa.core.cases import Case, Mask
    from napari_ctvqa.core.chains import EvidenceChain
    from napari_ctvqa.core.live import LiveRun
    from napari_ctvqa.core.model_volumes import ModelVolume
    from napari_ctvqa.core.records import Question, Run
    from napari_ctvqa.core.saw import Seen
    from napari_ctvqa.core.volume_sight import SeenInVolume
    from napari_ctvqa.runners.opening import Opened

logger = logging.getLogger(__name__)

_SAME_CONTENT = 2e-8
"""Of the range: by how much the figures of two volumes made of one CT may differ."""


@dataclass(frozen=True)
class SawReport:
    """What one model was given for one question.

    ``sights`` speak of the reference chain's masks, so they tell of the reference. ``recording``
    is a result file whose answer can be played again, empty for none. ``problem`` says why what
    was kept cannot be shown.
    """

    question_id: str
    model: str = ""
    words: str = ""
    sent: tuple[Prepared, ...] = ()
    sights: tuple[Seen | SeenInVolume, ...] = ()
    slices: tuple[Picture, ...] = ()
    """Of the volume that went in with the last request, as pictures with their place."""
    volume: ModelVolume | None = None
    """That volume with its numbers; made again from the CT where the answer was kept."""
    recording: str = ""
    problem: str = ""
    masks: tuple[Mask, ...] = ()
    """What the model of a kept answer outlined; a running one tells its own."""


def saw_reports(
    opened: Opened,
    question: Question,
    case: Case | None,
    chain: EvidenceChain | None,
    runs: Mapping[str, Run],
    live: LiveRun | None,
) -> Generator[SawReport, None, None]:
    """Yield what the running model, else the first shown model with pictures kept, was given."""
    files = tuple(Path(run.path) for run in runs.values() if run.path)
    found = recorded_answers(opened, question.id, files)
    recording = str(found[0]) if found else ""
    if live is not None and live.question_id == question.id and live.sent:
        model, words, sent, problem = live.model, live.text, live.sent, ""
        masks: tuple[Mask, ...] = ()
    else:
        model, words, sent, problem = _kept(question, runs)
        masks, damage = _outlined(sent, case, question, runs.get(model))
        problem = problem or damage
    volume, unlike = _volume(sent, case)
    yield SawReport(
        question.id,
        model,
        words,
        sent,
        _sights(sent, case, chain),
        () if volume is None else slice_pictures(volume),
        volume,
        recording,
        problem or unlike,
        masks,
    )


def _outlined(
    sent: Sequence[Prepared], case: Case | None, question: Question, run: Run | None
) -> tuple[tuple[Mask, ...], str]:
    """Return the masks that were kept with an answer, and why there are none to show."""
    if not sent or run is None or case is None or not is_of_case(sent[-1], case):
        return (), ""
    try:
        return kept_masks(Path(run.path), question.id, case.volume.display_grid), ""
    except CtvqaError as error:
        return (), str(error)


def _kept(
    question: Question, runs: Mapping[str, Run]
) -> tuple[str, str, tuple[Prepared, ...], str]:
    for model, run in runs.items():
        path = Path(run.path) if run.path else None
        if path is None or question.id not in run.predictions or not has_seen(path, question.id):
            continue
        words = run.predictions[question.id].raw_text
        try:
            requests = read_seen(path, question.id).requests
        except CtvqaError as error:
            return model, words, (), str(error)
        return model, words, tuple(request.prepared for request in requests), ""
    return "", "", (), ""


def _sights(
    sent: Sequence[Prepared], case: Case | None, chain: EvidenceChain | None
) -> tuple[Seen | SeenInVolume, ...]:
    """Return how much of each of the chain's masks was in all pictures, or in the volume."""
    volume = sent[-1].ask.volume if sent else None
    if volume is not None and case is not None and is_of_case(sent[-1], case):
        return seen_of_case(chain, case.masks, volume, case.volume.display_grid)
    pictures = list({id(p): p for one in sent for p in one.ask.pictures}.values())
    if chain is None or case is None or not pictures or not is_of_case(sent[-1], case):
        return ()
    preset = preset_of(sent[-1])
    rule = preset.facts.get("tokens", {}) if preset else {}
    return seen_of_chain(
        chain,
        case.masks,
        pictures,
        case.volume.display_grid,
        lambda picture: resized_px(rule, *picture.pixels.shape[:2]),
    )


def _volume(sent: Sequence[Prepared], case: Case | None) -> tuple[ModelVolume | None, str]:
    """Return the last request's volume with its numbers, and why there are none.

    Of a kept answer they are made again from the CT, and only where they lie as they did.
    """
    if not sent or sent[-1].ask.volume is None:
        return None, ""
    last, kept = sent[-1], sent[-1].ask.volume
    if kept.values is not None or case is None or not is_of_case(last, case):
        return (None if kept.values is None else kept), ""
    family = families().get(str(last.recipe.get("family", "")))
    make = getattr(family, "make", None)
    if make is None:
        return None, "The volume that it was given cannot be made again: its family is not here."
    try:
        made: ModelVolume = make(case, kept.recipe)
    except (CtvqaError, KeyError) as error:
        return None, f"The volume that it was given cannot be made again: {error}"
    same = made.shape == kept.shape and np.allclose(made.index_from_voxel, kept.index_from_voxel)
    content = kept.more.get("content", ())
    ours = content_of(made)
    # A small lesion moves a mean by a millionth of the range; rounding moves it by much less.
    near = _SAME_CONTENT * (made.low_high[1] - made.low_high[0])
    if not same or len(content) != len(ours) or not np.allclose(content, ours, 0, near):
        return None, "The volume that it was given cannot be made again: this CT gives another one."
    return made, ""


def preset_of(prepared: Prepared) -> Preset | None:
    """Return the preset that a recipe names; None for a family or preset that is not here."""
    family = families().get(str(prepared.recipe.get("family", "")))
    preset = family.presets.get(str(prepared.recipe.get("preset", ""))) if family else None
    return preset if isinstance(preset, Preset) else None


def is_of_case(prepared: Prepared, case: Case | None) -> bool:
    """Return whether the pictures were cut from this case; true where the recipe names none."""
    named = prepared.recipe.get("case_id")
    return case is not None and named in (None, case.case_id)
