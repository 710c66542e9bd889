"""ComparedMask: the masks that reference and models mean by one step, side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from napari_ctvqa.core.cases import Source
from napari_ctvqa.core.names import label
from napari_ctvqa.core.step_masks import mask_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from napari_ctvqa.core.cases import Case, Mask
    from napari_ctvqa.core.chains import AlignedStep, ChainComparison, EvidenceStep

MOST = 3
HIDDEN = "hidden until the reference is revealed"
NO_STEP = "no such step"
NO_MASK = "no mask"


@dataclass(frozen=True, eq=False)
class ComparedMask:
    """One column: whose it is, its mask, and the words below it; ``source`` gives the look."""

    title: str
    source: Source
    mask: Mask | None = None
    words: str = ""


def compared_masks(
    case: Case,
    comparisons: Mapping[str, ChainComparison],
    step: EvidenceStep | None,
    shown: Mask | None = None,
    beside: Sequence[Mask] = (),
    *,
    revealed: bool = True,
) -> tuple[ComparedMask, ...]:
    """Return reference, then the models' masks for the step that stands out, at most three.

    Without a step: the mask that stands out beside other masks of the same structure.
    """
    rows = {model: _row_of(comparison, step) for model, comparison in comparisons.items()}
    reference = next((row.reference for row in rows.values() if row and row.reference), None)
    if reference is not None:
        rows = {m: _row_of(c, reference) or rows[m] for m, c in comparisons.items()}
    if step is not None and any(rows.values()):
        first = ComparedMask("Reference", Source.REFERENCE, None, HIDDEN)
        if revealed:
            first = _column(case, "Reference", Source.REFERENCE, reference)
        models = [
            _column(case, model, Source.PREDICTED, row.model if row else None)
            for model, row in rows.items()
        ]
        wanted = first.mask or next((m.mask for m in models if m.mask is not None), None)
        return (first, *models, *_files(beside, wanted))[:MOST]
    mask = shown
    own = None if mask is None else case.masks.get(mask.structure)
    if mask is None:
        return ()
    words = label(mask.structure)
    first = ComparedMask("Reference", Source.REFERENCE, own, words if own else NO_MASK)
    return (first, *_files(beside, mask))[:MOST]


def _row_of(comparison: ChainComparison, step: EvidenceStep | None) -> AlignedStep | None:
    rows = comparison.rows if step is not None else ()
    found = next((r for r in rows if step is r.reference or step is r.model), None)
    return found or next((r for r in rows if step in (r.reference, r.model)), None)


def _column(case: Case, title: str, source: Source, step: EvidenceStep | None) -> ComparedMask:
    if step is None:
        return ComparedMask(title, source, None, NO_STEP)
    mask = mask_of(case, step)
    return ComparedMask(title, source, mask, NO_MASK if mask is None else label(mask.structure))


def _files(beside: Iterable[Mask], wanted: Mask | None) -> list[ComparedMask]:
    """Return the masks beside the case's own of the wanted structure."""
    titles = {Source.PREDICTED: "Model's mask", Source.TOOL: "Tool's mask", Source.READER: "Reader"}
    return [
        ComparedMask(titles.get(mask.source, mask.source), mask.source, mask, label(mask.structure))
        for mask in beside
        if wanted is not None and mask.structure == wanted.structure
    ]
