"""Words for what probes found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ctvqa.core.probe_results import Verdict
from napari_ctvqa.core.probes import Effect, swapped_sides, table
from napari_ctvqa.widgets.words import time_left

if TYPE_CHECKING:
    from napari_ctvqa.core.probe_results import ProbeAnswer
    from napari_ctvqa.core.probing import Probing
    from napari_ctvqa.runners.probe_sight import ProbeSight

_PICTURE_SAYS = {
    "mirrored": "left and right are swapped in these pictures.",
    "lesion_removed": "the lesion was taken out of these pictures; the patient has it.",
    "lesion_copied": "a lesion was copied to the other side in these pictures; the patient has "
    "none there.",
    "blank": "every voxel was made air in these pictures.",
    "window": "these pictures have another window.",
    "slices": "these are other slices.",
    "coarser": "these pictures were made of larger voxels.",
    "finer": "these pictures were made of smaller voxels.",
    "axial": "these are slices of another direction.",
    "coronal": "these are slices of another direction.",
    "sagittal": "these are slices of another direction.",
}
_MARKED = ("overlay", "box", "point", "label")
COLUMNS = ("Probe", "Answer", "So")
NOT_MADE = "–"
_GLYPHS = {
    Verdict.AS_MUST: "✓",
    Verdict.UNCHANGED: "=",
    Verdict.OTHER: "≠",
    Verdict.CHANGED: "≠",
    Verdict.NO_BASE: "–",
    Verdict.NO_ANSWER: "?",
    Verdict.FAILED: "✗",
    Verdict.NOT_MADE: "–",
}


def cells_of(answer: ProbeAnswer) -> tuple[str, ...]:
    """Return one row: the probe, the answer without and with it, what that is."""
    title = table().probes[answer.probe].title
    if answer.verdict is Verdict.NOT_MADE:
        return title, NOT_MADE, f"not made: {answer.reason}"
    before, after = answer.original or "?", answer.said or "?"
    said = before if before == after else f"{before} → {after}"
    return title, said, f"{_GLYPHS[answer.verdict]} {verdict_words(answer)}"


def sight_words(sight: ProbeSight) -> str:
    """Return what stands above the pictures of a probe: that they are changed, and how."""
    title = table().probes[sight.probe].title
    says = _PICTURE_SAYS.get(sight.probe)
    if says is None and sight.probe in _MARKED:
        says = "what is asked about is marked in red in these pictures."
    if says is None:
        return f"{title}: the words were changed, these pictures are the CT's own. {sight.changed}"
    told = sight.changed if sight.probe not in ("mirrored", "blank") else ""  # all is said
    done = f" ({told})" if told else ""
    later = " What its tools drew later is not shown." if sight.first_only else ""
    return f"Changed pictures, not the patient's. {title}: {says}{done}{later}"


def verdict_words(answer: ProbeAnswer) -> str:
    """Return what an answer did, with what it must be where it is not, or why it failed."""
    verdict, effect = answer.verdict, answer.effect
    if verdict is Verdict.FAILED:
        return f"failed: {answer.reason}"
    if verdict is Verdict.AS_MUST:
        return "stays, as it must" if effect is Effect.SAME else "changed, as it must"
    if verdict is Verdict.NO_BASE:
        return "nothing in it could turn"
    must = must_be(answer)
    if effect is Effect.VOID and verdict is Verdict.UNCHANGED:
        return "kept, though none is right: a guess"
    return f"{verdict.value}; {must}"


def must_be(answer: ProbeAnswer) -> str:
    """Return what the answer must be now, as the end of a sentence."""
    match answer.effect:
        case Effect.SAME:
            return "it must stay"
        case Effect.FLIPS:
            return f"it must be {swapped_sides(answer.original)}"
        case Effect.NO:
            return "it must be no"
        case Effect.ZERO:
            return "it must be 0"
        case Effect.MORE:
            return f"it must be more than {answer.original}"
        case Effect.VOID:
            return "none is right"
        case _:
            return "what it must be is unknown"


def verdict_role(verdict: Verdict) -> str:
    """Return the colour of a verdict, by its name in the theme; empty for none of its own."""
    if verdict is Verdict.AS_MUST:
        return "right"
    if verdict in (Verdict.OTHER, Verdict.FAILED):
        return "wrong"
    return "unread" if verdict is Verdict.NO_ANSWER else ""


def progress_words(probing: Probing) -> str:
    """Return count, failures and time left."""
    if not probing.total:
        return "Starting …" if probing.running else ""
    named = f"{probing.model}: " if probing.model else ""
    parts = [f"{named}{probing.done:,} of {probing.total:,}"]
    if probing.failed:
        parts.append(f"{probing.failed:,} failed")
    left = time_left(probing.seconds_left) if probing.running else ""
    return " · ".join([*parts, left] if left else parts)


def sentences_text(probing: Probing) -> str:
    """Return what the probes show together, then a paragraph a probe."""
    parts = ["\n".join(probing.behaviour)] if probing.behaviour else []
    for summary in probing.found:
        lines = [f"{summary.title}: {summary.asked:,} asked"]
        lines += [f"  {sentence}" for sentence in summary.sentences]
        reasons = sorted(summary.not_made.items(), key=lambda item: -item[1])[:3]
        lines += [f"  Not made for {count:,}: {reason}" for reason, count in reasons]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)
