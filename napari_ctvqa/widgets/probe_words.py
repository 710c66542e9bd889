"""Words for what probes found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ctvqa.core.probe_results import Verdict
from napari_ctvqa.core.probes import Effect, swapped_sides, table
from napari_ctvqa.widgets.words import time_left

if TYPE_CHECKING:
    from napari_ctvqa.core.probe_results import ProbeAnswer
    from napari_ctvqa.core.probing import Probing

COLUMNS = ("Probe", "As it is", "With it", "Must be", "So")
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
    """Return one row: the probe, both answers, what it must be now, and what it did."""
    title = table().probes[answer.probe].title
    if answer.verdict is Verdict.NOT_MADE:
        return title, answer.original or "–", "–", "–", f"– not made: {answer.reason}"
    so = f"{_GLYPHS[answer.verdict]} {verdict_words(answer)}"
    return title, answer.original or "–", answer.said or "–", must_be(answer), so


def verdict_words(answer: ProbeAnswer) -> str:
    """Return what an answer did, with the reason of a failure."""
    if answer.verdict is Verdict.FAILED:
        return f"failed: {answer.reason}"
    if answer.effect is Effect.SAME and answer.verdict is Verdict.AS_MUST:
        return "stays, as it must"
    if answer.effect is Effect.VOID and answer.verdict is Verdict.UNCHANGED:
        return "kept, though none is right: a guess"
    return answer.verdict.value


def must_be(answer: ProbeAnswer) -> str:
    """Return what the answer must be now."""
    match answer.effect:
        case Effect.SAME:
            return "the same"
        case Effect.FLIPS:
            turned = swapped_sides(answer.original)
            return turned if turned != answer.original else "the other side"
        case Effect.NO:
            return "no"
        case Effect.ZERO:
            return "0"
        case Effect.MORE:
            return f"more than {answer.original}" if answer.original else "more"
        case Effect.VOID:
            return "none is right"
        case _:
            return "unknown"


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
    parts = [f"{probing.model}: {probing.done:,} of {probing.total:,}"]
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
