"""What a PATH is, by content: a case, a CT, a benchmark folder or a question file."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core import where
from napari_ctvqa.core.errors import AmbiguousError, CtvqaError, InputFileError, NotFoundError
from napari_ctvqa.extensions import benchmarks
from napari_ctvqa.io import user_config
from napari_ctvqa.io.case_files import find_case
from napari_ctvqa.io.file_kinds import FileKind, kind_of
from napari_ctvqa.io.json_files import files_in, is_file, is_folder
from napari_ctvqa.io.tool_cache import is_tool_cache

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ctvqa.core.cases import CaseFiles
    from napari_ctvqa.core.ports import Benchmark
    from napari_ctvqa.core.questions import QuestionSet
    from napari_ctvqa.core.records import Run

CASE, QUESTIONS = "case", "questions"
_NIFTI_MAGIC = (b"n+1\x00", b"ni1\x00", b"n+2\x00", b"ni2\x00")


@dataclass(frozen=True)
class Opened:
    """What a PATH turned out to be.

    ``kind`` is ``"case"`` (then ``benchmark`` and ``questions`` are None) or ``"questions"``.
    ``roots`` are the extra folders in which cases are looked for, the newest first.
    """

    kind: str
    path: Path
    benchmark: Benchmark | None = None
    questions: QuestionSet | None = None
    roots: tuple[Path, ...] = ()

    def case_files(self, case_id: str | None = None) -> CaseFiles:
        """Return the files of a case; without an id, of the case that PATH itself is.

        Raises
        ------
        NotFoundError
            When CT or case cannot be found, saying where it was looked for.
        """
        if self.benchmark is None:
            return find_case(self.path, case_id)
        if case_id is None:
            raise NotFoundError(
                f"{self.path} is a set of questions about many cases.", hint="Name the case."
            )
        return self.benchmark.case_files(case_id, self.path, self.roots)

    def found_results(self) -> tuple[Path, ...]:
        """Return prediction files that lie beside the questions in the benchmark's layout."""
        if self.benchmark is None:
            return ()
        return tuple(self.benchmark.found_results(self.path))

    def read_results(self, path: Path) -> Run:
        """Read predictions. Raises CtvqaError naming file, line or key."""
        if self.benchmark is None or self.questions is None:
            raise CtvqaError(
                f"{self.path} is a case without questions; results have nothing to belong to.",
                hint="Open the benchmark's folder or question file.",
            )
        try:
            run = self.benchmark.results(path, self.questions)
        except InputFileError:
            _refuse_other(path)
            if is_file(path) and any(one.recognises(path) for one in benchmarks().values()):
                raise InputFileError(
                    path,
                    "holds questions; the answers of a run were expected.",
                    hint="Give a file that run wrote, or a model's predictions.",
                ) from None
            raise
        if not any(key in self.questions.row_of for key in run.predictions):
            _refuse_other(path)
        return run

    def with_roots(self, *roots: Path) -> Opened:
        """Return this with more case roots in front, remembered for the benchmark."""
        checked = _checked_roots(roots)
        if self.benchmark is not None:
            user_config.remember_roots(self.benchmark.name, checked)
        return replace(self, roots=tuple(dict.fromkeys((*checked, *self.roots))))


def open_path(path: Path, *, benchmark: str | None = None, roots: Sequence[Path] = ()) -> Opened:
    """Open what PATH is.

    Parameters
    ----------
    path
        A case folder, a CT file, a benchmark's folder or a question file.
    benchmark
        The name of a benchmark, to force it.
    roots
        Folders that hold volumes and masks; remembered for that benchmark.

    Raises
    ------
    NotFoundError
        When PATH or the named benchmark does not exist.
    AmbiguousError
        When PATH could be several things, listing them.
    InputFileError
        When PATH is none of them, or cannot be read.
    """
    path = Path(path)
    given = _checked_roots(roots)
    if not (is_file(path) or is_folder(path)):
        raise NotFoundError(
            f"{path}: no such file or folder.", hint="Check the path; quote it if it has blanks."
        )
    chosen = _named(benchmark) if benchmark is not None else _by_content(path)
    if chosen is None:
        return Opened(CASE, path, roots=given)
    if given:
        user_config.remember_roots(chosen.name, given)
    remembered = user_config.remembered_roots(chosen.name)
    questions = chosen.questions(path)
    where.prepare(questions)
    return Opened(QUESTIONS, path, chosen, questions, tuple(dict.fromkeys((*given, *remembered))))


