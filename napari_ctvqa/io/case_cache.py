"""Cases that were just read, and the one that comes next, kept in memory.

A reader goes back and forth between the cases of a list; a case is inflated once, and the next
one while the present one is read. Kept cases are dropped, least recently shown first, when they
take more than the budget; a case whose files changed on disk is read again.
"""

from __future__ import annotations

import logging
import os
from collections import OrderedDict
from contextlib import closing
from threading import Condition, Lock, Thread
from typing import TYPE_CHECKING

import numpy as np

from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.io.reader import open_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from napari_ctvqa.core.cases import Case, CaseFiles

logger = logging.getLogger(__name__)

MAX_BUDGET_BYTES = 3 << 29
"""1.5 GiB, about four cases of 512 x 512 x 300 with 40 masks; less on a small machine."""

Key = tuple[object, ...]


class CaseCache:
    """Opens cases through memory; safe to use from several threads."""

    def __init__(self, budget_bytes: int | None = None) -> None:
        self._budget = _default_budget() if budget_bytes is None else budget_bytes
        self._cases: OrderedDict[Key, Case] = OrderedDict()
        self._lock = Lock()
        self._ahead: _Ahead | None = None

    def open_steps(
        self, files: CaseFiles, *, first: Sequence[str] = ()
    ) -> Generator[Case, None, None]:
        """Yield what ``reader.open_steps`` yields: at once and complete for a kept case.

        A case that is being read ahead is yielded as far as it is, then as it fills.

        Raises
        ------
        InputFileError, NotFoundError
            When the CT cannot be used.
        """
        key = _key(files)
        kept = self._kept(key)
        if kept is not None:
            yield kept
            return
        ahead = self._ahead
        if ahead is not None and ahead.key != key:
            ahead.stop()  # what a person waits for has the processor to itself
        elif ahead is not None:
            complete = False
            for case in ahead.follow():
                complete = case.complete
                yield case
            if complete:
                return
        with closing(open_steps(files, first=first)) as steps:
            for case in steps:
                if case.complete:
                    self._keep(key, case)
                yield case

    def read_ahead(self, files: CaseFiles) -> None:
        """Begin to read a case in the background; at most one, the latest asked for.

        A case that cannot be read says so when it is opened.
        """
        key = _key(files)
        with self._lock:
            if key in self._cases or (self._ahead is not None and self._ahead.usable(key)):
                return
            if self._ahead is not None:
                self._ahead.stop()
            self._ahead = _Ahead(key, files, self._keep)

    def close(self) -> None:
        """Stop reading ahead and let go of all cases."""
        with self._lock:
            if self._ahead is not None:
                self._ahead.stop()
            self._ahead = None
            self._cases.clear()

    def _kept(self, key: Key) -> Case | None:
        with self._lock:
            case = self._cases.get(key)
            if case is not None:
                self._cases.move_to_end(key)
            return case

    def _keep(self, key: Key, case: Case) -> None:
        with self._lock:
            self._cases[key] = case
            self._cases.move_to_end(key)
            while (
                len(self._cases) > 1 and sum(map(case_bytes, self._cases.values())) > self._budget
            ):
                self._cases.popitem(last=False)


class _Ahead:
    """One case that is read in a thread of its own before anybody asks for it."""

    def __init__(self, key: Key, files: CaseFiles, keep: Callable[[Key, Case], None]) -> None:
        self.key = key
        self._files, self._keep = files, keep
        self._news = Condition()
        self._latest: Case | None = None
        self._ended = self._stopped = False
        Thread(target=self._run, name="case-ahead", daemon=True).start()

    def follow(self) -> Generator[Case, None, None]:
        """Yield the case as it fills, until it is complete, or reading it failed or stopped."""
        seen: Case | None = None
        while True:
            with self._news:
                while self._latest is seen and not self._ended:
                    self._news.wait()
                latest, ended = self._latest, self._ended
            if latest is not None and latest is not seen:
                seen = latest
                yield latest
            elif ended:
                return

    def usable(self, key: Key) -> bool:
        """Return whether this is reading that case."""
        return self.key == key and not self._stopped and not self._ended

    def stop(self) -> None:
        """Stop at the next step."""
        self._stopped = True

    def _run(self) -> None:
        try:
            with closing(open_steps(self._files, threads=1)) as steps:
                for case in steps:
                    self._tell(case)
                    if self._stopped:
                        return
        except CtvqaError as error:
            # Whoever opens the case reads it again and is told then.
            logger.info("reading ahead: %s", error)
        except Exception:
            # The outermost frame of a thread.
            logger.exception("reading ahead failed")
        finally:
            with self._news:
                self._ended = True
                self._news.notify_all()

    def _tell(self, case: Case) -> None:
        if case.complete and not self._stopped:
            self._keep(self.key, case)
        with self._news:
            self._latest = case
            self._news.notify_all()


def case_bytes(case: Case) -> int:
    """Return how much memory a case's arrays take; views of one array count once."""
    regions = [r for m in case.masks.values() for r in (m.region, m.own_region)]
    arrays = [
        case.volume.array_zyx,
        case.volume.display_zyx,
        *(label_map.array_zyx for label_map in case.label_maps.values()),
        *(region.crop_zyx for region in regions if region.crop_zyx is not None),
    ]
    owners = {id(owner): owner for owner in map(_owner, arrays)}
    return sum(owner.nbytes for owner in owners.values())


def _owner(array: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _key(files: CaseFiles) -> Key:
    """Return what tells a case on disk from another, and from itself after a change."""
    paths = {mask.path for mask in files.masks} | ({files.ct} if files.ct else set())
    masks = tuple((m.name, m.path, m.label, m.source) for m in files.masks)
    return (files.case_id, masks, *(_stamp(path) for path in sorted(paths)))


def _stamp(path: Path) -> tuple[Path, int, int]:
    try:
        found = path.stat()
    except OSError:
        return path, -1, -1
    return path, found.st_mtime_ns, found.st_size


def _default_budget() -> int:
    """Return a quarter of the machine's memory, at most ``MAX_BUDGET_BYTES``."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return MAX_BUDGET_BYTES
    return min(MAX_BUDGET_BYTES, memory // 4)
