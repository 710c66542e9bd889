"""What a model saw of the reference's masks: read and worked out off the window's thread."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from napari_ctvqa.core.asking import Preset
from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.picture_tokens import resized_px
from napari_ctvqa.core.saw import seen_of_chain
from napari_ctvqa.extensions import families
from napari_ctvqa.io.seen_files import has_seen, read_seen
from napari_ctvqa.runners.recorded import recorded_answers

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from napari_ctvqa.core.asking import Prepared
    from napari_ctvqa.core.cases import Case
    from napari_ctvqa.core.chains import EvidenceChain
    from napari_ctvqa.core.live import LiveRun
    from napari_ctvqa.core.records import Question, Run
    from napari_ctvqa.core.saw import Seen
    from napari_ctvqa.runners.opening import Opened

logger = logging.getLogger(__name__)


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
    sights: tuple[Seen, ...] = ()
    recording: str = ""
    problem: str = ""


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
    else:
        model, words, sent, problem = _kept(question, runs)
    yield SawReport(question.id, model, words, sent, _sights(sent, case, chain), recording, problem)


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
) -> tuple[Seen, ...]:
    """Return how much of each of the chain's masks was in the pictures of all requests."""
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


def preset_of(prepared: Prepared) -> Preset | None:
    """Return the preset that a recipe names; None for a family or preset that is not here."""
    family = families().get(str(prepared.recipe.get("family", "")))
    preset = family.presets.get(str(prepared.recipe.get("preset", ""))) if family else None
    return preset if isinstance(preset, Preset) else None


def is_of_case(prepared: Prepared, case: Case | None) -> bool:
    """Return whether the pictures were cut from this case; true where the recipe names none."""
    named = prepared.recipe.get("case_id")
    return case is not None and named in (None, case.case_id)
