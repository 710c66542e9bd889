"""CT-SpatialVQA (arXiv 2605.08787): open questions on chest CTs, judged by three models."""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from napari_ctvqa.benchmarks import _spatial_jury as juries
from napari_ctvqa.benchmarks._records import (
    PredictionTable,
    QuestionTable,
    as_text,
    head_keys,
    is_json,
    read_only,
    shortened,
)
from napari_ctvqa.benchmarks._result_file import holds_run, objects, read_run
from napari_ctvqa.benchmarks._text_metrics import METRICS, text_metrics
from napari_ctvqa.core.errors import InputFileError
from napari_ctvqa.core.records import (
    AnswerFormat,
    AnswerType,
    Outcome,
    Prediction,
    Question,
    Reference,
    Run,
    Score,
)
from napari_ctvqa.io.case_files import find_in_roots
from napari_ctvqa.io.json_files import (
    Rows,
    files_in,
    is_file,
    is_folder,
    is_lines,
    json_lines,
    parse_json,
    read_csv,
    read_json,
    read_text,
)

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import CaseFiles
    from napari_ctvqa.core.questions import QuestionSet

logger = logging.getLogger(__name__)

_STEM = "spatial_qa_filtered_full"
_QUESTION_PLACES = ("dataset/ct_spatialvqa", "", "QA_generation", "benchmarking/eval_scripts/"
                    "spatial_categories", "eval_scripts/spatial_categories")  # fmt: skip
_QUESTION_NAMES = (f"{_STEM}.json", f"{_STEM}_nifti.jsonl", f"{_STEM}_with_categories.json")
_CATEGORY_PLACES = ("benchmarking/eval_scripts/spatial_categories", "eval_scripts/"
                    "spatial_categories", "spatial_categories", "")  # fmt: skip
_PREDICTION_PLACES = ("benchmarking/reports/predictions", "reports/predictions", "predictions")
_CATEGORY_ALIASES = {"Medial-Lateral Orientation": "Medial-Lateral Orientation (Centricity)"}
_VOLUMES = (".nii.gz", ".npy", ".npz", ".nii")
_TAIL = re.compile(r"(?:\s*(?:#{2,}|</s>|<\|[^|>]*\|>))+\s*\Z")
_REPORT = "report (validation_reports_output.json)"
"""Key under which a record shows the report that its question was made from."""
_MATRIX_VOTES = {"0.00": 0, "0.33": 1, "0.66": 2, "1.00": 3}
_COUNTED = (Outcome.RIGHT, Outcome.WRONG)
_STORED_ONLY = ("sbert_cosine", "meteor")


def clean(text: str) -> str:
    """Return a prediction without the end markers and blanks that some models leave."""
    return _TAIL.sub("", text).strip()


def case_of_path(image_path: str) -> str:
    """Return the case id of an image path: its stem, with ``.nii.gz``; empty for no path."""
    name = image_path.replace("\\", "/").rstrip("/").rpartition("/")[2]
    for suffix in _VOLUMES:
        if name.endswith(suffix):
            name = name[: -len(suffix)]
            break
    return f"{name}.nii.gz" if name else ""


class _Pairs:
    """Questions in file order; calling it with a row builds that Question."""

    def __init__(self, table: QuestionTable) -> None:
        self.table = table
        self.records: list[Mapping[str, Any]] = []
        self.answers: list[str] = []
        self.categories: list[tuple[str, ...]] = []
        self.reports: Mapping[str, Any] = {}

    def __call__(self, row: int) -> Question:
        record = self.records[row]
        report = self.reports.get(self.table.cases[row])
        if report is not None:
            record = {**record, _REPORT: report}
        return Question(
            id=self.table.ids[row],
            case_id=self.table.cases[row],
            text=self.table.texts[row],
            reference=Reference(self.answers[row]),
            subtype=self.table.subtypes[row],
            answer_type=AnswerType.OPEN,
            categories=self.categories[row],
            raw=read_only(record),
            missing_keys=() if record.get("answer") is not None else ("answer",),
        )


