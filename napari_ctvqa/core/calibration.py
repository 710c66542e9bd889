"""Calibration of a run: whether answers given with 80 % confidence are right in 80 of 100."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from napari_ctvqa.core.audit import Total
from napari_ctvqa.core.confidence import Source, confidence_of
from napari_ctvqa.core.intervals import percent
from napari_ctvqa.core.records import Outcome

if TYPE_CHECKING:
    from napari_ctvqa.core.records import Run, Score

BINS = 10
SOURCE_WORDS = {
    Source.LOGITS: "probabilities of the model",
    Source.LOGPROBS: "probabilities that the server tells",
    Source.SAMPLES: "agreement of samples",
}


@dataclass(frozen=True, slots=True)
class Given:
    """One answer: its question, the confidence in it (0 to 1), whether it is right."""

    question_id: str
    confidence: float
    right: bool


@dataclass(frozen=True, slots=True)
class Bin:
    """Answers whose confidence lies from ``low`` to below ``high`` (the last one: up to 1)."""

    low: float
    high: float
    confidence: float
    """Their mean confidence."""
    total: Total
    ids: tuple[str, ...]

    @property
    def share(self) -> float:
        """Return how many of them are right, 0 to 1."""
        return self.total.right / self.total.n


@dataclass(frozen=True, slots=True)
class Calibration:
    """The bins that hold answers, from low to high.

    ``without`` counts answers that are right or wrong but have no confidence, ``unread`` those
    that cannot be read, whose confidence is about nothing.
    """

    bins: tuple[Bin, ...]
    total: Total
    confidence: float | None
    """Mean confidence; None without an answer that has one."""
    source: Source | None = None
    without: int = 0
    unread: int = 0
    chance_error: float = 0.0
    """The error that as many calibrated answers, as sure as these, show by chance.

    The mean absolute deviation of a binomial number of right answers, bin by bin; the answers of a
    bin are taken to be as sure as their mean, so it is about right and not too small.
    """

    @property
    def error(self) -> float | None:
        """Return the expected calibration error, 0 to 1.

        It is the mean distance, over answers, of a bin's share of right ones from its mean
        confidence.
        """
        if not self.total.n:
            return None
        apart = (b.total.n * abs(b.share - b.confidence) for b in self.bins)
        return sum(apart) / self.total.n


def _mean_deviation(n: int, probability: float) -> float:
    """Return how far a binomial number lies from its mean on average."""
    from scipy.stats import binom  # half a second, which only those who need it wait for

    counts = np.arange(n + 1)
    return float((binom.pmf(counts, n, probability) * np.abs(counts - n * probability)).sum())


def calibrate(given: Iterable[Given], bins: int = BINS) -> Calibration:
    """Return answers in ``bins`` of equal width by their confidence.

    Raises
    ------
    ValueError
        For a confidence outside 0 to 1.
    """
    members: dict[int, list[Given]] = {}
    count = 0
    for one in given:
        if not 0.0 <= one.confidence <= 1.0:
            raise ValueError(f"the confidence of {one.question_id} is {one.confidence}, not 0 to 1")
        members.setdefault(min(int(one.confidence * bins), bins - 1), []).append(one)
        count += 1
    made = tuple(_bin(number, bins, members[number]) for number in sorted(members))
    right = sum(b.total.right for b in made)
    mean = math.fsum(b.confidence * b.total.n for b in made) / count if count else None
    chance = sum(_mean_deviation(b.total.n, b.confidence) for b in made) / count if count else 0.0
    return Calibration(made, Total(count, right, float(right)), mean, chance_error=chance)


def _bin(number: int, bins: int, members: list[Given]) -> Bin:
    right = sum(one.right for one in members)
    mean = math.fsum(one.confidence for one in members) / len(members)
    ids = tuple(one.question_id for one in members)
    total = Total(len(members), right, float(right))
    return Bin(number / bins, (number + 1) / bins, mean, total, ids)


def calibrations(run: Run, scores: Mapping[str, Score]) -> tuple[Calibration, ...]:
    """Return the calibration of a run as a person reads it, one for each source of confidence.

    A confidence is in what our own reading took the answer to be, so it is held against that and
    not against the official outcome.
    """
    given: dict[Source, list[Given]] = {}
    without = unread = 0
    for key, score in scores.items():
        prediction = run.predictions.get(key)
        if prediction is None or score.ours is Outcome.UNSCORED:
            continue
        if score.ours is Outcome.UNREAD:
            unread += 1
            continue
        found = confidence_of(prediction)
        if found is None or found.value is None:
            without += 1
            continue
        one = Given(key, found.value, score.ours is Outcome.RIGHT)
        given.setdefault(found.source, []).append(one)
    return tuple(
        replace(calibrate(given[source]), source=source, without=without, unread=unread)
        for source in given
    )


def _percent(share: float) -> str:
    return percent(share).replace("%", " %")


def calibration_words(found: Calibration) -> tuple[str, ...]:
    """Return in sentences what a calibration says."""
    if found.error is None or found.confidence is None:
        return ()
    share = found.total.right / found.total.n
    apart = round((found.confidence - share) * 100, 1)
    over = "over" if apart > 0 else "under"
    sure = f"{over}-confident by {abs(apart):.1f} points" if apart else "as sure as it is right"
    ends = found.total.interval
    assert ends is not None
    within = ends.low <= found.confidence <= ends.high
    what = SOURCE_WORDS[found.source] if found.source is not None else "confidence"
    answers = "1 answer" if found.total.n == 1 else f"{found.total.n:,} answers"
    sentences = [
        f"Of {answers} the confidence ({what}) is on average {_percent(found.confidence)}, "
        f"right are {_percent(share)} ({ends.low * 100:.1f}–{ends.high * 100:.1f}): "
        f"{sure}{', which chance may explain' if within and apart else ''}.",
        f"Expected calibration error {found.error * 100:.1f} points in {BINS} bins; "
        f"calibrated answers would show about {found.chance_error * 100:.1f} by chance.",
    ]
    left = []
    if found.without:
        left.append(f"{found.without:,} without a confidence")
    if found.unread:
        left.append(f"{found.unread:,} that cannot be read")
    if left:
        sentences.append(f"Left out are answers: {', '.join(left)}.")
    return tuple(sentences)
