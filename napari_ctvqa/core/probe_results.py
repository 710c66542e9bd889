"""What the answers to a probe mean: one by one, and over a batch with an interval.

Answers are compared by what they say, never by an option's letter. Nothing is judged where the
table does not know what a probe must do.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.intervals import percent, wilson
from napari_ctvqa.core.numbers import read_number
from napari_ctvqa.core.probes import CHANGING, ORIGINAL, Effect, swapped_sides, table
from napari_ctvqa.core.reading import normalise
from napari_ctvqa.core.records import AnswerFormat, Outcome
from napari_ctvqa.core.scoring import RIGHT_WITHIN, read_answer

if TYPE_CHECKING:
    from napari_ctvqa.core.records import Question

BETTER_THAN_GUESSING, MOSTLY = 0.5, 0.8
"""Shares that an interval must clear: of answers that must change, of those that must stay."""


class Verdict(StrEnum):
    """What one answer to a probe did."""

    AS_MUST = "as it must"
    UNCHANGED = "unchanged"
    OTHER = "changed otherwise"
    CHANGED = "changed"
    """Where nothing is known of what it must do, or where no answer is right."""
    NO_BASE = "nothing to change"
    """The original answer was not one that the probe could turn: it had not said yes."""
    NO_ANSWER = "no answer read"
    FAILED = "failed"
    NOT_MADE = "not made"


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """One answer to one probe, beside the original answer to the same question.

    ``said`` and ``original`` are what was read of the two texts: an option's text, yes or no, a
    number, a phrase; empty where nothing was. ``right`` and ``original_right`` count against the
    reference; None where there is nothing to count. ``place_kept`` tells whether the letter stayed
    (multiple choice). ``reason`` says why a probe was not made or failed.
    """

    question_id: str
    probe: str
    kind: str
    effect: Effect
    verdict: Verdict
    said: str = ""
    original: str = ""
    right: bool | None = None
    original_right: bool | None = None
    place_kept: bool | None = None
    chance: float | None = None
    reason: str = ""


def options_said(question: Question, answer_format: AnswerFormat) -> tuple[str, ...]:
    """Return what can be said in multiple choice; none in free form."""
    if answer_format is not AnswerFormat.MC:
        return ()
    return tuple(_bare(option.text) for option in question.options)


def said_in(question: Question, text: str, answer_format: AnswerFormat) -> str:
    """Return what a text says, comparable between two forms of a question; empty if unread."""
    choice = answer_format is AnswerFormat.MC and bool(question.options)
    _, reading = read_answer(question, text, choice=choice)
    texts = {option.letter: option.text for option in question.options}
    said = texts.get(reading.value, "") if choice else reading.value
    return _bare(said)


def _bare(text: str) -> str:
    """Return a text without case, marks around it and needless blanks; numbers keep their dots."""
    return " ".join(text.casefold().split()).strip(" .,;:!\"'()")


def letter_in(question: Question, text: str) -> str:
    """Return the letter that a text chooses; empty where it chooses none."""
    _, reading = read_answer(question, text, choice=True)
    return reading.value


def is_right(question: Question, text: str, answer_format: AnswerFormat) -> bool | None:
    """Return whether a text is right by the question's reference, as we read it."""
    choice = (
        answer_format is AnswerFormat.MC
        and bool(question.options)
        and bool(question.reference.letter)
    )
    outcome, _ = read_answer(question, text, choice=choice)
    return None if outcome is Outcome.UNSCORED else outcome is Outcome.RIGHT