class CTSpatialVQA:
    """Where things lie in chest CTs: free answers, six overlapping categories."""

    name = "ct_spatialvqa"
    title = "CT-SpatialVQA"
    score_titles = ("Jury as published", "Jury aligned by content")

    # ----------------------------------------------------------------------------- recognising

    def recognises(self, path: Path) -> bool:
        """Return whether PATH holds its question or input files; never raises."""
        if is_folder(path):
            return _question_file(path) is not None
        return _holds_questions(path)

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
        file = _question_file(path) if is_folder(path) else path
        if file is None:
            raise InputFileError(
                path,
                f"has no {_STEM}.json.",
                hint="Give the benchmark's folder, or one question file.",
            )
        pairs = _Pairs(QuestionTable())
        problems: list[str] = []
        notes = {"questions_from": str(file)}
        labels = _Categories(_category_file(path, file), problems)
        pairs.reports = _reports(path, file, problems)
        counts: dict[str, int] = defaultdict(int)
        for case, record in _records(file, problems):
            index = counts[case]
            counts[case] += 1
            question = as_text(record.get("question"))
            if not question:
                problems.append(f"{file}: {case}::{index} lacks the key question.")
                continue
            answer = as_text(record.get("answer"))
            categories = _labels(record) or labels.of(case, index, question, answer)
            pairs.table.add(f"{case}::{index}", case, "", "; ".join(categories), question)
            pairs.records.append(record)
            pairs.answers.append(answer)
            pairs.categories.append(categories)
        return pairs.table.question_set(self.name, path, pairs, problems=problems, notes=notes)

    # --------------------------------------------------------------------------------- results

    def found_results(self, path: Path) -> Sequence[Path]:
        """Return ``reports/predictions/*_predictions_full.jsonl`` and ``results/*.json``."""
        root = _root(path)
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
        return _prediction_run(path, questions)

    def case_files(self, case_id: str, path: Path, roots: Sequence[Path]) -> CaseFiles:
        """Find a volume in CT-RATE's layout under PATH or the roots; it has no masks of its own."""
        return find_in_roots(case_id, [_root(path), *roots])

    # --------------------------------------------------------------------------------- scoring

    def score(
        self, question: Question, prediction: Prediction, answer_format: AnswerFormat
    ) -> Score:
        """Return a score without a jury: the text as it is read, not scored.

        Whether another wording states the same finding is what the judges are for.
        """
        del question, answer_format
        return _without_jury(prediction, None)

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
        panel = _Panel.of(run, judges)
        if panel is not None and not panel.missing:
            return panel.scores(known)
        published = _published_votes(run)
        return {key: _without_jury(p, published.get(key)) for key, p in known.items()}

    def metrics(
        self, questions: QuestionSet, run: Run, answer_format: AnswerFormat, **options: Any
    ) -> Mapping[str, Any]:
        """Return the jury, categories and text metrics; what could not be computed says why.

        ``options["judges"]`` names judge files; without it they are looked for beside the
        predictions.
        """
        judges = options.get("judges") or ()
        panel = _Panel.of(run, judges)
        predictions = {k: p for k, p in run.predictions.items() if k in questions.row_of}
        scores = self.scores(questions, run, answer_format, judges)
        result: dict[str, Any] = {"model": run.model}
        result["jury"] = panel.summary() if panel else _no_jury("no judge files were found")
        result["categories"] = _category_accuracy(questions, scores, panel)
        references = [questions.by_id(key).reference.text for key in predictions]
        texts = [prediction.raw_text for prediction in predictions.values()]
        result["text"] = text_metrics(texts, references)
        result["text_stored"] = _stored_text_metrics(run)
        result["reading_disagrees"] = [key for key, score in scores.items() if score.disagrees]
        return result


