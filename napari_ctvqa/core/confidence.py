"""How sure a model was of an answer: option probabilities, or how far its samples agree.

Kept as ``confidence`` in a prediction's record, beside the benchmark's own keys; ``confidence_of``
reads it, and trusts nothing in it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ctvqa.core.answer_text import normalise, refuses
from napari_ctvqa.core.numbers import read_number, unit_asked
from napari_ctvqa.core.reading import read_letter, read_yes_no
from napari_ctvqa.core.records import AnswerFormat, AnswerType
from napari_ctvqa.core.rules import rule_for
from napari_ctvqa.core.scoring import close_enough

if TYPE_CHECKING:
    from napari_ctvqa.core.records import Option, Prediction, Question

KEY = "confidence"
MAX_SAMPLES = 100
_MAX_OPTIONS = 26
_MAX_TEXT = 300
UNREAD = ""
"""Among samples: one in which no answer could be read."""
_SHOWN_UNKNOWN = 0.01
"""A share that is known less exactly than this is told as a range."""
_COUNTS = ("lesions",)


class Source(StrEnum):
    """Where a confidence comes from."""

    LOGITS = "logits"
    """Probabilities of the model itself, whole."""
    LOGPROBS = "logprobs"
    """The most likely tokens that a server tells, with their probabilities."""
    SAMPLES = "samples"
    """The question asked again and again, at a temperature."""


@dataclass(frozen=True, slots=True)
class OptionShare:
    """One option of a question, as likely as the model took it to be.

    Parameters
    ----------
    letter, text
        The option as it was asked; after shuffling, the text is what tells it.
    share
        Of all options together, 0 to 1; they add up to 1. It is 0 where nothing of it was seen.
    mass
        The model's probability of it before that, 0 to 1.
    at_most
        The largest share that it can have; equal to ``share`` where all was seen.
    """

    letter: str
    text: str
    share: float
    mass: float
    at_most: float


@dataclass(frozen=True, slots=True)
class Spread:
    """Numbers that samples gave, in the unit of the question: least, quartiles, greatest."""

    low: float
    first_quartile: float
    median: float
    third_quartile: float
    high: float
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Confidence:
    """How sure a model was of one answer.

    Parameters
    ----------
    source
        Where it comes from.
    answer
        What was read in the answer that is scored (a letter, ``yes``/``no``, a number, a phrase),
        by our own reading; empty where nothing could be read.
    value
        From 0 to 1 for that very answer: its share of the options, or the share of the samples
        that agree with it. None where there is none, and ``problem`` says why.
    options
        In the order of the question; empty for samples.
    outside
        The model's probability of anything but an option, 0 to 1; None for samples.
    unfollowed
        The part of it that might still be of an option.
    samples
        What was read in each sample; ``UNREAD`` counts as not agreeing.
    temperature
        Of the samples; None for probabilities, which are the model's own (temperature 1).
    spread
        Of samples that are numbers.
    """

    source: Source
    answer: str = ""
    value: float | None = None
    options: tuple[OptionShare, ...] = ()
    outside: float | None = None
    unfollowed: float = 0.0
    samples: tuple[str, ...] = ()
    temperature: float | None = None
    spread: Spread | None = None
    problem: str = ""

    @property
    def counts(self) -> Mapping[str, int]:
        """Return how many samples said what, the most frequent first."""
        return dict(Counter(self.samples).most_common())


# ------------------------------------------------------------------------------------- working out


def of_masses(
    source: Source,
    options: Sequence[Option],
    masses: Mapping[str, float],
    answer: str,
    unfollowed: float = 0.0,
    problem: str = "",
) -> Confidence:
    """Return the confidence in ``answer`` from the probability mass of each option's letter.

    A letter without an entry has no mass that was seen. ``unfollowed`` is mass that may be of any
    option: it bounds what an option can have at most.
    """
    seen = {option.letter: _within(masses.get(option.letter, 0.0)) for option in options}
    unfollowed = _within(unfollowed)
    total = sum(seen.values())
    if problem or total <= 0:
        why = problem or "the model gave none of the options a probability that was seen"
        return Confidence(source, answer, problem=why)
    shares = tuple(
        OptionShare(
            option.letter,
            option.text[:_MAX_TEXT],
            seen[option.letter] / total,
            seen[option.letter],
            (seen[option.letter] + unfollowed) / (total + unfollowed),
        )
        for option in options
    )
    value = next((one.share for one in shares if one.letter == answer), None)
    return Confidence(
        source,
        answer,
        value,
        shares,
        _within(1.0 - total),
        unfollowed,
        problem="" if value is not None else _unread(answer),
    )


def _within(share: float) -> float:
    """Return a probability that sums and other programs may have pushed out of its range."""
    return min(1.0, max(0.0, share))


def _unread(answer: str) -> str:
    return f"{answer} is none of the options" if answer else "no answer was read in the text"


def of_samples(
    question: Question,
    answer_format: AnswerFormat,
    answer_text: str,
    texts: Sequence[str],
    temperature: float,
    problem: str = "",
) -> Confidence:
    """Return how many of the samples say the same as the answer, by content.

    Numbers agree within 10 %; counts and slice numbers only where they are equal. The reference is
    not looked at: a reading that knew it would agree more often where the model is right.
    """
    answer = content(question, answer_format, answer_text)
    read = tuple(content(question, answer_format, text) for text in texts)
    numeric = answer_format is not AnswerFormat.MC and question.answer_type is AnswerType.NUMERIC
    if not texts:
        why = problem or "no sample was drawn"
        return Confidence(Source.SAMPLES, answer, temperature=temperature, problem=why)
    same = [_agrees(question, one, answer) if numeric else one == answer for one in read]
    spread = _spread(read, _unit(question)) if numeric else None
    value = sum(same) / len(read) if answer else None
    return Confidence(
        Source.SAMPLES,
        answer,
        value,
        samples=read,
        temperature=temperature,
        spread=spread,
        problem=problem or ("" if answer else _unread("")),
    )


def content(question: Question, answer_format: AnswerFormat, text: str) -> str:
    """Return what a text answers, so that two wordings of one answer are equal; empty for unread.

    A letter (multiple choice), ``yes``/``no``, a number in the question's unit, a category, or the
    words without case and punctuation.
    """
    if text.lstrip().startswith("[ERROR]"):
        return UNREAD
    if answer_format is AnswerFormat.MC and question.options:
        return read_letter(text, question.options, question.text).value
    if question.answer_type is AnswerType.NUMERIC:
        return read_number(text, _unit(question), counting=_counting(question)).value
    if question.answer_type is AnswerType.BINARY:
        return read_yes_no(text, question.text).value
    said = normalise(text)
    if not said or refuses(text):
        return UNREAD
    known = question.categories or tuple(option.text for option in question.options)
    named = {normalise(name) for name in known if _says(said, normalise(name))}
    return named.pop() if len(named) == 1 else said


def _says(said: str, name: str) -> bool:
    return bool(name) and re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", said) is not None


def _unit(question: Question) -> str:
    rule = rule_for(question.subtype)
    return (rule.unit if rule is not None else "") or unit_asked(question.text)


def _counting(question: Question) -> bool:
    rule = rule_for(question.subtype)
    return rule is not None and (rule.unit in _COUNTS or rule.counts_slices)


def _agrees(question: Question, value: str, answer: str) -> bool:
    if not value or not answer:
        return False
    return close_enough(float(value), float(answer), exact=_counting(question))


def _spread(read: Sequence[str], unit: str) -> Spread | None:
    numbers = [float(one) for one in read if one and math.isfinite(float(one))]
    if not numbers:
        return None
    low, first, median, third, high = np.percentile(numbers, [0, 25, 50, 75, 100]).tolist()
    return Spread(low, first, median, third, high, unit)


# ---------------------------------------------------------------------------------------- a record


def as_record(confidence: Confidence) -> dict[str, Any]:
    """Return what is kept in a prediction's record, plain data; ``confidence_of`` reads it."""
    kept: dict[str, Any] = {
        "from": confidence.source.value,
        "answer": confidence.answer,
        "value": _rounded(confidence.value),
    }
    if confidence.options:
        kept["options"] = [
            {
                "letter": one.letter,
                "text": one.text,
                "share": _rounded(one.share),
                "mass": _rounded(one.mass),
                "at_most": _rounded(one.at_most),
            }
            for one in confidence.options
        ]
        kept["outside"] = _rounded(confidence.outside)
        kept["unfollowed"] = _rounded(confidence.unfollowed)
    if confidence.source is Source.SAMPLES:
        kept["samples"] = [one[:_MAX_TEXT] for one in confidence.samples]
        kept["temperature"] = confidence.temperature
    if confidence.spread is not None:
        spread = confidence.spread
        kept["spread"] = {name: getattr(spread, name) for name in _SPREAD} | {"unit": spread.unit}
    return kept | ({"problem": confidence.problem} if confidence.problem else {})


