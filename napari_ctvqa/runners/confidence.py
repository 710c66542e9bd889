"""How a run asks how sure the model is: odds of the options, or the question asked repeatedly."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from napari_ctvqa.core.confidence import (
    MAX_SAMPLES,
    Confidence,
    Source,
    as_record,
    content,
    of_masses,
    of_samples,
)
from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.events import Event, FailureKind, Status
from napari_ctvqa.core.records import AnswerFormat
from napari_ctvqa.runners.requests import Facts

if TYPE_CHECKING:
    from napari_ctvqa.core.asking import Ask
    from napari_ctvqa.core.records import Question
    from napari_ctvqa.runners.requests import Heard, Speaker

LOGITS, SAMPLES = "logits", "samples"
DEFAULT_SAMPLES = 8
DEFAULT_TEMPERATURE = 0.7
"""Assumed: no benchmark says at which one to sample."""
MOST_TEMPERATURE = 2.0
NO_OPTIONS = "the question has no options to choose from; samples (samples:N) can tell"
NOT_TOLD = "this way to run tells no probabilities; samples (samples:N) can tell"
ELSEWHERE = "the text begins with {said}, and answers otherwise further on"


@dataclass(frozen=True, slots=True)
class Wish:
    """``logits``, or ``samples`` with their number and temperature."""

    how: str
    count: int = 0
    temperature: float = 0.0

    @property
    def text(self) -> str:
        """Return it as it is written; ``wish`` reads it."""
        if self.how == LOGITS:
            return LOGITS
        return f"{SAMPLES}:{self.count}@{self.temperature:g}"


def wish(text: str) -> Wish:
    """Return what ``logits``, ``samples``, ``samples:N`` or ``samples:N@T`` asks for.

    Raises
    ------
    CtvqaError
        Naming what was expected.
    """
    how, _, rest = text.strip().partition(":")
    if how == LOGITS and not rest:
        return Wish(LOGITS)
    number, _, warmth = rest.partition("@")
    try:
        count = int(number) if number else DEFAULT_SAMPLES
        temperature = float(warmth) if warmth else DEFAULT_TEMPERATURE
    except ValueError:
        count, temperature = 0, 0.0
    if how != SAMPLES or not (2 <= count <= MAX_SAMPLES and 0 < temperature <= MOST_TEMPERATURE):
        raise CtvqaError(
            f"{text[:80]!r} is no way to tell how sure a model is.",
            hint=f"Give logits, or samples:N@T with N from 2 to {MAX_SAMPLES} samples at a "
            f"temperature above 0 and up to {MOST_TEMPERATURE:g}, e.g. samples:8@0.7.",
        )
    return Wish(SAMPLES, count, temperature)


def written(
    question: Question, answer_format: AnswerFormat, meanings: Mapping[str, str]
) -> Mapping[str, tuple[str, ...]]:
    """Return the texts that say each option, empty where nothing is to be chosen.

    The letter and the option's own text; of a model that knows a few words only, the words that
    mean the letter (``Ask.meanings``).
    """
    if answer_format is not AnswerFormat.MC or not question.options:
        return {}
    if not meanings:
        return {option.letter: (option.letter, option.text) for option in question.options}
    letters = [option.letter for option in question.options]
    said = {
        letter: tuple(word for word, meant in meanings.items() if meant == letter)
        for letter in letters
    }
    return said if any(said.values()) else {}


def asked(ask: Ask, wanted: Wish | None, question: Question, answer_format: AnswerFormat) -> Ask:
    """Return a request that also asks for the odds of the options, where they are wanted."""
    if wanted is None or wanted.how != LOGITS:
        return ask
    return replace(ask, written=written(question, answer_format, ask.meanings))


def told(
    wanted: Wish,
    speaker: Speaker,
    ask: Ask,
    question: Question,
    answer_format: AnswerFormat,
    text: str,
    facts: Facts,
) -> Generator[Event, None, None]:
    """Work out the confidence of an answer into ``facts``; yields what happens meanwhile.

    ``ask`` is the request that was answered with ``text``. A sample that fails ends the samples,
    and the answer stays; cancelling leaves ``facts.failed``.
    """
    if wanted.how == LOGITS:
        made = _from_odds(question, answer_format, text, facts, chosen=bool(ask.written))
    else:
        texts, problem = yield from _sampled(wanted, speaker, ask, facts)
        if facts.failed is not None:
            return
        made = of_samples(question, answer_format, text, texts, wanted.temperature, problem)
    facts.confidence = as_record(made)


def _from_odds(
    question: Question, answer_format: AnswerFormat, text: str, facts: Facts, *, chosen: bool
) -> Confidence:
    odds, answer = facts.odds, content(question, answer_format, text)
    if odds is None or not chosen:
        return Confidence(Source.LOGITS, answer, problem=NOT_TOLD if chosen else NO_OPTIONS)
    source = Source(odds.source)
    made = of_masses(source, question.options, odds.masses, answer, odds.unfollowed, odds.problem)
    if made.value is None or odds.said in ("", answer):
        return made
    return replace(made, value=None, problem=ELSEWHERE.format(said=odds.said))


def _sampled(
    wanted: Wish, speaker: Speaker, ask: Ask, facts: Facts
) -> Generator[Event, None, tuple[list[str], str]]:
    """Return the texts of the samples, and why there are fewer than wanted."""
    texts: list[str] = []
    first = (ask.sampling.seed or 0) + 1
    for number in range(wanted.count):
        yield Status(f"Sample {number + 1} of {wanted.count}", number / wanted.count)
        sampling = replace(ask.sampling, temperature=wanted.temperature, seed=first + number)
        one = Facts()
        came = _quietly(speaker, replace(ask, sampling=sampling), one)
        facts.usage += one.usage
        if came.failed is not None:
            if came.failed.kind is FailureKind.CANCELLED:
                facts.failed = came.failed
                yield came.failed
                return texts, ""
            return texts, f"{len(texts)} of {wanted.count} samples came: {came.failed.message}"
        texts.append(speaker.read(came, ask, one))
    return texts, ""


def _quietly(speaker: Speaker, ask: Ask, facts: Facts) -> Heard:
    """Ask, and tell nothing of it while it comes: a sample is no answer.

    Stopping works as ever: the way to run looks at the flag itself.
    """
    asking = speaker.ask(ask, facts)
    while True:
        try:
            next(asking)
        except StopIteration as over:
            heard: Heard = over.value
            return heard
