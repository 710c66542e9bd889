"""The process that recomputes references: one case a line in, one line of checks out.

Started by ``runners.check_pool``. Both ends speak JSON; it is given file names and questions, and
reads the volumes itself, so that no volume passes through a pipe.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from napari_ctvqa.core.assumed import absent_means_none
from napari_ctvqa.core.cases import Case, CaseFiles, MaskFile, Source
from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.records import AnswerType, Option, Question, Reference
from napari_ctvqa.evidence.chains import wanted_structures
from napari_ctvqa.evidence.check import check, unchecked
from napari_ctvqa.io.reader import read_case

if TYPE_CHECKING:
    from napari_ctvqa.core.checks import ReferenceCheck

logger = logging.getLogger(__name__)

_ASKED = ("id", "case_id", "text", "stage", "subtype", "organ", "lesion")
_POLITE = 10
"""How much a worker in the background gives way to the window."""


def task(
    files: CaseFiles, questions: list[tuple[Question, tuple[str, ...]]], *, assume: bool
) -> dict[str, Any]:
    """Return what a worker needs for one case, as JSON data: questions with their known flaws."""
    return {
        "case": {
            "id": files.case_id,
            "ct": None if files.ct is None else str(files.ct),
            "masks": [[m.name, str(m.path), m.label, m.source.value] for m in files.masks],
        },
        "questions": [[_question_data(q), list(flags)] for q, flags in questions],
        "absent_means_none": assume,
    }


def _question_data(question: Question) -> dict[str, Any]:
    """Return what the evidence looks at; the foreign record stays where it is."""
    return {name: getattr(question, name) for name in _ASKED} | {
        "reference": [question.reference.text, question.reference.letter],
        "options": [[option.letter, option.text] for option in question.options],
        "answer_type": question.answer_type.value,
        "patient": dict(question.patient),
    }


def _question(data: dict[str, Any]) -> Question:
    return Question(
        **{name: data[name] for name in _ASKED},
        reference=Reference(*data["reference"]),
        options=tuple(Option(*option) for option in data["options"]),
        answer_type=AnswerType(data["answer_type"]),
        patient=data["patient"],
    )


def _files(data: dict[str, Any]) -> CaseFiles:
    masks = tuple(
        MaskFile(name, Path(path), label, Source(source))
        for name, path, label, source in data["masks"]
    )
    return CaseFiles(data["id"], None if data["ct"] is None else Path(data["ct"]), masks)


def work(task: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the checks of one task; a case that cannot be read fails its questions alone."""
    asked = [(_question(data), tuple(flags)) for data, flags in task["questions"]]
    files = _files(task["case"])
    wanted = dict.fromkeys(name for question, _ in asked for name in wanted_structures(question))
    try:
        case = read_case(files, wanted=tuple(wanted), threads=1)
    except (CtvqaError, OSError, ValueError, MemoryError) as error:
        return [asdict(unchecked(question, sentence(error))) for question, _ in asked]
    if task["absent_means_none"]:
        case = absent_means_none(case)
    return [asdict(_checked(question, case, flags)) for question, flags in asked]


def _checked(question: Question, case: Case, flags: tuple[str, ...]) -> ReferenceCheck:
    try:
        return check(question, case, flags)
    except Exception as error:  # whatever one record holds, the others are checked
        logger.exception("%s could not be checked", question.id)
        return unchecked(question, sentence(error))


def sentence(error: BaseException) -> str:
    """Return an exception as a sentence."""
    if isinstance(error, CtvqaError):
        return str(error)
    return f"{type(error).__name__}: {error}".rstrip(": ")


def main() -> None:
    """Serve tasks until the input ends."""
    answers = _own_output()
    if "--polite" in sys.argv and hasattr(os, "nice"):
        os.nice(_POLITE)
    with suppress(BrokenPipeError):  # whoever asked is gone
        for line in sys.stdin.buffer:
            answers.write(json.dumps(work(json.loads(line))).encode("ascii") + b"\n")
            answers.flush()


def _own_output() -> BinaryIO:
    """Keep stdout for answers; whatever a library prints goes to stderr."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers
