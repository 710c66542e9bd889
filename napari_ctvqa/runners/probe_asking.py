"""One question asked as it is, or under one probe: what is sent, judged, and the row of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.events import Outlined
from napari_ctvqa.core.probe_results import (
    ProbeAnswer,
    Verdict,
    answer_row,
    is_right,
    letter_in,
    options_said,
    said_in,
    verdict_of,
)
from napari_ctvqa.core.probes import (
    ORIGINAL,
    CannotProbeError,
    Effect,
    chance_of,
    effect_of,
    kind_of,
    swapped_sides,
)
from napari_ctvqa.core.records import AnswerFormat, Prediction
from napari_ctvqa.runners.answering import ModelAnswerer
from napari_ctvqa.runners.batch import answering, result_row
from napari_ctvqa.runners.probe_changes import Changed, Original, watched

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from napari_ctvqa.core.cases import Case
    from napari_ctvqa.core.ports import Answerer
    from napari_ctvqa.core.records import Question

NOT_KEPT = "the mask of a probe is not kept"
CHANGED_CT = "it is one of the changed CT and has no place in this one"


def row_key(question_id: str, probe: str) -> str:
    """Return what a row of a probe's file is called."""
    return f"{question_id}@{probe}"


@dataclass(frozen=True)
class Row:
    """A row for the file, and what it tells; ``prediction`` is None where nothing was asked."""

    row: Mapping[str, Any]
    prediction: Prediction | None
    failed: bool
    answer: ProbeAnswer | None = None
    """None for the original."""
    original: Original | None = None
    """What is known of a question as it is, where that was asked and did not fail."""


@dataclass(frozen=True)
class ProbeAsking:
    """Who is asked, and in which format; for any thread."""

    answerer: Answerer
    answer_format: AnswerFormat

    def original(self, question: Question, case: Case) -> Generator[object, None, Row]:
        """Yield what happens and return the row of a question as it is."""
        answerer, watch = watched(self.answerer, None)
        prediction, outlined = yield from self._answered(answerer, question, case)
        row = {
            **result_row(question, prediction),
            "qid": row_key(question.id, ORIGINAL),
            "question_id": question.id,
            "probe": ORIGINAL,
            "kind": kind_of(question),
            "said": self._said(question, prediction),
            "right": is_right(question, prediction.raw_text, self.answer_format),
        }
        if outlined:
            row["note"] = f"{row.get('note', '')}; {NOT_KEPT}"
        if watch is not None:
            row |= {"mark": watch.mark, "sent": watch.sent}
        return Row(
            row,
            prediction,
            prediction.failed,
            original=None if prediction.failed else original_of(row),
        )

    def under(
        self,
        probe: str,
        question: Question,
        original: Original,
        changed: Changed | CannotProbeError,
    ) -> Generator[object, None, Row]:
        """Yield what happens and return the row of a probe; ``changed`` may be why it is none."""
        known = ProbeAnswer(
            question.id,
            probe,
            kind_of(question),
            effect_of(probe, question, self.answer_format),
            Verdict.NOT_MADE,
            original=said_in(question, original.text, self.answer_format),
            original_right=is_right(question, original.text, self.answer_format),
        )
        row: dict[str, Any] = {"raw_output": "", "pred_answer": ""}
        prediction: Prediction | None = None
        try:
            if isinstance(changed, CannotProbeError):
                raise CannotProbeError(changed.message)
            answerer, watch = watched(self.answerer, changed.change)
            if changed.tools is not None and isinstance(answerer, ModelAnswerer):
                answerer.kit_of, answerer.kit = changed.tools, changed.tools_named
            prediction, outlined = yield from self._answered(
                answerer, changed.question, changed.case
            )
            if watch is not None and watch.cannot is not None:
                raise watch.cannot
        except CannotProbeError as error:
            answer = replace(known, reason=error.message)
        else:
            answer = self._judged(known, question, changed.question, prediction, original)
            row = {**result_row(changed.question, prediction), "changed": changed.note}
            if watch is not None:
                row["mark"] = watch.mark
            if outlined:
                why = CHANGED_CT if changed.change.to_original is not None else NOT_KEPT
                row["note"] = f"{row.get('note', '')}; {why}"
        row = {
            "image_id": question.case_id,
            "question_subtype": question.subtype,
            **row,
            **answer_row(answer),
            "qid": row_key(question.id, probe),
        }
        return Row(row, prediction, answer.verdict is Verdict.FAILED, answer)

    def _judged(
        self,
        known: ProbeAnswer,
        question: Question,
        put: Question,
        prediction: Prediction,
        original: Original,
    ) -> ProbeAnswer:
        """Return the answer with what it did; ``put`` is the question as the probe asked it."""
        if prediction.failed:
            reason = prediction.raw_text.removeprefix("[ERROR]").strip()
            return replace(known, verdict=Verdict.FAILED, reason=reason[:500])
        said = self._said(put, prediction)
        options = options_said(question, self.answer_format)
        verdict = verdict_of(known.effect, known.kind, known.original, said, options)
        right, chance = None, None
        if known.effect is Effect.SAME or known.probe == "blank":
            right = is_right(put, prediction.raw_text, self.answer_format)
            chance = chance_of(question)
        elif known.effect is Effect.FLIPS:
            reference = _reference_said(question, self.answer_format)
            right = said == swapped_sides(reference) if reference else None
        kept = None
        if known.probe == "shuffled" and said and known.original:
            kept = letter_in(put, prediction.raw_text) == letter_in(question, original.text)
        return replace(
            known, verdict=verdict, said=said, right=right, chance=chance, place_kept=kept
        )

    def _said(self, question: Question, prediction: Prediction) -> str:
        if prediction.failed:
            return ""
        return said_in(question, prediction.raw_text, self.answer_format)

    def _answered(
        self, answerer: Answerer, question: Question, case: Case
    ) -> Generator[object, None, tuple[Prediction, bool]]:
        """Return the prediction, and whether a mask came; what happens lets the caller stop."""
        outlined = False
        steps = answering(answerer, question, case, self.answer_format)
        try:
            while True:
                try:
                    item = next(steps)
                except StopIteration as ended:
                    prediction: Prediction = ended.value
                    return prediction, outlined
                outlined = outlined or isinstance(item, Outlined)
                yield item
        finally:
            steps.close()


def original_of(row: Mapping[str, Any]) -> Original:
    """Return what the row of a question as it is tells probes."""
    return Original(str(row["raw_output"]), str(row.get("mark", "")), row.get("sent") or {})


def _reference_said(question: Question, answer_format: AnswerFormat) -> str:
    if answer_format is AnswerFormat.MC and question.options:
        letter = question.reference.letter
        return said_in(question, letter, answer_format) if letter else ""
    return said_in(question, question.reference.text, answer_format)
