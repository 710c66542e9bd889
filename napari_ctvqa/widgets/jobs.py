"""Jobs: one slot for each kind of work; what comes too late is dropped."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from napari_ctvqa.widgets.background import Job

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


class Jobs:
    """Runs generators in the background, one a slot.

    Starting a slot again cancels the former, and items of a former Job are dropped, so that a
    late answer never appears under another question.

    Parameters
    ----------
    on_failed
        Called in the GUI thread with an exception, where a start names nothing else.
    """

    def __init__(self, on_failed: Callable[[BaseException], None]) -> None:
        self._on_failed = on_failed
        self._jobs: dict[str, Job] = {}

    def start(
        self,
        slot: str,
        items: Generator[Any, None, None],
        on_item: Callable[[Any], None],
        on_failed: Callable[[BaseException], None] | None = None,
        on_ended: Callable[[], None] | None = None,
    ) -> None:
        """Run ``items``; the handlers are called in the GUI thread while the slot is theirs."""
        former = self._jobs.pop(slot, None)
        if former is not None:
            former.cancel()
        job = Job(items)
        self._jobs[slot] = job
        job.item.connect(partial(self._if_current, slot, job, on_item))
        job.failed.connect(partial(self._if_current, slot, job, on_failed or self._on_failed))
        job.ended.connect(partial(self._ended, slot, job, on_ended))
        job.start()

    def _if_current(self, slot: str, job: Job, handler: Callable[[Any], None], item: Any) -> None:
        if self._jobs.get(slot) is job:
            handler(item)

    def _ended(self, slot: str, job: Job, on_ended: Callable[[], None] | None) -> None:
        if self._jobs.get(slot) is not job:
            return
        del self._jobs[slot]
        if on_ended is not None:
            on_ended()

    def cancel(self, slot: str) -> None:
        """Stop what runs in a slot at its next item; nothing of it is delivered any more."""
        job = self._jobs.pop(slot, None)
        if job is not None:
            job.cancel()

    @property
    def busy(self) -> bool:
        """Return whether anything asked for is still being read, computed or answered."""
        return bool(self._jobs)

    def __contains__(self, slot: str) -> bool:
        return slot in self._jobs

    def close(self) -> None:
        """Stop everything."""
        for slot in tuple(self._jobs):
            self.cancel(slot)