# --------------------------------------------------------------------------------------- layout


def _question_file(folder: Path) -> Path | None:
    files = (folder / place / name for name in _QUESTION_NAMES for place in _QUESTION_PLACES)
    return next((file for file in files if _holds_questions(file)), None)


def _root(path: Path) -> Path:
    """Return the benchmark's folder that PATH lies in, by the names of its own layout only."""
    folder = path if is_folder(path) else path.parent
    inside = ("dataset/ct_spatialvqa", "benchmarking/eval_scripts/spatial_categories",
              "benchmarking/reports/predictions", "benchmarking", "dataset")  # fmt: skip
    for place in inside:
        parts = PurePosixPath(place).parts
        if folder.parts[-len(parts) :] == parts:
            return folder.parents[len(parts) - 1]
    return folder


def _category_file(path: Path, questions: Path) -> Path | None:
    roots = dict.fromkeys((_root(path), _root(questions), questions.parent))
    name = f"{_STEM}_with_categories.json"
    files = (root / place / name for root in roots for place in _CATEGORY_PLACES)
    return next((file for file in files if is_file(file) and file != questions), None)


def _reports(path: Path, questions: Path, problems: list[str]) -> Mapping[str, Any]:
    """Return the report text behind each case's questions, where the folder has it."""
    roots = dict.fromkeys((_root(path), _root(questions)))
    files = (root / "QA_generation" / "validation_reports_output.json" for root in roots)
    file = next((file for file in files if is_file(file)), None)
    if file is None:
        return {}
    try:
        data = read_json(file)
    except InputFileError as error:
        problems.append(f"Reports are not shown: {error}")
        return {}
    return data if isinstance(data, dict) else {}


def _holds_questions(path: Path) -> bool:
    if not is_json(path):
        return False
    keys = head_keys(path)
    if not {"question", "answer"} <= keys or keys & {"prediction", "iscorrect", "qid"}:
        return False
    special = keys & {"mcquestion", "options", "correctoption", "questionsubtype"}
    by_line = "imagepath" in keys
    return not special and ("qapairs" in keys or by_line)


