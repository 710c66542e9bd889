"""Many questions answered at once, each in a thread of its own; their events come out as one.

For answerers that wait for others (servers): one case is read while questions of the one before it
are still being answered, and no third is held.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from queue import Empty, SimpleQueue
from threading import Event, Semaphore, Thread
from typing import Any

TICK_S = 0.25

Said = tuple[Any, object]
"""A question, and what happens or comes of it."""
Work = Callable[[], Generator[Said, None, None]]
"""What answers one question."""


class _Ended:
    """Put last by each thread: what ended it, None for its work."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


_ONE_LESS = object()
"""Put after the last that a work says."""


class Together:
    """Answers at most ``width`` questions at once.

    No more than ``width`` answers wait for whoever takes them, so that a slow disk slows the
    asking, and a kill costs few.

    Parameters
    ----------
    width
        How many.
    stop
        Makes what is being answered end soon; called from the generator's thread when it is closed.
    """

    def __init__(self, width: int, stop: Callable[[], None]) -> None:
        self._width, self._stop = width, stop
        self._said: SimpleQueue[Any] = SimpleQueue()
        self._room = Semaphore(2 * width)
        self._left = Event()

    def run(self, works: Iterable[Work]) -> Generator[Said | None, None, None]:
        """Yield what the works yield, mixed, and None now and then while nothing happens.

        ``works`` are taken one after the other, in a thread of their own, as there is room. What
        one raises, or taking them, is raised here once all others have ended; closing this stops
        them and waits for their end.
        """
        threads = ThreadPoolExecutor(self._width, thread_name_prefix="ctvqa-answer")
        feeding = Thread(target=self._feed, args=(works, threads), name="ctvqa-feed", daemon=True)
        feeding.start()
        try:
            while True:
                try:
                    item = self._said.get(timeout=TICK_S)
                except Empty:
                    yield None
                    continue
                if item is _ONE_LESS:
                    self._room.release()
                elif not isinstance(item, _Ended):
                    yield item
                elif item.error is not None:
                    raise item.error
                else:
                    return
        finally:
            self._left.set()
            self._stop()
            self._room.release()
            feeding.join()
            threads.shutdown(wait=True)

    def rest(self) -> Iterator[Said]:
        """Yield what was said and not taken when ``run`` was left."""
        while not self._said.empty():
            item = self._said.get()
            if not isinstance(item, _Ended) and item is not _ONE_LESS:
                yield item

    def _feed(self, works: Iterable[Work], threads: ThreadPoolExecutor) -> None:
        pending: list[Future[None]] = []
        error: BaseException | None = None
        try:
            for work in works:
                self._room.acquire()
                if self._left.is_set():
                    break
                pending = [one for one in pending if not one.done()]
                pending.append(threads.submit(self._work, work))
            for one in pending:
                one.result()
        except BaseException as problem:  # noqa: BLE001  the thread's outermost frame: run raises it
            error = problem
        self._said.put(_Ended(error))

    def _work(self, work: Work) -> None:
        try:
            if self._left.is_set():
                return
            with closing(work()) as said:
                for item in said:
                    self._said.put(item)
                    if self._left.is_set():
                        return
        except BaseException as problem:  # noqa: BLE001  a thread's outermost frame: run raises it
            self._said.put(_Ended(problem))
        finally:
            self._said.put(_ONE_LESS)
