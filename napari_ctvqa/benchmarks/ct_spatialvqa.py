"""CT-SpatialVQA (arXiv 2605.08787): open questions on chest CTs, judged by three models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_ctvqa.benchmarks._records import head_keys
from napari_ctvqa.benchmarks._result_file import holds_run, read_run
from napari_ctvqa.benchmarks._spatial_predictions import read_predictions
from napari_ctvqa.benchmarks._spatial_questions import (
    benchmark_root,
    holds_questions,
    question_file,
    read_questions,
)
from napari_ctvqa.benchmarks._spatial_scores import (
    Panel,
    category_accuracy,
    no_jury,
    published_votes,
    stored_text_metrics,
    without_jury,
)
from napari_ctvqa.benchmarks._text_metrics import text_metrics
from napari_ctvqa.core.records import AnswerFormat
from napari_ctvqa.core.scoring import failures
from napari_ctvqa.io.case_files import find_in_roots
from napari_ctvqa.io.json_files import files_in, is_folder

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import CaseFiles
    from napari_ctvqa.core.questions import QuestionSet
    from napari_ctvqa.core.records import Prediction, Question, Run, Score

_PREDICTION_PLACES = ("benchmarking/reports/predictions", "reports/predictions", "predictions")


class CTSpatialVQA:
    """Where things lie in chest CTs: free answers, six overlapping categories."""

    name = "ct_spatialvqa"
    title = "CT-SpatialVQA"
    score_titles = ("Jury as published", "Jury aligned by content")
    score_note = (
        "The published jury pairs verdicts with answers by their position in the files, which "
        "does not always fit; aligned by content, each counts for the question that it quotes."
    )
    only_format = AnswerFormat.FREEFORM

    # ----------------------------------------------------------------------------- recognising

    def recognises(self, path: Path) -> bool:
        """Return whether PATH holds its question or input files; never raises."""
        if is_folder(path):
            return question_file(path) is not None
        return holds_questions(path)

    def recognises_results(self, path: Path) -> bool:
        """Return whether PATH is a prediction file, in any model's layout."""
        keys = head_keys(path)
        return {"question", "prediction"} <= keys and "iscorrect" not in keys

    # ------------------------------------------------------------------------------- questions

    def questions(self, path: Path) -> QuestionSet:
        """Read the questions of a folder or of one file; ids are ``<case_id>::<index>``.

        Raises
        ------
        InputFileError
            When there is no question file or it cannot be read.
        """
        return read_questions(self.name, path)

    # --------------------------------------------------------------------------------- results

    def found_results(self, path: Path) -> Sequence[Path]:
        """Return ``reports/predictions/*_predictions_full.jsonl`` and ``results/*.json``."""
        root = benchmark_root(path)
        files = [f for p in _PREDICTION_PLACES for f in files_in(root / p, ".jsonl")]
        files += files_in(root / "results", ".json", ".jsonl")
        found = [f for f in files if self.recognises_results(f) or holds_run(head_keys(f))]
        return tuple(dict.fromkeys(found))

    def results(self, path: Path, questions: QuestionSet) -> Run:
        """Read predictions in any model's layout, aligned with the questions by content.

        Raises
        ------
        InputFileError
            When the file cannot be read or holds no prediction.
        """
        if holds_run(head_keys(path)):
            return read_run(path, questions)
        return read_predictions(path, questions)

    def case_files(self, case_id: str, path: Path, roots: Sequence[Path]) -> CaseFiles:
        """Find a volume in CT-RATE's layout under PATH or the roots; it has no masks of its own."""
        return find_in_roots(case_id, [benchmark_root(path), *roots])

    # --------------------------------------------------------------------------------- scoring

    def score(
        self, question: Question, prediction: Prediction, answer_format: AnswerFormat
    ) -> Score:
        """Return a score without a jury: the text as it is read, not scored.

        Whether another wording states the same finding is what the judges are for.
        """
        del question, answer_format
        return without_jury(prediction, None)

    def scores(
        self,
        questions: QuestionSet,
        run: Run,
        answer_format: AnswerFormat,
        judges: Sequence[Path] = (),
    ) -> Mapping[str, Score]:
        """Score a run by its jury: official by position, as published; ours aligned by content.

        Where a judge's file is missing the official outcome is the one stored in the benchmark's
        correctness matrix, if that has it, and ours is open.
        """
        del answer_format
        known = {k: p for k, p in run.predictions.items() if k in questions.row_of}
        panel = Panel.of(run, judges)
        if panel is not None and not panel.missing:
            return panel.scores(known)
        published = published_votes(run)
        return {key: without_jury(p, published.get(key)) for key, p in known.items()}

    def metrics(
        self, questions: QuestionSet, run: Run, answer_format: AnswerFormat, **options: Any
    ) -> Mapping[str, Any]:
        """Return the jury, categories and text metrics; what could not be computed says why.

        ``options["judges"]`` names judge files; without it they are looked for beside the
        predictions.
        """
        judges = options.get("judges") or ()
        panel = Panel.of(run, judges)
        predictions = {k: p for k, p in run.predictions.items() if k in questions.row_of}
        scores = self.scores(questions, run, answer_format, judges)
        result: dict[str, Any] = {"model": run.model}
        result["jury"] = panel.summary() if panel else no_jury("no judge files were found")
        result["categories"] = category_accuracy(questions, scores, panel)
        references = [questions.by_id(key).reference.text for key in predictions]
        texts = [prediction.raw_text for prediction in predictions.values()]
        result["text"] = text_metrics(texts, references)
        result["text_stored"] = stored_text_metrics(run)
        result["reading_disagrees"] = [key for key, score in scores.items() if score.disagrees]
        result["errors"] = failures(scores)
        return result


BENCHMARK = CTSpatialVQA()