def verdict_of(
    effect: Effect, kind: str, original: str, said: str, options: Sequence[str] = ()
) -> Verdict:
    """Return what an answer did, given what it must do.

    ``kind`` is of the question: a count must be equal to be the same, a measure within 10 %.
    ``options`` are what can be said, in multiple choice: two of them are two answers, however near.
    """
    if not original:
        return Verdict.NO_BASE
    if not said:
        return Verdict.NO_ANSWER
    kept = same(original, said, exact=bool(options) or kind in ("count", "part_count"))
    if effect is Effect.SAME:
        return Verdict.AS_MUST if kept else Verdict.OTHER
    if effect in (Effect.VOID, Effect.UNKNOWN):
        return Verdict.UNCHANGED if kept else Verdict.CHANGED
    wanted = _wanted(effect, original)
    sayable = not options or any(same(str(wanted), option, exact=True) for option in options)
    if wanted is None or (effect is not Effect.MORE and not sayable):
        return Verdict.NO_BASE
    if effect is Effect.MORE:
        grown = _value(said) is not None and (_value(said) or 0.0) > float(wanted)
        return Verdict.AS_MUST if grown else Verdict.UNCHANGED if kept else Verdict.OTHER
    if same(wanted, said, exact=True):
        return Verdict.AS_MUST
    return Verdict.UNCHANGED if kept else Verdict.OTHER


def _wanted(effect: Effect, original: str) -> str | None:
    """Return what must be said now (for MORE: what it must exceed); None where nothing can turn."""
    if effect is Effect.FLIPS:
        turned = swapped_sides(original)
        return turned if turned != original else None
    if effect is Effect.NO:
        return "no" if original == "yes" else None
    value = _value(original)
    if value is None:
        return None
    if effect is Effect.ZERO:
        return "0" if value > 0 else None
    return repr(value)


def _value(said: str) -> float | None:
    number = read_number(said).value
    return float(number) if number else None


def same(one: str, other: str, *, exact: bool = False) -> bool:
    """Return whether two answers say the same: equal, or numbers within 10 % unless ``exact``.

    Numbers decide only where one has no words that the other lacks: "2 left" is not "2 right".
    """
    if one == other or (normalise(one) == normalise(other) and not _value(one)):
        return True
    a, b = _value(one), _value(other)
    if a is None or b is None or not _nested(_words(one), _words(other)):
        return False
    return a == b if exact else abs(a - b) <= RIGHT_WITHIN * abs(a)


def _words(said: str) -> set[str]:
    return set(re.findall(r"[^\W\d_]+", said.casefold()))


def _nested(some: set[str], others: set[str]) -> bool:
    return some <= others or others <= some


# --------------------------------------------------------------------------------------- batches


@dataclass(frozen=True, slots=True)
class Share:
    """A count of a total with its Wilson interval (95 %)."""

    count: int
    total: int

    @property
    def value(self) -> float:
        """Return the share; 0 of nothing."""
        return self.count / self.total if self.total else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Return Wilson's interval, 95 %; 0 to 1 of nothing."""
        found = wilson(self.count, self.total)
        return (0.0, 1.0) if found is None else (found.low, found.high)

    def __str__(self) -> str:
        low, high = self.interval
        return (
            f"{self.count} of {self.total} ({percent(self.value, 0).replace('%', ' %')}, "
            f"95 % interval {100 * low:.0f} to {100 * high:.0f} %)"
        )


@dataclass(frozen=True)
class ProbeSummary:
    """What a probe did over a batch.

    ``turned`` counts answers that changed as they must among those that must; ``stayed`` those that
    stayed among those that must stay; ``kept`` those that stayed although no answer is right any
    more. ``right`` and ``right_before`` count right answers, the latter of the same questions.
    ``placed`` counts letters that stayed with options in other places. ``chance`` is what guessing
    gives on average. ``sentences`` say what it means.
    """

    probe: str
    title: str
    asked: int
    turned: Share
    stayed: Share
    kept: Share
    right: Share
    right_before: Share
    placed: Share
    sides_before: Share
    """Right originals among the answers that must name the other side now."""
    chance: float | None
    unread: int
    failed: int
    not_judged: int
    not_made: Mapping[str, int]
    sentences: tuple[str, ...] = ()


