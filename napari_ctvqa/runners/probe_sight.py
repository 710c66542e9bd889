"""What was sent under a probe, made anew to be looked at: no pictures of probes are kept.

A probe is made of the case alone, so it can be made again; it is shown only where the mark of what
was sent then, kept in the probes' file, is that of what is made now.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.assumed import absent_means_none
from napari_ctvqa.core.changed_asks import placed
from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.model_volumes import slice_pictures
from napari_ctvqa.core.probes import ORIGINAL, CannotProbeError
from napari_ctvqa.core.records import AnswerFormat
from napari_ctvqa.extensions import families
from napari_ctvqa.io.append_log import json_line
from napari_ctvqa.io.result_journal import partial_of
from napari_ctvqa.runners.answering import AGENT, ModelAnswerer
from napari_ctvqa.runners.probe_asking import original_of, row_key
from napari_ctvqa.runners.probe_changes import Made, Original, WatchedFamily, changed_for

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping
    from pathlib import Path

    from napari_ctvqa.core.asking import Picture
    from napari_ctvqa.core.cases import Case
    from napari_ctvqa.core.records import Question

_MAX_HEAD = 4 * 1024**2
_MAX_LINE = 64 * 1024**2
TOOLS_ONLY = "Its tools are changed: the pictures that it is sent at first are those of its answer."
NO_MODEL = "No pictures are sent: it is no model that looks."
ANOTHER = (
    "What was sent cannot be made again: this program, its presets or this CT give something else "
    "than was sent then."
)


@dataclass(frozen=True)
class ProbeSight:
    """What one probe sent for one question.

    ``pictures`` have their place in the CT itself. ``changed`` says what the probe did, ``problem``
    why nothing can be shown. ``first_only`` tells that tools made more pictures later.
    """

    question_id: str
    probe: str
    pictures: tuple[Picture, ...] = ()
    changed: str = ""
    problem: str = ""
    first_only: bool = False


def probe_sight(
    path: Path, question: Question, case: Case, probe: str
) -> Generator[ProbeSight, None, None]:
    """Yield what a probe in the file ``path`` sent for a question, once.

    ``case`` is the question's, read whole.
    """
    try:
        yield _made_again(path, question, case, probe)
    except CtvqaError as error:
        yield ProbeSight(question.id, probe, problem=error.message)
    except MemoryError:
        yield ProbeSight(question.id, probe, problem="There is not enough memory to make it again.")


def _made_again(path: Path, question: Question, case: Case, probe: str) -> ProbeSight:
    if probe == "tools_predicted":
        raise CannotProbeError(TOOLS_ONLY)
    head, rows = _kept(path, [row_key(question.id, name) for name in (ORIGINAL, probe)])
    row, first = rows.get(row_key(question.id, probe)), rows.get(row_key(question.id, ORIGINAL))
    config = head.get("config")
    if not isinstance(config, dict) or not isinstance(config.get("preset"), dict):
        raise CannotProbeError(NO_MODEL)
    if row is None or first is None or not row.get("mark"):
        raise CannotProbeError("The file does not say what was sent.")
    answerer = _asked(config)
    if head.get("absent_means_none"):
        case = absent_means_none(case)
    answer_format = AnswerFormat(str(head.get("answer_format")))
    known = original_of(first)
    changed = changed_for(
        probe, question, Original("", "", known.sent), Made(case), answerer, answer_format
    )
    watch = WatchedFamily(answerer.family, changed.change, probe=True)
    prepared = watch.prepare(
        answerer.preset, changed.question, changed.case, answer_format, answerer.settings
    )
    if watch.mark != row["mark"]:
        raise CannotProbeError(ANOTHER)
    moved = changed.change.to_original
    there = prepared if moved is None else placed(prepared, moved)
    volume = there.ask.volume
    pictures = there.ask.pictures + (() if volume is None else slice_pictures(volume))
    if not pictures:
        raise CannotProbeError("No pictures are sent to it for this question.")
    agent = config.get("mode") == AGENT
    return ProbeSight(question.id, probe, pictures, changed.note, first_only=agent)


def _asked(config: Mapping[str, Any]) -> ModelAnswerer:
    """Return who was asked, able to make what is sent and no more.

    An agent's first request is that of a direct answer with tools offered.
    """
    name = str(config["preset"].get("name"))
    family = next((one for one in families().values() if name in one.presets), None)
    if family is None:
        raise CannotProbeError(f"There is no preset {name[:80]!r} here to make it again with.")
    given = config.get("settings")
    settings = {
        key: value
        for key, value in (given if isinstance(given, dict) else {}).items()
        if key not in ("decoding", "confidence")
    }
    if config.get("mode") == AGENT:
        settings["with_tools"] = True
    return ModelAnswerer("", "", family, family.presets[name], _NoWay(), settings=settings)


class _NoWay:
    """A way to run that is never asked."""

    title = host = ""

    def ask(self, *_: object) -> Iterator[Any]:
        raise NotImplementedError

    def close(self) -> None:
        """Hold nothing."""


def _kept(path: Path, keys: list[str]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return a probes' file without its rows, and some of its rows by key.

    Line by line, as we write it, so that a long file is no long work; the journal beside it holds
    what came since, or all of it.
    """
    wanted = {json_line({"qid": key})[1:-1]: key for key in keys}
    head: dict[str, Any] = {}
    rows: dict[str, dict[str, Any]] = {}
    for one in (path, partial_of(path)):
        try:
            file = one.open("rb")
        except OSError:
            continue
        with file:
            first = file.readline(_MAX_HEAD)
            head = head or _head_of(first)
            while line := file.readline(_MAX_LINE):
                key = next((key for mark, key in wanted.items() if mark in line), None)
                row = None if key is None else _object(line.rstrip(b",\n"))
                if key is not None and row is not None and row.get("qid") == key:
                    rows[key] = row
    return head, rows


def _head_of(line: bytes) -> dict[str, Any]:
    """Return what stands before the rows, of a file or of its journal."""
    found = _object(line.rstrip() + b"]}") or _object(line) or {}
    run = found.get("run", found)
    return run if isinstance(run, dict) else {}


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
