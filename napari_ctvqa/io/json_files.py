"""Read JSON, JSON lines and CSV that others wrote: bounded, tolerant, errors that name the line."""

from __future__ import annotations

import codecs
import csv
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.errors import InputFileError

if TYPE_CHECKING:
    from pathlib import Path

MAX_FILE_BYTES = 2 * 1024**3
MAX_LINE_CHARACTERS = 64 * 1024**2
HEAD_BYTES = 256 * 1024
_DECODER = json.JSONDecoder()
_MAX_RESTARTS = 200
_MOST_SHARED = 200_000
_NOT_BLANK = re.compile(r"[^\s\ufeff]")

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class Cells(Mapping[str, str]):
    """One row of a table as a record; all rows share one header, which saves most of the memory."""

    __slots__ = ("_cells", "_places")

    def __init__(self, places: Mapping[str, int], cells: list[str]) -> None:
        self._places = places
        self._cells = cells

    def __getitem__(self, key: str) -> str:
        place = self._places[key]
        if place >= len(self._cells):
            raise KeyError(key)
        return self._cells[place]

    def __iter__(self) -> Iterator[str]:
        return islice(self._places, len(self._cells))

    def __len__(self) -> int:
        return min(len(self._cells), len(self._places))


@dataclass(frozen=True, slots=True)
class Row:
    """One record of a file and the 1-based line it begins on."""

    line: int
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rows:
    """The records that could be read, and a sentence for each that could not."""

    rows: list[Row]
    problems: tuple[str, ...] = ()


def is_file(path: Path) -> bool:
    """Return whether PATH is a file; false, never an error, for what cannot be looked at."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """Return whether PATH is a folder; false, never an error, for what cannot be looked at."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def files_in(folder: Path, *suffixes: str, at_most: int = 500) -> list[Path]:
    """Return the files of a folder with one of these suffixes, sorted; empty when unreadable."""
    try:
        names = sorted(p for p in folder.iterdir() if p.suffix.lower() in suffixes)
    except (OSError, ValueError):
        return []
    return [path for path in names[:at_most] if is_file(path)]


def _encoding(start: bytes) -> str:
    """Return the encoding a file's first bytes speak of; UTF-8 when they say nothing."""
    for bom, name in _BOMS:
        if start.startswith(bom):
            return name
    if len(start) >= 4 and start[1] == 0 and start[3] == 0 and start[0] and start[2]:
        return "utf-16-le"
    if len(start) >= 4 and start[0] == 0 and start[2] == 0 and start[1] and start[3]:
        return "utf-16-be"
    return "utf-8"


def _size_checked(path: Path, max_bytes: int) -> None:
    size = path.stat().st_size
    if size > max_bytes:
        raise InputFileError(
            path,
            f"{size / 1e9:.2f} GB, more than the {max_bytes / 1e9:.2f} GB that are read.",
            hint="Split the file, or give the part you need.",
        )


def read_text(path: Path, *, max_bytes: int = MAX_FILE_BYTES) -> str:
    """Return a text file's content; UTF-8 or, by its byte order mark, UTF-16 and UTF-32.

    Raises
    ------
    InputFileError
        For a file that is absent, unreadable, too large or not text (naming the line).
    """
    try:
        if not is_file(path):
            raise InputFileError(path, "no such file.", hint="Check the path.")
        _size_checked(path, max_bytes)
        content = path.read_bytes()
    except OSError as error:
        raise InputFileError(
            path, f"cannot be read ({error.strerror or error}).", hint="Check the path and rights."
        ) from None
    try:
        return content.decode(_encoding(content[:4]))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputFileError(
            path,
            f"line {line} is not {error.encoding} text (byte {error.start}).",
            hint="Save the file as UTF-8.",
        ) from None


def head_text(path: Path, size: int = HEAD_BYTES) -> str:
    """Return the first characters of a file, for recognising it; empty when it is not text."""
    try:
        if not is_file(path):
            return ""
        with path.open("rb") as file:
            start = file.read(size)
    except OSError:
        return ""
    encoding = _encoding(start[:4])
    if encoding == "utf-8" and b"\x00" in start:
        return ""
    try:
        return codecs.getincrementaldecoder(encoding)().decode(start)
    except UnicodeDecodeError:
        return ""


def parse_json(text: str, path: Path, *, first_line: int = 1) -> Any:
    """Return the JSON data in text.

    Raises
    ------
    InputFileError
        Naming the line (counted from ``first_line``) and column of broken JSON, or what else is
        wrong with it (nested too deeply, a number too long).
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InputFileError(
            path,
            f"broken JSON at line {first_line + error.lineno - 1}, column {error.colno}: "
            f"{error.msg}; valid JSON was expected.",
            hint="Correct that line, or fetch the file again.",
        ) from None
    except RecursionError:
        raise InputFileError(
            path,
            f"JSON from line {first_line} on is nested too deeply to be read.",
            hint="A record here has a few levels; check where the file comes from.",
        ) from None
    except ValueError as error:
        raise InputFileError(
            path,
            f"JSON from line {first_line} on holds a value that cannot be read ({error}).",
            hint="Correct that value.",
        ) from None


def read_json(path: Path, *, max_bytes: int = MAX_FILE_BYTES) -> Any:
    """Return the JSON data of a file. Raises InputFileError naming line and column."""
    text = read_text(path, max_bytes=max_bytes)
    if not text.strip():
        raise InputFileError(
            path, "is empty; JSON was expected.", hint="Fetch or write the file again."
        )
    return parse_json(text, path)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line number, line) for lines that hold something; only a line feed ends a line.

    ``str.splitlines`` would also break at U+2028 and its like, which JSON allows inside strings.
    """
    for number, line in enumerate(text.split("\n"), start=1):
        if line and not line.isspace():
            yield number, line