def summary_of(probe: str, answers: Sequence[ProbeAnswer]) -> ProbeSummary:
    """Return what the answers to one probe come to."""
    asked = [a for a in answers if a.verdict is not Verdict.NOT_MADE]
    judged = [a for a in asked if a.verdict not in (Verdict.FAILED, Verdict.NO_BASE)]
    must = [a for a in judged if a.effect in CHANGING]
    still = [a for a in judged if a.effect is Effect.SAME]
    void = [a for a in judged if a.effect is Effect.VOID]
    counted = [a for a in asked if a.right is not None and a.verdict is not Verdict.FAILED]
    chances = [a.chance for a in counted if a.chance is not None]
    placed = [a for a in judged if a.place_kept is not None]
    sided = [a for a in must if a.effect is Effect.FLIPS and a.original_right is not None]
    summary = ProbeSummary(
        probe,
        table().probes[probe].title,
        len(asked),
        _share(must, Verdict.AS_MUST),
        _share(still, Verdict.AS_MUST),
        _share(void, Verdict.UNCHANGED),
        Share(sum(bool(a.right) for a in counted), len(counted)),
        Share(sum(bool(a.original_right) for a in counted), len(counted)),
        Share(sum(bool(a.place_kept) for a in placed), len(placed)),
        Share(sum(bool(a.original_right) for a in sided), len(sided)),
        sum(chances) / len(chances) if chances and len(chances) == len(counted) else None,
        sum(a.verdict is Verdict.NO_ANSWER for a in asked),
        sum(a.verdict is Verdict.FAILED for a in asked),
        sum(a.verdict is Verdict.NO_BASE or a.effect is Effect.UNKNOWN for a in asked),
        Counter(a.reason for a in answers if a.verdict is Verdict.NOT_MADE),
    )
    return _said(summary)


def _share(answers: Sequence[ProbeAnswer], verdict: Verdict) -> Share:
    return Share(sum(a.verdict is verdict for a in answers), len(answers))


def summaries(answers: Iterable[ProbeAnswer]) -> tuple[ProbeSummary, ...]:
    """Return one summary a probe, in the order of the table."""
    by_probe: dict[str, list[ProbeAnswer]] = {}
    for answer in answers:
        by_probe.setdefault(answer.probe, []).append(answer)
    return tuple(summary_of(name, by_probe[name]) for name in table().probes if name in by_probe)


# ------------------------------------------------------------------------------------- sentences

UNSURE = "So few answers do not decide what that means."


def _said(summary: ProbeSummary) -> ProbeSummary:
    row = table().probes[summary.probe]
    said: list[str] = []
    if summary.probe == "blank":
        said += _blank_sentences(summary)
    else:
        if summary.turned.total:
            said.append(f"{summary.turned} answers changed as they must.")
            said.append(_decided(summary.turned, BETTER_THAN_GUESSING, row.follows, row.ignores))
        if summary.kept.total:
            guesses = ": these are guesses." if summary.kept.count else "."
            said.append(f"{summary.kept} answers stayed where none is right any more{guesses}")
        if summary.stayed.total:
            said.append(f"{summary.stayed} answers stayed, as they must.")
            said.append(_decided(summary.stayed, MOSTLY, row.steady, row.unsteady))
            said += _right_sentences(summary)
    if summary.placed.total and summary.placed.interval[0] > BETTER_THAN_GUESSING:
        said.append(f"{summary.placed} answers kept their letter: the option's place decides.")
    if not said and summary.asked:
        said.append("What this probe must do to these answers is unknown; changes are listed only.")
    if summary.asked == 0:
        said.append("It could be made for no question.")
    return replace(summary, sentences=tuple(said))


def _decided(share: Share, than: float, yes: str, no: str) -> str:
    low, high = share.interval
    return yes if low > than else no if high < than else UNSURE


def _right_sentences(summary: ProbeSummary) -> list[str]:
    before, after = summary.right_before, summary.right
    if summary.turned.total or not after.total or before.count == after.count:
        return []  # where answers must turn, what is right before is not what is right after
    return [f"Right were {before.count} of {before.total} before, {after.count} with it."]


