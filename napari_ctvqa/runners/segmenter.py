"""TotalSegmentator as a live segmenter: a program of its own, outside this process.

It is started as ``TotalSegmentator -i CT -o FOLDER -ta total -rs liver spleen …`` (its
``bin/TotalSegmentator.py``), writes one ``<class>.nii.gz`` for each structure, and tells how far it
is on stderr as tqdm does, a line rewritten after a carriage return. Stopping it ends its whole
process group: nnU-Net starts workers of its own.

By default it sends usage statistics to its makers. Here it gets a home folder of its own in which
that is switched off; the person's weights are used from where they are.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Generator, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, BinaryIO

from napari_ctvqa.core.cases import Mask
from napari_ctvqa.core.errors import CtvqaError, NotFoundError
from napari_ctvqa.core.segmenting import (
    TOTALSEGMENTATOR,
    Segmented,
    SegmentProgress,
    caveat,
    classes,
    segmentable,
    with_segmented,
)
from napari_ctvqa.io.reader import read_masks
from napari_ctvqa.io.segmentations import (
    SUFFIX,
    SegmentationFolder,
    cache_root,
    chosen_executable,
    folder_for,
    kept,
)

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Case

TASK = "total"
TOLD_EVERY_S = 0.2
TERMINATE_S = 3.0
VERSION_S = 120.0
"""It imports torch before it says its version; a cold disk needs a minute."""
_TAIL = 4000
_PERCENT = re.compile(r"(\d{1,3})%\|")
_VERSION = re.compile(r"\d+(?:\.\w+)*")
_INSTALL = (
    "Install it with: pip install napari-ctvqa[segment], or name the program of another "
    "environment with --executable."
)


@dataclass(frozen=True, slots=True)
class SegmenterSettings:
    """How it is run: which program (empty: the one that is installed), ``device``, fast or not.

    ``device`` is ``gpu``, ``cpu``, ``mps`` or ``gpu:1``; without a GPU it runs on the CPU.
    ``fast`` takes the 3 mm model.
    """

    executable: str = ""
    device: str = "gpu"
    fast: bool = False


def find_executable(settings: SegmenterSettings | None = None) -> str:
    """Return the program: the one named, the one chosen earlier, or the one that is installed.

    Raises
    ------
    NotFoundError
        When there is none.
    """
    named = (settings.executable if settings else "") or chosen_executable()
    if named:
        found = shutil.which(named)
        if found is None:
            raise NotFoundError(f"{named} is no program that can be started.", hint=_INSTALL)
        return found
    beside = Path(sys.executable).parent
    found = shutil.which(TOTALSEGMENTATOR, path=str(beside)) or shutil.which(TOTALSEGMENTATOR)
    if found is None:
        raise NotFoundError(f"{TOTALSEGMENTATOR} is not installed.", hint=_INSTALL)
    return found


def segment(
    ct: Path,
    structures: Iterable[str],
    settings: SegmenterSettings | None = None,
    *,
    again: bool = False,
) -> Generator[SegmentProgress, None, Segmented]:
    """Segment structures of a CT, yielding how far it is; return what there is then.

    What the same version has already made of this CT is not made again, unless ``again``. Closing
    the generator ends the program and everything it started, and keeps nothing.

    Raises
    ------
    NotFoundError
        When the program, the CT or a structure that it knows is not there.
    CtvqaError
        When it fails, with what it said and what to do.
    """
    settings = settings or SegmenterSettings()
    executable = find_executable(settings)
    wanted, unknown = segmentable(structures)
    if not wanted:
        raise NotFoundError(
            f"{TOTALSEGMENTATOR} segments none of: {', '.join(unknown)[:300]}.",
            hint="It knows organs, vessels, bones and muscles by their names, no lesions.",
        )
    if not ct.is_file():
        raise NotFoundError(f"{ct} is not there.", hint="Give a case folder or a CT file.")
    began = time.monotonic()
    yield SegmentProgress(f"asking {TOTALSEGMENTATOR} for its version")
    version = yield from _version(executable, began)
    task = f"{TASK}_fast" if settings.fast else TASK
    place = folder_for(ct, TOTALSEGMENTATOR, version, task)
    there = set() if again else set(place.structures())
    to_do = [structure for structure in wanted if structure not in there]
    if to_do:
        yield from _make(executable, ct, to_do, settings, place, began)
    made = [structure for structure in wanted if structure in place.structures()]
    missing = [*unknown, *(structure for structure in wanted if structure not in made)]
    if not made:
        raise CtvqaError(
            f"{TOTALSEGMENTATOR} ended without a mask of {', '.join(wanted)[:200]}.",
            hint="Run it by hand on this CT to see what it says, or update it.",
        )
    spent = time.monotonic() - began
    return Segmented(TOTALSEGMENTATOR, version, tuple(made), tuple(missing), spent)


def segment_steps(
    ct: Path, structures: Iterable[str], settings: SegmenterSettings | None = None
) -> Generator[SegmentProgress | Segmented, None, None]:
    """Yield what ``segment`` yields, and at last what it returns."""
    yield (yield from segment(ct, structures, settings))


def _make(
    executable: str,
    ct: Path,
    structures: list[str],
    settings: SegmenterSettings,
    place: SegmentationFolder,
    began: float,
) -> Generator[SegmentProgress, None, None]:
    """Run the program into a folder of its own, and keep the masks that it finished."""
    by_structure = classes()
    asked = [by_structure[structure] for structure in structures]
    try:
        cache_root().mkdir(parents=True, exist_ok=True)
        folder = tempfile.TemporaryDirectory(
            prefix=".making-", dir=cache_root(), ignore_cleanup_errors=True
        )
    except OSError as error:
        raise CtvqaError(
            f"Masks cannot be written to {cache_root()}: {error.strerror or error}.",
            hint="Free some space, or name another folder in NAPARI_CTVQA_CACHE.",
        ) from error
    with folder:
        out = Path(folder.name) / "masks"
        command = [executable, "-i", str(ct), "-o", str(out), "-ta", TASK]
        command += ["-d", settings.device, "-nr", "1", "-ns", "1"]
        command += ["-f"] if settings.fast else []
        command += ["-rs", *asked]
        yield from _followed(command, _environment(Path(folder.name)), began)
        finished = [path for name in asked if (path := out / f"{name}{SUFFIX}").is_file()]
        place.take(finished)


def _version(executable: str, began: float) -> Generator[SegmentProgress, None, str]:
    """Return what the program calls its version; ``unknown`` where that is no version."""
    said: list[str] = []
    waiting = _followed([executable, "--version"], _environment(None), began, said, VERSION_S)
    for _ in waiting:
        yield SegmentProgress(f"asking {TOTALSEGMENTATOR} for its version", None, _since(began))
    found = _VERSION.search("".join(said))
    return found[0][:40] if found else "unknown"


def _environment(home: Path | None) -> Mapping[str, str]:
    """Return the program's variables: no statistics sent, one core left for the window."""
    variables = dict(os.environ)
    for name in ("PYTHONHOME", "PYTHONPATH"):
        variables.pop(name, None)  # they speak of our interpreter's libraries
    cores = max(1, (os.cpu_count() or 2) - 1)
    variables |= {"OMP_NUM_THREADS": str(cores), "PYTHONUNBUFFERED": "1", "PYTHONUTF8": "1"}
    if home is not None:
        own = home / "home"
        own.mkdir()
        quiet = {"totalseg_id": "none", "send_usage_stats": False, "prediction_counter": 0}
        quiet["statistics_disclaimer_shown"] = True
        (own / "config.json").write_text(json.dumps(quiet), encoding="utf-8")
        variables.setdefault("TOTALSEG_WEIGHTS_PATH", str(_weights()))
        variables["TOTALSEG_HOME_DIR"] = str(own)
    return variables