def _records(file: Path, problems: list[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (case id, record) from the nested JSON or from JSON lines."""
    text = read_text(file)
    if is_lines(text):
        rows = json_lines(text, file)
        problems += rows.problems
        for row in rows.rows:
            case = as_text(row.values.get("case_id"))
            yield case or case_of_path(as_text(row.values.get("image_path"))), row.values
        return
    data = parse_json(text, file)
    if not isinstance(data, dict):
        raise InputFileError(
            file, "holds no object of cases.", hint='Expected {"<case>": {"qa_pairs": [...]}}.'
        )
    if "question" in data:
        yield case_of_path(as_text(data.get("case_id") or data.get("image_path"))), data
        return
    for case, entry in data.items():
        pairs = entry.get("qa_pairs") if isinstance(entry, dict) else None
        if not isinstance(pairs, list):
            problems.append(f"{file}: case {case} lacks the key qa_pairs (a list).")
            continue
        for index, record in enumerate(pairs):
            if isinstance(record, dict):
                yield case, record
            else:
                problems.append(f"{file}: {case}::{index} is no object.")


def _labels(record: Mapping[str, Any]) -> tuple[str, ...]:
    labels = record.get("category")
    if not isinstance(labels, list):
        return ()
    return _named(tuple(map(as_text, labels)))


@lru_cache(maxsize=4096)
def _named(labels: tuple[str, ...]) -> tuple[str, ...]:
    """Return labels under one spelling, each once; the same few combinations recur."""
    return tuple(dict.fromkeys(_CATEGORY_ALIASES.get(name, name) for name in labels if name))


class _Categories:
    """The labels of the categories file, found by position and checked by content."""

    def __init__(self, file: Path | None, problems: list[str]) -> None:
        self._cases: Mapping[str, Any] = {}
        if file is None:
            return
        try:
            data = read_json(file)
        except InputFileError as error:
            problems.append(f"Categories are not shown: {error}")
            return
        if isinstance(data, dict):
            self._cases = data
        else:
            problems.append(f"Categories are not shown: {file} holds no object of cases.")

    def of(self, case: str, index: int, question: str, answer: str) -> tuple[str, ...]:
        entry = self._cases.get(case)
        pairs = entry.get("qa_pairs") if isinstance(entry, dict) else None
        if not isinstance(pairs, list):
            return ()
        if index < len(pairs) and _says(pairs[index], question, answer):
            return _labels(pairs[index])
        return next((_labels(p) for p in pairs if _says(p, question, answer)), ())


def _says(pair: Any, question: str, answer: str) -> bool:
    return (
        isinstance(pair, dict)
        and pair.get("question") == question
        and as_text(pair.get("answer")) == answer
    )


# ---------------------------------------------------------------------------------- predictions


class _Alignment:
    """Finds the question of a prediction record by its content."""

    def __init__(self, questions: QuestionSet) -> None:
        build = questions.build
        if isinstance(build, _Pairs):
            answers = build.answers
        else:
            answers = [question.reference.text for question in questions]
        frame = questions.frame
        self.ids: list[str] = frame["id"].tolist()
        self._full: dict[tuple[str, str, str], list[int]] = {}
        self._loose: dict[tuple[str, str], list[int]] = {}
        columns = zip(frame["case"].tolist(), frame["text"].tolist(), answers, strict=True)
        for row, (case, text, answer) in enumerate(columns):
            self._full.setdefault((case, text, answer), []).append(row)
        self._columns = frame, answers
        self._used: set[int] = set()
        self._last = -1

    def row_of(self, record: Mapping[str, Any], case: str) -> int | None:
        """Return the question's row: by case, question and answer; else the next that fits."""
        question = as_text(record.get("question"))
        answer = record.get("answer")
        if case and answer is not None:
            return self._next(self._full.get((case, question, as_text(answer))))
        if not self._loose:
            self._fill_loose()
        return self._next(
            self._loose.get((case, question) if case else (question, as_text(answer)))
        )

    def _fill_loose(self) -> None:
        frame, answers = self._columns
        columns = zip(frame["case"].tolist(), frame["text"].tolist(), answers, strict=True)
        for row, (case, text, answer) in enumerate(columns):
            self._loose.setdefault((case, text), []).append(row)
            self._loose.setdefault((text, answer), []).append(row)

    def _next(self, rows: list[int] | None) -> int | None:
        """Return the one row, or of several the first unused after the last one given.

        Records keep the order of the questions; where several questions fit, order decides.
        """
        if rows is None:
            return None
        if len(rows) > 1:
            unused = [row for row in rows if row not in self._used]
            rows = [row for row in unused if row > self._last] or unused
            if not rows:
                return None
            self._used.add(rows[0])
        self._last = rows[0]
        return self._last


def _model_of(path: Path) -> str:
    return re.sub(r"_predictions(?:_full)?\Z", "", path.stem)


def _prediction_rows(path: Path) -> Rows:
    text = read_text(path)
    if not text.lstrip("\ufeff \t\r\n").startswith("["):
        return json_lines(text, path)
    return objects(parse_json(text, path), path, "prediction")


def _prediction_run(path: Path, questions: QuestionSet) -> Run:
    rows = _prediction_rows(path)
    alignment = _Alignment(questions)
    model = _model_of(path)
    ids: list[str] = []
    lost: list[str] = []
    lacking = 0
    for row in rows.rows:
        record = row.values
        case = as_text(record.get("case_id")) or case_of_path(as_text(record.get("image_path")))
        found = alignment.row_of(record, case)
        lacking += "prediction" not in record
        if found is None:
            lost.append(f"line {row.line}")
        ids.append(alignment.ids[found] if found is not None else f"(line {row.line})")
    if lacking == len(rows.rows):
        raise InputFileError(
            path, "no line has the key prediction.", hint="Expected a model's prediction file."
        )

    def build(index: int) -> Prediction:
        record = rows.rows[index].values
        return Prediction(
            ids[index], model, as_text(record.get("prediction")), record=read_only(record)
        )

    notes = list(rows.problems)
    if lost:
        notes.append(
            f"{len(lost)} predictions belong to no question of {questions.path} (case, question "
            f"and answer do not occur): {shortened(lost)}."
        )
    if lacking:
        notes.append(f"{lacking} lines lack the key prediction.")
    repeated = len(ids) - len(set(ids))
    if repeated:
        notes.append(f"{repeated} lines repeat a question; the first is shown.")
    return Run(
        model, PredictionTable(ids, build), AnswerFormat.FREEFORM, str(path), {}, tuple(notes)
    )


# ----------------------------------------------------------------------------------------- jury


class _Panel:
    """The judges found for a run, and their jury when all three are there."""

    def __init__(self, run: Run, files: Mapping[str, Path]) -> None:
        self.files = files
        self.missing = [judge for judge in juries.JUDGES if judge not in files]
        self._run = run
        self._ids: list[str] = []
        self.jury: juries.Jury | None = None
        if not self.missing:
            self._judge()

    @classmethod
    def of(cls, run: Run, judges: Sequence[Path]) -> _Panel | None:
        files = juries.named_judges(judges) if judges else {}
        if not judges and run.path:
            files = juries.found_judges(Path(run.path), run.model)
        return cls(run, files) if files else None

    def _judge(self) -> None:
        table = self._run.predictions
        every = table.every() if isinstance(table, PredictionTable) else iter(table.values())
        predictions: list[juries.Key] = []
        for prediction in every:
            record = prediction.record
            case = as_text(record.get("case_id"))
            self._ids.append(prediction.question_id)
            predictions.append(
                (case, as_text(record.get("question")), as_text(record.get("answer")),
                 prediction.raw_text)
            )  # fmt: skip
        judged = [juries.read_judge(judge, self.files[judge]) for judge in juries.JUDGES]
        self.jury = juries.jury(judged, predictions)
        self.markers = {file.judge: file.markers for file in judged if file.markers}

    def summary(self) -> dict[str, Any]:
        if self.jury is None:
            names = ", ".join(self.missing)
            return {
                **_no_jury(f"the judge file of {names} is missing; a jury needs all three"),
                "judges": {judge: str(path) for judge, path in self.files.items()},
                "missing_judges": self.missing,
                **_published(self._run),
            }
        return {
            "official": juries.accuracy(self.jury.official),
            "aligned": juries.accuracy(self.jury.aligned),
            "n": self.jury.n,
            "misaligned_rows": self.jury.misaligned_rows,
            "n_aligned": len(self.jury.aligned),
            "unplaced_votes": self.jury.unplaced,
            "recovered_votes": self.markers,
            "judges": {judge: str(path) for judge, path in self.files.items()},
            "missing_judges": [],
            **_published(self._run),
        }

    def by_id(self, votes: Mapping[int, int]) -> dict[str, int]:
        return {self._ids[index]: count for index, count in votes.items() if index >= 0}

    def scores(self, predictions: Mapping[str, Prediction]) -> dict[str, Score]:
        assert self.jury is not None
        official, aligned = self.by_id(self.jury.official), self.by_id(self.jury.aligned)
        return {
            key: Score(
                _outcome(official.get(key)), _votes(official.get(key)),
                _outcome(aligned.get(key)), _votes(aligned.get(key)),
                readings_differ=official.get(key) != aligned.get(key),
            )
            for key in predictions
        }  # fmt: skip


def _without_jury(prediction: Prediction, published: int | None) -> Score:
    """Return a score by the published votes alone; the text itself is not judged here."""
    text = "" if prediction.failed else clean(prediction.raw_text)
    ours = Outcome.UNSCORED if text else Outcome.UNREAD
    if published is None:
        return Score(ours, text, ours, text)
    return Score(_outcome(published), f"{_votes(published)}, as published", ours, text)


def _published_votes(run: Run) -> dict[str, int]:
    """Return votes for right by question id from the benchmark's correctness matrix."""
    file = _reports_folder(run) / "metrics" / "correctness_matrix_avg3.csv"
    if not run.path or not is_file(file):
        return {}
    try:
        rows = read_csv(file).rows
    except InputFileError as error:
        logger.warning("published outcomes are not shown: %s", error)
        return {}
    means = ((row.values.get("question_id", ""), row.values.get(run.model, "")) for row in rows)
    return {key: _MATRIX_VOTES[mean] for key, mean in means if mean in _MATRIX_VOTES}


def _reports_folder(run: Run) -> Path:
    return Path(run.path).parent.parent


def _outcome(votes: int | None) -> Outcome:
    if votes is None:
        return Outcome.UNSCORED
    return Outcome.RIGHT if juries.is_right(votes) else Outcome.WRONG


def _votes(votes: int | None) -> str:
    return "" if votes is None else f"{votes} of 3 judges"


def _no_jury(reason: str) -> dict[str, Any]:
    return {"official": None, "aligned": None, "n": 0, "misaligned_rows": None, "reason": reason}


def _stored(run: Run, name: str) -> Any:
    """Return a stored metrics file of the benchmark's reports, or None."""
    if not run.path:
        return None
    file = _reports_folder(run) / "metrics" / name
    try:
        return read_json(file) if is_file(file) else None
    except InputFileError as error:
        logger.warning("stored metrics are not shown: %s", error)
        return None


def _entry(data: Any, model: str) -> Mapping[str, Any]:
    entries = data if isinstance(data, list) else []
    named = (e for e in entries if isinstance(e, dict))
    return next((e for e in named if e.get("model") in (model, f"{model}_full")), {})


def _published(run: Run) -> dict[str, Any]:
    entry = _entry(_stored(run, "llm_jury_accuracy.json"), run.model)
    if not entry:
        return {}
    return {
        "published": {
            "accuracy": entry.get("llm_jury_accuracy"),
            "count": entry.get("count"),
            "note": "as stored in llm_jury_accuracy.json, not recomputed",
        }
    }


def _stored_text_metrics(run: Run) -> dict[str, Any]:
    entry = _entry(_stored(run, "text_metrics_summary.json"), run.model)
    if not entry:
        return {}
    stored = {name: entry.get(name) for name in ("count", *METRICS)}
    for name in _STORED_ONLY:
        stored[name] = entry.get(name)
    stored["note"] = f"{' and '.join(_STORED_ONLY)}: not recomputed"
    return stored


def _category_accuracy(
    questions: QuestionSet, scores: Mapping[str, Score], panel: _Panel | None
) -> dict[str, Any]:
    """Return official and aligned accuracy by category; a question without a value counts wrong.

    Without a jury the official figure is that of the published outcomes, if there are any.
    """
    judged = panel is not None and panel.jury is not None
    if not judged and not any(s.official in _COUNTED for s in scores.values()):
        return {}
    totals: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for question in questions:
        score = scores.get(question.id)
        for category in question.categories:
            total = totals[category]
            total[0] += 1
            if score is not None:
                total[1] += score.official is Outcome.RIGHT
                total[2] += score.ours is Outcome.RIGHT
    return {
        name: {
            "count": n,
            "official": official / n,
            "aligned": aligned / n if judged else None,
            **({} if judged else {"note": "published outcomes, not recomputed"}),
        }
        for name, (n, official, aligned) in sorted(totals.items())
    }


BENCHMARK = CTSpatialVQA()