def _blank_sentences(summary: ProbeSummary) -> list[str]:
    row, said = table().probes["blank"], []
    right, kept = summary.right, summary.kept
    if right.total and summary.chance is not None:
        said.append(
            f"{right} answers are right, where guessing gives {100 * summary.chance:.0f} %."
        )
        low, high = right.interval
        above = summary.right_before.interval[0] > summary.chance
        if low > summary.chance:
            said.append(row.ignores)
        elif above and high < summary.right_before.value:
            said.append(row.follows)
        else:
            said.append(UNSURE if above else "Nor are more right on the CT itself.")
    if kept.total:
        said.append(f"{kept} answers are those given to the CT itself.")
        if kept.interval[0] > MOSTLY:
            said.append("The answers do not depend on the pixels at all.")
    return said


def behaviour(found: Sequence[ProbeSummary]) -> tuple[str, ...]:
    """Return what the probes together say of a model, in sentences; none where nothing is sure."""
    by_name = {summary.probe: summary for summary in found}
    said = []
    blank, turned = by_name.get("blank"), by_name.get("mirrored")
    removed, moved = by_name.get("lesion_removed"), by_name.get("shuffled")
    follows = [s for s in (turned, removed) if s is not None and _low(s.turned) > 0.5]
    ignores = [s for s in (turned, removed) if s is not None and _high(s.turned) < 0.5]
    blind = blank is not None and _low(blank.kept) > MOSTLY
    if blind and not follows:
        said.append("It does not look at the picture: its answers are the same without one.")
    elif blind:
        said.append("It does not look at the pixels: what it follows are the masks.")
    elif ignores and not follows:
        said.append("It guesses from priors: what it says does not go with the picture.")
    elif follows and removed in follows:
        said.append("It looks at the lesion.")
    elif follows:
        said.append("It looks at the picture.")
    if turned in follows and turned is not None and _high(turned.sides_before) < 0.5:
        said.append("It confuses the sides: it sees the change and names the wrong one.")
    if moved is not None and _low(moved.placed) > 0.5:
        said.append("It follows the place of an option, not what it says.")
    return tuple(said)


def _low(share: Share) -> float:
    return share.interval[0]


def _high(share: Share) -> float:
    return share.interval[1]


# ------------------------------------------------------------------------------------------ rows


def answer_row(answer: ProbeAnswer) -> dict[str, Any]:
    """Return an answer as plain data, for a file."""
    return {
        "question_id": answer.question_id,
        "probe": answer.probe,
        "kind": answer.kind,
        "effect": answer.effect.value,
        "verdict": answer.verdict.value,
        "said": answer.said,
        "original": answer.original,
        "right": answer.right,
        "original_right": answer.original_right,
        "place_kept": answer.place_kept,
        "chance": answer.chance,
        "reason": answer.reason,
    }


def answer_of(row: Mapping[str, Any]) -> ProbeAnswer | None:
    """Return the answer in a row of a file; None where the row is none of a probe.

    Raises
    ------
    ValueError
        For an effect or verdict that there is not.
    """
    if row.get("probe") in (None, ORIGINAL) or row["probe"] not in table().probes:
        return None
    return ProbeAnswer(
        str(row.get("question_id", "")),
        str(row["probe"]),
        str(row.get("kind", "")),
        Effect(row.get("effect", "")),
        Verdict(row.get("verdict", "")),
        str(row.get("said", "")),
        str(row.get("original", "")),
        _truth(row.get("right")),
        _truth(row.get("original_right")),
        _truth(row.get("place_kept")),
        _part(row.get("chance")),
        str(row.get("reason", "")),
    )


def _truth(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _part(value: Any) -> float | None:
    """Return a share from 0 to 1; None for anything else, numbers of any size included."""
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
    return float(value) if fits else None