_SPREAD = ("low", "first_quartile", "median", "third_quartile", "high")


def _rounded(value: float | None) -> float | None:
    """Return seven digits: enough for every use, and a tenth of the bytes."""
    return None if value is None else float(f"{value:.7g}")


def confidence_of(prediction: Prediction) -> Confidence | None:
    """Return the confidence that is kept with a prediction, None for none or a damaged one."""
    data = prediction.record.get(KEY)
    if not isinstance(data, Mapping):
        return None
    try:
        return _read(data)
    except (KeyError, TypeError, ValueError, OverflowError):  # the last: an integer of 400 digits
        return None


def _read(data: Mapping[str, Any]) -> Confidence:
    value, outside, temperature = data["value"], data.get("outside"), data.get("temperature")
    options, samples = data.get("options", ()), data.get("samples", ())
    if len(options) > _MAX_OPTIONS or len(samples) > MAX_SAMPLES:
        raise ValueError("too many")
    spread = data.get("spread")
    return Confidence(
        Source(data["from"]),
        _text(data["answer"]),
        None if value is None else _part(value),
        tuple(_option(one) for one in options),
        None if outside is None else _part(outside),
        _part(data.get("unfollowed", 0.0)),
        tuple(_text(one) for one in samples),
        None if temperature is None else _number(temperature),
        None if spread is None else _read_spread(spread),
        _text(data.get("problem", "")),
    )


