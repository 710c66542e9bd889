"""DeepTumorVQA v2 (and v1 tables): arXiv 2605.09679, 2505.18915; layout as its release has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_ctvqa.benchmarks import _deeptumorvqa_official as official
from napari_ctvqa.benchmarks._deeptumorvqa_conversations import (
    conversation_questions,
    conversation_run,
    holds_conversations,
)
from napari_ctvqa.benchmarks._deeptumorvqa_questions import (
    holds_questions,
    one_question_file,
    question_files,
    read_questions,
)
from napari_ctvqa.benchmarks._deeptumorvqa_subtypes import unit_and_counting
from napari_ctvqa.benchmarks._records import PredictionTable, as_text, head_keys
from napari_ctvqa.benchmarks._result_file import holds_run, read_run
from napari_ctvqa.core.kits import KitFiles
from napari_ctvqa.core.records import AnswerFormat, AnswerType, Prediction, Question, Run, Score
from napari_ctvqa.core.scoring import disagreeing, failures, read_answer
from napari_ctvqa.io.case_files import find_in_roots
from napari_ctvqa.io.json_files import files_in, is_file, is_folder

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import CaseFiles
    from napari_ctvqa.core.questions import QuestionSet


class DeepTumorVQA:
    """Questions on abdominal CTs about organs and tumours, in four stages."""

    name = "deeptumorvqa"
    title = "DeepTumorVQA"

    # ----------------------------------------------------------------------------- recognising

    def recognises(self, path: Path) -> bool:
        """Return whether PATH holds such questions (or agent conversations); never raises."""
        if is_folder(path):
            return bool(question_files(path))
        return holds_questions(path) or holds_conversations(path)

    def recognises_results(self, path: Path) -> bool:
        """Return whether PATH is a result file, a partial one, or agent conversations."""
        keys = head_keys(path)
        return holds_run(keys) or holds_conversations(path)

    # ------------------------------------------------------------------------------- questions

    def questions(self, path: Path) -> QuestionSet:
        """Read test_qa.json, .jsonl, a split's CSV or agent conversations.

        Raises
        ------
        InputFileError
            When the file cannot be read or holds no question.
        AmbiguousError
            When a folder has several question files and none is the benchmark's own.
        """
        file = one_question_file(path) if is_folder(path) else path
        if holds_conversations(file):
            return conversation_questions(self.name, file)
        return read_questions(self.name, path, file)

    # --------------------------------------------------------------------------------- results

    def found_results(self, path: Path) -> Sequence[Path]:
        """Return result files in ``results/`` beside the questions, and a conversation file."""
        if is_file(path) and holds_conversations(path):
            return (path,)
        folder = path if is_folder(path) else path.parent
        places = [folder / "results", folder.parent / "results"]
        files = [f for place in places for f in files_in(place, ".json", ".jsonl")]
        return tuple(f for f in files if self.recognises_results(f))

    def results(self, path: Path, questions: QuestionSet) -> Run:
        """Read ``{metrics, n_processed, results}``, a partial file, or agent conversations.

        Raises
        ------
        InputFileError
            When the file cannot be read or holds no results.
        """
        if holds_conversations(path):
            return conversation_run(path, questions)
        return read_run(path, questions)

    def case_files(self, case_id: str, path: Path, roots: Sequence[Path]) -> CaseFiles:
        """Find the CT under ``benchmark/ct/<id>`` or a root, the masks there or under a root.

        DeepTumorVQA ships no masks: they come from an AbdomenAtlas root by the same id.
        """
        folder = path if is_folder(path) else path.parent
        return find_in_roots(case_id, [folder, *roots])

    def kit_files(self, path: Path) -> KitFiles:
        """Return the tool caches and pictures that lie with the questions, as released."""
        folder = path if is_folder(path) else path.parent
        places = [place for root in (folder, folder.parent) for place in (root, root / "benchmark")]
        caches = [f for place in places for f in files_in(place / "tool_cache", ".json")]
        crops = (place / "images_2d" / "organ" for place in places)
        return KitFiles(
            _cache_named(caches, "oracle"),
            _cache_named(caches, "totalsegmentator", "predicted"),
            next((place for place in crops if is_folder(place)), None),
        )

    # --------------------------------------------------------------------------------- scoring

    def score(
        self, question: Question, prediction: Prediction, answer_format: AnswerFormat
    ) -> Score:
        """Score one answer: officially by the letter or the answer type, and as a human reads."""
        unit, counting = unit_and_counting(question.subtype)
        text = official_text(prediction)
        choice = answer_format is AnswerFormat.MC
        if choice:
            judged = official.judge_mc(text, question.reference.letter)
        else:
            judged = official.judge_freeform(
                text, question.reference.text, question.answer_type, counting=counting
            )
        failed = prediction.failed or text.lstrip().startswith("[ERROR]")
        outcome, reading = read_answer(
            question,
            prediction.raw_text if prediction.failed else text,
            choice=choice,
            unit=unit,
            counting=counting,
        )
        value = judged.credit if not choice and question.answer_type is AnswerType.NUMERIC else None
        # Two wordings of one phrase are no disagreement; two letters or numbers are.
        differ = not _is_phrase(question, choice) and judged.read != reading.value
        return Score(
            judged.outcome, judged.read, outcome, reading.value, value, differ, failed, reading.how
        )

    def scores(
        self,
        questions: QuestionSet,
        run: Run,
        answer_format: AnswerFormat,
        judges: Sequence[Path] = (),
    ) -> Mapping[str, Score]:
        """Score every prediction whose question is known. ``judges`` plays no part here."""
        del judges
        return {
            key: self.score(questions[questions.row_of[key]], prediction, answer_format)
            for key, prediction in run.predictions.items()
            if key in questions.row_of
        }

    def metrics(
        self, questions: QuestionSet, run: Run, answer_format: AnswerFormat, **options: Any
    ) -> Mapping[str, Any]:
        """Return ``overall``, ``by_super_type``, ``by_subtype`` and ``reading_disagrees``."""
        del options
        frame = questions.frame
        stages = zip(frame["subtype"].tolist(), frame["stage"].tolist(), strict=True)
        stage_of: dict[str, str] = {}
        for subtype, stage in stages:
            stage_of.setdefault(subtype, stage)
        scorer = official.Scorer(mc=answer_format is AnswerFormat.MC)
        every = run.predictions
        rows = every.every() if isinstance(every, PredictionTable) else iter(every.values())
        for prediction in rows:
            row = questions.row_of.get(prediction.question_id)
            if row is None:
                continue
            question = questions[row]
            reference = question.reference
            scorer.add(
                question.subtype, stage_of[question.subtype], question.answer_type,
                official_text(prediction),
                reference.letter if answer_format is AnswerFormat.MC else reference.text,
            )  # fmt: skip
        scores = self.scores(questions, run, answer_format)
        return {
            **scorer.metrics(),
            "reading_disagrees": disagreeing(scores, list(run.predictions)),
            "errors": failures(scores),
        }


def _cache_named(files: Sequence[Path], *words: str) -> Path | None:
    """Return the cache of that kind; of several, the benchmark's before the training set's."""
    fitting = [f for f in files if any(word in f.name.casefold() for word in words)]
    return min(fitting, key=lambda file: "training" in file.name.casefold(), default=None)


def _is_phrase(question: Question, choice: bool) -> bool:
    return not choice and question.answer_type in (AnswerType.CATEGORICAL, AnswerType.OPEN)


def official_text(prediction: Prediction) -> str:
    """Return the text that the official scorer reads: ``pred_answer``, or ``raw_output``."""
    return as_text(prediction.record.get("pred_answer")) or prediction.raw_text


BENCHMARK = DeepTumorVQA()