def is_lines(text: str) -> bool:
    """Return whether a JSON text is one object a line, not one document."""
    begin = _NOT_BLANK.search(text)
    end = text.find("\n", begin.start()) if begin else -1
    if begin is None or end < 0 or _NOT_BLANK.search(text, end) is None:
        return False
    return text[begin.start()] == "{" and text[begin.start() : end].rstrip().endswith("}")


def read_json_lines(path: Path, *, max_bytes: int = MAX_FILE_BYTES) -> Rows:
    """Return the objects of a JSON-lines file; a broken line becomes a problem, never stops.

    Raises
    ------
    InputFileError
        When the file cannot be read, or when none of its lines is an object.
    """
    return json_lines(read_text(path, max_bytes=max_bytes), path)


def json_lines(text: str, path: Path) -> Rows:
    """Return the objects of a text of JSON lines, as ``read_json_lines`` does."""
    rows: list[Row] = []
    problems: list[str] = []
    for number, line in _lines(text):
        value, problem = _object_of_line(line, number, path)
        if problem:
            problems.append(problem)
        else:
            rows.append(Row(number, value))
    if problems and not rows:
        raise InputFileError(path, problems[0].removeprefix(f"{path}: "))
    return Rows(rows, tuple(problems))


def _object_of_line(line: str, number: int, path: Path) -> tuple[Any, str]:
    """Return (object, problem); the problem is empty when the line holds an object."""
    if len(line) > MAX_LINE_CHARACTERS:
        return None, f"{path}: line {number} is longer than {MAX_LINE_CHARACTERS} characters."
    text = line.strip()
    try:
        # Half the time of json.loads, which looks for blanks around each value.
        value, end = _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        end = -1
    if end != len(text):
        try:
            value = parse_json(line, path, first_line=number)
        except InputFileError as error:
            return None, str(error)
    if not isinstance(value, dict):
        return None, f"{path}: line {number} holds {_kind(value)}; an object was expected."
    return value, ""


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a text", bool: "true/false", type(None): "null"}
    return names.get(type(value), "a number")


def _dialect(header: str) -> type[csv.Dialect] | str:
    """Return how a table separates: comma unless the header has more tabs or semicolons."""
    counts = {mark: header.count(mark) for mark in (",", ";", "\t")}
    best = max(counts, key=lambda mark: counts[mark])
    if counts[best] == 0 or best == ",":
        return "excel"

    class Other(csv.excel):
        delimiter = best

    return Other


def read_csv(path: Path, *, max_bytes: int = MAX_FILE_BYTES) -> Rows:
    """Return the rows of a CSV file with a header line; separator comma, semicolon or tab.

    Values are texts; a row shorter than the header lacks the last keys; surplus cells and quotes
    that are not closed make a problem, and reading goes on with the next line. A value that
    repeats is kept once in memory (half a million rows share few cases).

    Raises
    ------
    InputFileError
        When the file cannot be read or has no header.
    """
    problems: list[str] = []
    rows: list[Row] = []
    shared: dict[str, str] = {}
    places: dict[str, int] | None = None
    width = 0
    for line, cells, wrong in _csv_rows(_table_lines(read_text(path, max_bytes=max_bytes))):
        if wrong:
            problems.append(f"{path}: line {line} is not a row of a table ({wrong}).")
        elif places is None:
            width = len(cells)
            places = {name: i for i, name in _first_of_each([cell.strip() for cell in cells])}
        elif len(cells) > width and any(cells[width:]):
            problems.append(
                f"{path}: line {line} has {len(cells)} cells; the header has {width}. "
                "Quote values that hold the separator."
            )
        else:
            if len(shared) > _MOST_SHARED:
                shared.clear()
            kept = cells[:width]
            rows.append(Row(line, Cells(places, list(map(shared.setdefault, kept, kept)))))
    if places is None:
        raise InputFileError(
            path,
            "is empty; a table with a header line was expected." if not problems else problems[0],
            hint="The first line names the columns, e.g. id,case,question,answer.",
        )
    return Rows(rows, tuple(problems))


def _first_of_each(names: list[str]) -> list[tuple[int, str]]:
    """Return (place, name) of the columns; a name that repeats gets its place behind it."""
    seen: set[str] = set()
    found = []
    for place, name in enumerate(names):
        unique = name if name not in seen else f"{name} ({place + 1})"
        seen.add(unique)
        found.append((place, unique))
    return found


def _table_lines(text: str) -> list[str]:
    """Return the lines of a table; only line feeds (or, without any, returns) end a line."""
    mark = "\n" if "\n" in text or "\r" not in text else "\r"
    return text.removeprefix("\ufeff").split(mark)


def _csv_rows(lines: list[str]) -> Iterator[tuple[int, list[str], str]]:
    """Yield (line, cells, what is wrong); a bad row costs its first line only."""
    dialect = _dialect(lines[0] if lines else "")
    begin = restarts = 0
    while begin < len(lines):
        following = (f"{line}\n" for line in islice(lines, begin, None))
        reader = csv.reader(following, dialect=dialect, strict=True)
        at = begin
        try:
            for cells in reader:
                if any(cells):
                    yield at + 1, cells, ""
                at = begin + reader.line_num
            return
        except csv.Error as error:
            yield at + 1, [], str(error)
        begin = at + 1
        restarts += 1
        if restarts > _MAX_RESTARTS:
            yield begin + 1, [], f"reading stops after {_MAX_RESTARTS} rows that are no rows"
            return
