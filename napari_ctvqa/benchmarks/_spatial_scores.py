"""CT-SpatialVQA's scores: the jury, what is stored as published, accuracy by category."""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_ctvqa.benchmarks import _spatial_jury as juries
from napari_ctvqa.benchmarks._records import PredictionTable, as_text
from napari_ctvqa.benchmarks._text_metrics import METRICS
from napari_ctvqa.core.errors import InputFileError
from napari_ctvqa.core.records import Outcome, Prediction, Run, Score
from napari_ctvqa.io.json_files import is_file, read_csv, read_json

if TYPE_CHECKING:
    from napari_ctvqa.core.questions import QuestionSet

logger = logging.getLogger(__name__)

_TAIL = re.compile(r"(?:\s*(?:#{2,}|</s>|<\|[^|>]*\|>))+\s*\Z")
_MATRIX_VOTES = {"0.00": 0, "0.33": 1, "0.66": 2, "1.00": 3}
_COUNTED = (Outcome.RIGHT, Outcome.WRONG)
_STORED_ONLY = ("sbert_cosine", "meteor")


def clean(text: str) -> str:
    """Return a prediction without the end markers and blanks that some models leave."""
    return _TAIL.sub("", text).strip()


class Panel:
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
    def of(cls, run: Run, judges: Sequence[Path]) -> Panel | None:
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
                **no_jury(f"the judge file of {names} is missing; a jury needs all three"),
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
                Outcome.UNREAD if prediction.failed else _outcome(aligned.get(key)),
                "" if prediction.failed else _votes(aligned.get(key)),
                readings_differ=official.get(key) != aligned.get(key),
                failed=prediction.failed,
            )
            for key, prediction in predictions.items()
        }  # fmt: skip


def without_jury(prediction: Prediction, published: int | None) -> Score:
    """Return a score by the published votes alone; the text itself is not judged here."""
    text = "" if prediction.failed else clean(prediction.raw_text)
    ours, how = (Outcome.UNSCORED, "") if text else (Outcome.UNREAD, "no text")
    if published is None:
        return Score(ours, text, ours, text, failed=prediction.failed, how=how)
    votes = f"{_votes(published)}, as published"
    return Score(_outcome(published), votes, ours, text, failed=prediction.failed, how=how)


def published_votes(run: Run) -> dict[str, int]:
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


def no_jury(reason: str) -> dict[str, Any]:
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


def stored_text_metrics(run: Run) -> dict[str, Any]:
    entry = _entry(_stored(run, "text_metrics_summary.json"), run.model)
    if not entry:
        return {}
    stored = {name: entry.get(name) for name in ("count", *METRICS)}
    for name in _STORED_ONLY:
        stored[name] = entry.get(name)
    stored["note"] = f"{' and '.join(_STORED_ONLY)}: not recomputed"
    return stored


def category_accuracy(
    questions: QuestionSet, scores: Mapping[str, Score], panel: Panel | None
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
