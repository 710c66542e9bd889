"""Where answers given in the window are kept: one file a model and format, then a next one."""

from __future__ import annotations

import glob
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs

from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.unfinished import Unfinished
from napari_ctvqa.io.append_log import AppendLog, BusyError
from napari_ctvqa.io.result_journal import OtherRunError, ResultJournal, result_file_of
from napari_ctvqa.io.seen_files import has_seen
from napari_ctvqa.io.seen_writing import SeenFiles
from napari_ctvqa.runners.batch import result_row, run_description, with_note

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from napari_ctvqa.core.ports import Answerer
    from napari_ctvqa.core.records import AnswerFormat, Prediction, Question
    from napari_ctvqa.io.seen_writing import SeenAnswer
    from napari_ctvqa.runners.opening import Opened

_MOST_UNFINISHED, _MOST_TOLD = 20, 3
_MOST_JOURNAL_BYTES = 64 * 1024**2
"""Of one that is read to tell of it; going on with it takes any."""
_ENDING_S, _LOOK_EVERY_S = 2.0, 0.1


def results_folder(opened: Opened) -> Path:
    """Return the folder in the user's data where this benchmark's runs are kept."""
    benchmark = opened.benchmark.name if opened.benchmark is not None else "case"
    return Path(platformdirs.user_data_dir("napari-ctvqa")) / "runs" / benchmark


def result_path(opened: Opened, model: str, answer_format: AnswerFormat) -> Path:
    """Return a new file for a run's results in the user's data folder."""
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    return results_folder(opened) / f"{model}_{answer_format.value}_{stamp}.json"


def unfinished(
    opened: Opened, model: str, answer_format: AnswerFormat, config: Mapping[str, Any]
) -> Path | None:
    """Return the newest result file in the user's data whose run can go on; None for none.

    It was stopped or killed before its end, ``config`` says that it was made alike, and no other
    window is at it. One that was just stopped is waited for while it ends.
    """
    until = time.monotonic() + _ENDING_S
    found = results_folder(opened).glob(
        f"{glob.escape(model)}_{answer_format.value}_*.partial.jsonl"
    )
    for partial in sorted(found, reverse=True)[:_MOST_UNFINISHED]:
        path = result_file_of(partial)
        if "_single_" in path.name:
            continue
        if _can_go_on(path, config, until):
            return path
    return None


def unfinished_runs(opened: Opened) -> Generator[tuple[Unfinished, ...], None, None]:
    """Yield, once, the runs of this benchmark that were stopped or killed; the newest first.

    One that another window is at is none. Reads their journals.
    """
    found = results_folder(opened).glob("*.partial.jsonl")
    newest = sorted((path for path in found if "_single_" not in path.name), key=_stamp)[::-1]
    looked = (_unfinished(path) for path in newest[:_MOST_TOLD])
    yield tuple(one for one in looked if one is not None)


def _stamp(path: Path) -> str:
    """Return when a file was begun, as its name ends with: names begin with the model's."""
    return "_".join(result_file_of(path).stem.rsplit("_", 1)[-1:])


def _unfinished(partial: Path) -> Unfinished | None:
    try:
        if partial.stat().st_size > _MOST_JOURNAL_BYTES:
            return None
        log = AppendLog(partial, result_file_of(partial))
        log.close()
        stopped = datetime.fromtimestamp(partial.stat().st_mtime)
    except (CtvqaError, OSError):
        return None
    run = log.entries[0].get("run") if log.entries else None
    texts = {str(row["qid"]): str(row.get("raw_output")) for row in log.entries if "qid" in row}
    if not isinstance(run, dict) or not texts:
        return None
    failed = sum(text.startswith("[ERROR]") for text in texts.values())
    model, form = (str(run.get(key, ""))[:200] for key in ("model", "answer_format"))
    return Unfinished(
        str(result_file_of(partial)), model, form, len(texts) - failed, failed, stopped
    )


def _can_go_on(path: Path, config: Mapping[str, Any], until: float) -> bool:
    while True:
        try:
            with ResultJournal(path, config):
                return True
        except BusyError:
            if time.monotonic() > until:
                return False
            time.sleep(_LOOK_EVERY_S)
        except CtvqaError:
            return False


def checks_path(opened: Opened) -> Path:
    """Return a new file for a validation's table in the user's data folder."""
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    folder, stem, number = results_folder(opened), f"validation_{stamp}", 1
    while any(folder.glob(f"{stem}_{number}.csv*")):
        number += 1
    return folder / f"{stem}_{number}.csv"


def keep_answer(
    opened: Opened,
    answerer: Answerer,
    answer_format: AnswerFormat,
    question: Question,
    prediction: Prediction,
    *,
    began: str,
    seen: SeenAnswer | None = None,
) -> Path:
    """Put one answer on disk and return its file, a result file as ``run`` writes them.

    ``began`` tells the files of one window from another's. An answer that is already there is
    never rewritten: asking again, or under another configuration, begins the next file. ``seen``
    is what the model saw and said; it is on disk before the answer.

    Raises
    ------
    CtvqaError
        When the file cannot be written.
    """
    assert opened.benchmark is not None
    config = run_description(answerer, answer_format, "", opened.benchmark.name)
    stem = f"{answerer.name}_{answer_format.value}_single_{began}"
    number = 1
    while True:
        path = results_folder(opened) / f"{stem}_{number}.json"
        try:
            with ResultJournal(path, config) as journal:
                if question.id not in journal:
                    note = "" if seen is None else SeenFiles(path).keep(seen)
                    journal.add(result_row(question, with_note(prediction, note)))
                    journal.write()
                    return path
        except OtherRunError:
            pass
        number += 1


def keep_stopped(
    opened: Opened,
    answerer: Answerer,
    answer_format: AnswerFormat,
    *,
    began: str,
    seen: SeenAnswer,
) -> None:
    """Put on disk what the model of a stopped answer saw and said, beside the window's results.

    It is no answer, so there is no result file of that name and nothing replays it; the next answer
    to the question does not replace it. Nothing is written where nothing was sent, and what cannot
    be written is logged only.
    """
    if opened.benchmark is None or not seen.sent:
        return
    seen.config = run_description(answerer, answer_format, "", opened.benchmark.name)
    stem = f"{answerer.name}_{answer_format.value}_single_{began}_stopped"
    number = 1
    while has_seen(path := results_folder(opened) / f"{stem}_{number}.json", seen.question_id):
        number += 1
    SeenFiles(path).keep(seen)