def _option(data: Mapping[str, Any]) -> OptionShare:
    return OptionShare(
        _text(data["letter"]),
        _text(data["text"]),
        _part(data["share"]),
        _part(data["mass"]),
        _part(data["at_most"]),
    )


def _read_spread(data: Mapping[str, Any]) -> Spread:
    low, first, median, third, high = (_number(data[name]) for name in _SPREAD)
    return Spread(low, first, median, third, high, _text(data.get("unit", "")))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return value[:_MAX_TEXT]


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError("no number")
    return float(value)


def _part(value: Any) -> float:
    number = _number(value)
    if not 0 <= number <= 1:
        raise ValueError("no share")
    return number


# --------------------------------------------------------------------------------------- for people


def confidence_line(confidence: Confidence) -> str:
    """Return a confidence in one line, with where it comes from."""
    if confidence.source is Source.SAMPLES:
        return _samples_line(confidence)
    if not confidence.options:
        return f"No confidence from {confidence.source}: {confidence.problem}"
    ordered = sorted(confidence.options, key=lambda one: (-one.share, -one.at_most))
    parts = [" · ".join(f"{one.letter} {_share_text(one, confidence)}" for one in ordered)]
    if confidence.outside is not None and confidence.outside >= 0.005:
        parts.append(f"{confidence.outside:.2f} outside the options")
    parts.append(f"from {confidence.source}")
    if confidence.value is None:
        parts.append(f"none of the answer itself: {confidence.problem}")
    return "Confidence: " + "; ".join(parts)


def _share_text(one: OptionShare, confidence: Confidence) -> str:
    """Return a share; ``< 0.01`` where nothing was seen, a range where much was not."""
    total = sum(option.mass for option in confidence.options)
    if one.mass <= 0:
        return f"< {max(math.ceil(100 * one.at_most), 1) / 100:.2f}"
    least = one.mass / (total + confidence.unfollowed)
    if one.at_most - least >= _SHOWN_UNKNOWN:
        return f"{least:.2f}–{one.at_most:.2f}"
    if one.share >= 0.995 and len(confidence.options) > 1:
        return "> 0.99"
    return f"{one.share:.2f}" if one.share >= 0.005 else "< 0.01"


def _samples_line(confidence: Confidence) -> str:
    count, temperature = len(confidence.samples), confidence.temperature
    if not count:
        return f"No confidence from samples: {confidence.problem}"
    drawn = f"{count} samples"
    drawn += "" if temperature is None else f" at temperature {temperature:g}"
    parts = []
    if confidence.value is not None:
        same = round(confidence.value * count)
        said = confidence.answer if len(confidence.answer) <= 40 else "the answer"
        parts.append(f"{said} {confidence.value:.2f}: {same} of {drawn} agree")
    else:
        parts.append(f"none of the answer itself: {confidence.problem}; {drawn}")
    parts.append(_spread_text(confidence) or _counts_text(confidence))
    if confidence.value is not None and confidence.problem:
        parts.append(confidence.problem)
    return "Confidence: " + "; ".join(part for part in parts if part)


def _counts_text(confidence: Confidence) -> str:
    shown = list(confidence.counts.items())
    told = [f"{(said or 'unread')[:40]} {count}" for said, count in shown[:6]]
    return ", ".join(told) + (f", {len(shown) - 6} others" if len(shown) > 6 else "")


def _spread_text(confidence: Confidence) -> str:
    spread = confidence.spread
    if spread is None:
        return ""
    unread = sum(not one for one in confidence.samples)
    text = (
        f"median {spread.median:.4g}, middle half {spread.first_quartile:.4g} to "
        f"{spread.third_quartile:.4g}, all {spread.low:.4g} to {spread.high:.4g} {spread.unit}"
    ).rstrip()
    return f"{text}, {unread} unread" if unread else text