def _checked_roots(roots: Sequence[Path]) -> tuple[Path, ...]:
    for root in roots:
        if not is_folder(Path(root)):
            raise NotFoundError(
                f"{root}: no such folder of cases.", hint="Give an existing folder to --cases."
            )
    return tuple(Path(root).absolute() for root in roots)


def _named(name: str) -> Benchmark:
    known: dict[str, Any] = benchmarks()
    if name not in known:
        raise NotFoundError(
            f"no benchmark is called {name!r}; there are {', '.join(sorted(known))}.",
            hint="Give one of these to --benchmark, or leave it away.",
        )
    chosen: Benchmark = known[name]
    return chosen


def _by_content(path: Path) -> Benchmark | None:
    """Return the one benchmark PATH is of, or None when it is a case."""
    if is_file(path) and _is_volume(path):
        return None
    found = [b for b in benchmarks().values() if b.recognises(path)]
    special = [b for b in found if not getattr(b, "generic", False)]
    found = special or found
    case = is_folder(path) and _is_case_folder(path)
    if len(found) + case > 1:
        names = [f"{b.title} (--benchmark {b.name})" for b in found]
        names += ["a case folder (give its CT file)"] if case else []
        raise AmbiguousError(
            f"{path} could be {' or '.join(names)}.", hint="Choose with --benchmark NAME."
        )
    if found:
        only: Benchmark = found[0]
        return only
    if case:
        return None
    raise _unrecognised(path)


def _refuse_other(path: Path) -> None:
    """Raise where a file that holds no answers to the questions is one of another kind."""
    kind = kind_of(path)
    if kind is not None and kind is not FileKind.RESULTS:
        raise InputFileError(
            path,
            f"{kind.holds}; the answers of a run were expected.",
            hint=f"Give a file that run wrote. {kind.use}".strip(),
        )


def _unrecognised(path: Path) -> CtvqaError:
    titles = ", ".join(b.title for b in benchmarks().values())
    kind = kind_of(path) if is_file(path) else None
    if kind is not None and kind is not FileKind.RESULTS:
        return InputFileError(
            path,
            f"{kind.holds}; questions or a case were expected.",
            hint=f"Give the benchmark's folder or question file. {kind.use}".strip(),
        )
    if is_tool_cache(path):
        return InputFileError(
            path,
            "is a tool cache: what an agent's tools returned, not questions.",
            hint="Give the benchmark's folder or question file.",
        )
    for benchmark in benchmarks().values():
        if is_file(path) and benchmark.recognises_results(path):
            return InputFileError(
                path,
                f"holds predictions ({benchmark.title}), not questions.",
                hint="Give the questions as PATH and this file as results.",
            )
    case = next((c for c in _folders_in(path) if _is_case_folder(c)), None)
    if case is not None:
        return InputFileError(
            path,
            f"holds case folders ({case.name}, …), it is no case and has no questions.",
            hint="Open one of them, or give this folder with --cases to a benchmark.",
        )
    return InputFileError(
        path,
        f"is neither a case (ct.nii.gz, segmentations/) nor questions of {titles}.",
        hint="A table of your own needs the columns id, case, question, answer.",
    )


def _folders_in(folder: Path) -> list[Path]:
    """Return the first folders inside, and those in image_only/, where a root of cases has it."""
    found: list[Path] = []
    for place in (folder, folder / "image_only"):
        try:
            found += [inner for inner in islice(place.iterdir(), 50) if is_folder(inner)]
        except (OSError, ValueError):
            continue
    return sorted(found)


def _is_case_folder(folder: Path) -> bool:
    """Return whether a folder holds a CT or masks itself."""
    if is_folder(folder / "segmentations"):
        return True
    return bool(files_in(folder, ".nii") or _gzipped_volumes(folder))


def _gzipped_volumes(folder: Path) -> list[Path]:
    return [f for f in files_in(folder, ".gz") if f.name.lower().endswith(".nii.gz")]


def _is_volume(path: Path) -> bool:
    """Return whether a file is NIfTI by its header, or says so by its name."""
    if path.name.lower().endswith((".nii", ".nii.gz")):
        return True
    try:
        with path.open("rb") as file:
            start = file.read(8192)
    except OSError:
        return False
    if start[:2] == b"\x1f\x8b":
        try:
            start = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(start, 1024)
        except (zlib.error, gzip.BadGzipFile):
            return False
    return start[344:348] in _NIFTI_MAGIC or start[4:8] in _NIFTI_MAGIC
