"""What a worker of a cluster does: JSON in, JSON out; it reads the case files itself.

Called by ``runners.cluster`` through dask, which names these functions by module and name.
"""

from __future__ import annotations

import json
import tempfile
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from napari_ctvqa import __version__
from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.records import AnswerFormat, Prediction
from napari_ctvqa.io.check_table import rules_stamp
from napari_ctvqa.io.json_files import is_file, is_folder
from napari_ctvqa.io.seen_moving import Moved, packed
from napari_ctvqa.io.seen_writing import SeenFiles
from napari_ctvqa.runners import check_worker
from napari_ctvqa.runners.batch import GaveUpError, asked_of, result_row, software_of
from napari_ctvqa.runners.choices import Wanted, answerer_for
from napari_ctvqa.runners.opening import open_path

if TYPE_CHECKING:
    from napari_ctvqa.runners.opening import Opened

_one_at_a_time = Lock()
"""A model answers one question at a time, also where a worker has several threads."""


def look(path: str) -> dict[str, Any]:
    """Return this worker's version and rules, and whether it finds a path."""
    there = is_file(Path(path)) or is_folder(Path(path))
    return {"version": __version__, "rules": rules_stamp(), "there": there}


# ---------------------------------------------------------------------------------- validating


def checks(task: str) -> str:
    """Return the checks of one case (``check_worker.work``).

    Raises
    ------
    CtvqaError
        When this worker does not find the CT.
    """
    data = json.loads(task)
    ct = data["case"]["ct"]
    if ct is not None and not is_file(Path(ct)):
        raise not_found(ct)
    return json.dumps(check_worker.work(data))


def can_check(task: str) -> str:
    """Return why checks cannot be made here: nothing is known that would stop them."""
    del task
    return ""


def not_found(path: str) -> CtvqaError:
    """Return the error of a worker that lacks a file which the client sees."""
    return CtvqaError(
        f"a worker does not find {path}.",
        hint="Workers read the files themselves: they must lie at the same path there.",
    )


# ----------------------------------------------------------------------------------- answering


def can_answer(task: str) -> str:
    """Return why questions cannot be answered here; empty where they can be tried."""
    data = json.loads(task)
    try:
        _answerer(json.dumps(data["opened"]), json.dumps(data["wanted"]))
    except CtvqaError as error:
        return str(error)
    return ""


def answers(task: str) -> tuple[str, Moved]:
    """Answer some questions of one case; return their rows as JSON, and what the model saw.

    Raises
    ------
    CtvqaError
        When this worker cannot answer at all, so that another may try.
    """
    data = json.loads(task)
    with _one_at_a_time, tempfile.TemporaryDirectory(prefix="ctvqa-") as folder:
        opened_key, wanted_key = json.dumps(data["opened"]), json.dumps(data["wanted"])
        opened, answerer = _opened(opened_key), _answerer(opened_key, wanted_key)
        ct = opened.case_files(data["case_id"]).ct
        if ct is not None and not is_file(ct):
            raise not_found(str(ct))
        seen = SeenFiles(Path(folder) / "r.json", pictures=data["pictures"])
        said = asked_of(
            opened,
            answerer,
            AnswerFormat(data["answer_format"]),
            data["rows"],
            assume_none=data["assume_none"],
            segmented=data["segmented"],
            seen=seen,
        )
        rows = []
        try:
            for question, item in said:
                if isinstance(item, Prediction):
                    rows.append(result_row(question, item))
        except GaveUpError as error:
            raise CtvqaError(error.message, hint=error.hint) from None
        software = software_of(answerer)
        return json.dumps({"rows": rows, "software": software}), packed(seen.folder)


@lru_cache(maxsize=4)
def _opened(opened: str) -> Opened:
    data = json.loads(opened)
    roots = tuple(Path(root) for root in data["roots"])
    found = open_path(Path(data["path"]), benchmark=data["benchmark"])
    return type(found)(found.kind, found.path, found.benchmark, found.questions, roots)


@lru_cache(maxsize=1)
def _answerer(opened: str, wanted: str) -> Any:
    data = json.loads(wanted)
    predicted = tuple(Path(root) for root in data.pop("predicted"))
    return answerer_for(Wanted(**data, predicted=predicted), _opened(opened))