def _weights() -> Path:
    """Return where the person's weights are, as the program itself finds them."""
    own = os.environ.get("TOTALSEG_HOME_DIR")
    return (Path(own) if own else Path.home() / ".totalsegmentator") / "nnunet" / "results"


def _followed(
    command: list[str],
    environment: Mapping[str, str],
    began: float,
    said: list[str] | None = None,
    limit_s: float | None = None,
) -> Generator[SegmentProgress, None, None]:
    """Run a program to its end, yielding at least five times a second.

    Raises
    ------
    CtvqaError
        When it cannot be started, fails, or is slower than ``limit_s``.
    """
    process = _started(command, environment)
    _running.add(process)
    lines: SimpleQueue[str | None] = SimpleQueue()
    assert process.stdout is not None
    threading.Thread(
        target=_read, args=(process.stdout, lines), name="segmenter", daemon=True
    ).start()
    now, tail = SegmentProgress("started"), ""
    ended = False
    try:
        while not ended:
            line: str | None = ""
            try:
                line = lines.get(timeout=TOLD_EVERY_S)
                ended = line is None
            except Empty:
                # workers that outlive a crash keep the pipe open: its end alone is not waited for
                ended = _has_ended(process)
            if line:
                tail = (tail + line + "\n")[-_TAIL:]
                now = _heard(line, now)
                if said is not None:
                    said.append(line)
            if limit_s is not None and _since(began) > limit_s:
                raise CtvqaError(
                    f"{command[0]} says nothing for {limit_s:.0f} s.",
                    hint="Start it by hand: TotalSegmentator --version has to print its version.",
                )
            yield replace(now, seconds=_since(began))
    finally:
        end_group(process)
        _running.discard(process)
    if process.returncode:
        raise _failed(command[0], process.returncode, tail)


