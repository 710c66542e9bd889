"""FilmStep: a comparison of two chains as a film, one picture a row, with its mask and caption."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from napari_ctvqa.core.answers import with_unit
from napari_ctvqa.core.chains import AlignedStep, StepKind, StepMatch
from napari_ctvqa.core.names import is_known, label
from napari_ctvqa.core.regions import focus_slice
from napari_ctvqa.core.rules import is_measure, measure_named
from napari_ctvqa.core.selections import selection
from napari_ctvqa.core.step_masks import mask_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ctvqa.core.cases import Case, Mask
    from napari_ctvqa.core.chains import ChainComparison, EvidenceChain, EvidenceStep

_KINDS = {
    StepKind.SEGMENT: "segment",
    StepKind.MEASURE: "measure",
    StepKind.LOOKUP: "look up",
    StepKind.CONCLUDE: "conclude",
}
_MATCHES = {
    StepMatch.MISSING: "the model has no such step",
    StepMatch.EXTRA: "only the model has this step",
    StepMatch.WRONG_TARGET: "wrong target",
    StepMatch.WRONG_VALUE: "wrong value",
    StepMatch.OUTPUT_IGNORED: "output ignored",
    StepMatch.KNOWLEDGE_NOT_USED: "knowledge not used",
}
_LONGEST = 160
FIRST_DIFFERENCE = "First difference"
MAX_STEPS = 60
"""More are not played: a model may write any number of them."""


@dataclass(frozen=True, eq=False)
class FilmStep:
    """One row of two chains: what each did, and where that is seen.

    ``mask`` and ``index_z`` (0-based display slice) are those of the step, or of the last step
    before it that has some; both None where none has. ``own`` says that they are the step's own.
    ``lines`` are plain words for a caption.
    """

    reference: EvidenceStep | None
    model: EvidenceStep | None
    lines: tuple[str, ...]
    first: bool = False
    mask: Mask | None = None
    index_z: int | None = None
    own: bool = False

    @property
    def step(self) -> EvidenceStep:
        """Return the step that is gone to: the model's, where it did one."""
        found = self.model or self.reference
        assert found is not None  # a row without both is none
        return found


def film_steps(
    case: Case,
    reference: EvidenceChain | None,
    model: EvidenceChain | None = None,
    comparison: ChainComparison | None = None,
    *,
    revealed: bool = True,
    located: bool = True,
) -> tuple[FilmStep, ...]:
    """Return the steps of a film: the rows of a comparison, else those of one chain.

    While the reference is not revealed, the model's steps alone, and nothing of how they compare.
    Without ``located`` no mask and slice is looked for, which takes a moment in large masks.
    """
    told = comparison if revealed else None
    rows = told.rows if told is not None else _rows(reference if revealed else None, model)
    first = told.first_difference if told is not None else None
    name = "Model" if model is None else model.origin
    steps: list[FilmStep] = []
    mask: Mask | None = None
    index: int | None = None
    for place, row in enumerate(rows[:MAX_STEPS]):
        found, where = _seen(case, row) if located else (None, None)
        if found is not None:
            mask, index = found, where
        lines = _lines(row, name, first=place == first, compared=told is not None)
        steps.append(
            FilmStep(
                row.reference, row.model, lines, place == first, mask, index, found is not None
            )
        )
    return tuple(steps)


def _rows(reference: EvidenceChain | None, model: EvidenceChain | None) -> Sequence[AlignedStep]:
    if model is not None:
        return [AlignedStep(None, step, StepMatch.UNKNOWN) for step in model.steps]
    steps = () if reference is None else reference.steps
    return [AlignedStep(step, None, StepMatch.UNKNOWN) for step in steps]


def _seen(case: Case, row: AlignedStep) -> tuple[Mask | None, int | None]:
    for step in (row.model, row.reference):
        mask = None if step is None else mask_of(case, step)
        if step is not None and mask is not None:
            meant = step.slice_display
            deep = case.volume.display_grid.shape_zyx[0]
            known = meant is not None and 0 <= meant < deep
            return mask, meant if known else focus_slice(mask.region)
    return None, None


def _lines(row: AlignedStep, model: str, *, first: bool, compared: bool) -> tuple[str, ...]:
    lines = [FIRST_DIFFERENCE] if first else []
    if row.reference is not None:
        lines.append(f"Reference: {step_text(row.reference)}")
    if row.model is not None:
        lines.append(f"{_short(model, 40)}: {step_text(row.model)}")
    word = _MATCHES.get(row.match, "") if compared and not row.harmless else ""
    return (*lines, word[:1].upper() + word[1:]) if word else tuple(lines)


def step_text(step: EvidenceStep) -> str:
    """Return what a step did and found: ``"measure left kidney: volume = 154.2 cm³"``.

    No source and no raw output, which may name files.
    """
    target = selection(step.target).label if step.target else ""
    measure = step.measure
    words = measure_named(measure).words if is_measure(measure) else measure.replace("_", " ")
    what = f"{_KINDS[step.kind]} {target}".strip()
    what = f"{what}: {words}" if words and measure != "voxels" else what
    value = "failed" if step.error and step.value is None else _value(step)
    return _short(f"{what} = {value}" if value else what, _LONGEST)


def _value(step: EvidenceStep) -> str:
    if step.value is None:
        return ""
    if isinstance(step.value, str):
        parts = step.value.split("+")
        known = bool(step.value) and all(is_known(part) for part in parts)
        return ", ".join(label(part) for part in parts) if known else step.value
    return with_unit(_number(step.value), step.unit)


def _number(value: float) -> str:
    """Return a number for people: never with an exponent where it has a unit of daily life."""
    if abs(value) < 1 and value != 0:
        return f"{value:.4g}"
    return f"{value:,.2f}".rstrip("0").rstrip(".")


def _short(text: str, limit: int) -> str:
    """Return one line of printable characters."""
    plain = "".join(c if c.isprintable() else " " for c in text[: 4 * limit])
    line = " ".join(plain.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