_running: set[subprocess.Popen[bytes]] = set()
"""Programs at work. A window that is closed takes them along: its threads end without a word."""


@atexit.register
def _end_all() -> None:
    for process in tuple(_running):
        _signal_group(process, _KILL)


def _started(command: list[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,  # a group of its own, to end all that it starts
        )
    except OSError as error:
        raise NotFoundError(
            f"{command[0]} cannot be started: {error.strerror or error}.", hint=_INSTALL
        ) from error


def _read(stream: BinaryIO, lines: SimpleQueue[str | None]) -> None:
    """Put every line in the queue, also those that a carriage return rewrites; None at the end."""
    rest = b""
    with suppress(OSError, ValueError):
        while chunk := os.read(stream.fileno(), 4096):
            *whole, rest = re.split(rb"[\r\n]", (rest + chunk)[-65536:])
            for line in whole:
                lines.put(line.decode("utf-8", "replace"))
    lines.put(rest.decode("utf-8", "replace"))
    lines.put(None)


def _heard(line: str, before: SegmentProgress) -> SegmentProgress:
    """Return what a line says of how far the program is; a bar keeps the words before it."""
    text = " ".join("".join(x if x.isprintable() else " " for x in line).split())
    bar = _PERCENT.search(text)
    if bar:
        return replace(before, share=min(1.0, int(bar[1]) / 100))
    return SegmentProgress(text[:120], None) if text else before


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a program and everything it started: asked first, then killed.

    The program itself is only taken note of at the end: until then its number, which is the
    group's, cannot be another's.
    """
    _signal_group(process, signal.SIGTERM)
    until = time.monotonic() + TERMINATE_S
    while not _has_ended(process) and time.monotonic() < until:
        time.sleep(0.02)
    _signal_group(process, _KILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Return whether a program has ended, without taking note of it where the system can."""
    if not hasattr(os, "waitid"):
        return process.poll() is not None
    with suppress(ChildProcessError):
        how = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, process.pid, how) is not None
    return True


_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)


def _signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    if hasattr(os, "killpg"):
        # the group outlives the one that leads it: workers of a program that crashed go too
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
    elif process.poll() is None:
        process.send_signal(number)


def _failed(program: str, code: int, tail: str) -> CtvqaError:
    """Return the sentence that says why a program failed, from its code and last words."""
    lines = [" ".join(line.split()) for line in tail.splitlines() if line.strip()]
    last = next((line for line in reversed(lines) if not _PERCENT.search(line)), "")[:300]
    if "out of memory" in tail:
        return CtvqaError(f"{program}: {last}", hint="Give --device cpu or --fast.")
    if code == -_KILL or "MemoryError" in tail:
        return CtvqaError(
            f"{program} was killed, likely for want of memory.",
            hint="Close other programs, or give --fast, which needs less.",
        )
    if any(word in tail for word in ("ConnectionError", "Max retries", "URLError")):
        return CtvqaError(
            f"{program} could not fetch its weights.",
            hint="Run totalseg_download_weights once where there is a network.",
        )
    how = f"signal {-code}" if code < 0 else f"code {code}"
    return CtvqaError(
        f"{program} ended with {how}{f': {last}' if last else ''}.",
        hint="Run it by hand on this CT to see all it says.",
    )


def _since(began: float) -> float:
    return time.monotonic() - began


def add_segmented(case: Case, wanted: Collection[str] | None = None) -> Case:
    """Return a case with the masks that were made of its CT, where it has no file of a structure.

    ``wanted`` names the structures that are read, all unless given. Nothing is segmented here; the
    case comes back as it is where no mask was made.
    """
    place = kept(case.files.ct) if case.files.ct is not None else None
    if place is None:
        return case
    files = replace(case.files, masks=place.masks())
    read = [
        found for found in read_masks(files, case.volume, wanted=wanted) if isinstance(found, Mask)
    ]
    return with_segmented(case, read, caveat(place.program, place.version))
