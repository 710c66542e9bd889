"""Several servers of one model as one way to run: whichever is free and well answers.

Each server has its own number of requests under way, which grows as it answers and shrinks where it
is overloaded; one that fails is left alone for a while, longer each time, then tried again with one
request. A request that a server could not do is made anew of another.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from threading import Condition
from typing import TYPE_CHECKING

from napari_ctvqa.core.events import Again, Done, Event, Failed, FailureKind, Status, Warned
from napari_ctvqa.core.records import EMPTY
from napari_ctvqa.core.servers import AT_ONCE, ServerCount

if TYPE_CHECKING:
    from collections.abc import Mapping
    from threading import Event as Flag
    from typing import Any

    from napari_ctvqa.core.asking import Ask
    from napari_ctvqa.runners.server import ServerWay
    from napari_ctvqa.runners.server_profile import Profile

logger = logging.getLogger(__name__)

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0
_DOWN_AFTER = 3
"""So many failures in a row, and a server counts as down until it answers again."""
_TRIES = 3
"""How often one request is made of a server that may well do it the next time."""
_LOOK_S = 0.1
_TOLD_EVERY_S = 1.0
_NEWEST = 0.3
"""The weight of the newest answer in a server's mean time."""

_PASSING = frozenset(
    {
        *(FailureKind.LOADING, FailureKind.TIMEOUT, FailureKind.BROKEN_STREAM),
        *(FailureKind.UNREACHABLE, FailureKind.SERVER, FailureKind.OUT_OF_MEMORY),
    }
)
"""What may be gone in a while."""
_ITS_OWN = _PASSING | {
    *(FailureKind.WRONG_SCHEME, FailureKind.NOT_A_SERVER, FailureKind.AUTH),
    *(FailureKind.NO_SUCH_MODEL, FailureKind.NOT_CONFIRMED, FailureKind.DEVICE),
    *(FailureKind.PICTURES_DROPPED, FailureKind.MISSING_LIBRARY),
}
"""Failures that another server need not meet; all others are the request's."""
_OVERLOADED = frozenset({FailureKind.LOADING, FailureKind.TIMEOUT, FailureKind.OUT_OF_MEMORY})


class _Server:
    """One server and how it does; its pool's lock guards it."""

    def __init__(self, way: ServerWay, most: int) -> None:
        self.way, self.most = way, most
        self.room = 1.0
        """How many requests it may have under way; one at first, so that it is probed once."""
        self.at_work = self.answered = self.failed = self.in_a_row = 0
        self.seconds: float | None = None
        self.again_at = 0.0
        self.why = ""

    @property
    def down(self) -> bool:
        return self.in_a_row >= _DOWN_AFTER

    def is_free(self, now: float) -> bool:
        return now >= self.again_at and self.at_work < int(self.room)

    def wait_for(self) -> float:
        """Return how long a request would take here, roughly; a server nobody knows is tried."""
        return (self.at_work + 1) * (self.seconds or 0.0)

    def did(self, seconds: float) -> None:
        self.answered += 1
        self.in_a_row, self.again_at, self.why = 0, 0.0, ""
        self.room = min(self.most, self.room + 1)
        before = seconds if self.seconds is None else self.seconds
        self.seconds = before + _NEWEST * (seconds - before)

    def did_not(self, failed: Failed) -> None:
        self.failed += 1
        self.in_a_row += 1
        self.why = failed.message
        half = failed.kind in _OVERLOADED and not self.down
        self.room = max(1.0, self.room / 2) if half else 1.0
        pause = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(self.in_a_row - 1, 10))
        self.again_at = time.monotonic() + max(pause, min(failed.wait_s or 0.0, _LONGEST_PAUSE_S))


class ServerPool:
    """A Way that shares its requests among servers; ``ask`` may run in many threads at once.

    Parameters
    ----------
    ways
        The servers, each with the same model.
    at_once
        Requests under way at each server at most.
    """

    def __init__(self, ways: Sequence[ServerWay], *, at_once: int = AT_ONCE) -> None:
        self._servers = [_Server(way, at_once) for way in ways]
        self._changed = Condition()
        self.model = ways[0].model
        self.title = f"{len(ways)} servers, {self.model}" if len(ways) > 1 else ways[0].title
        self.host = ", ".join(dict.fromkeys(way.host for way in ways if way.host))
        self.width = at_once * len(ways)
        """How many requests it can be given at once."""
        self.urls = tuple(way.url for way in ways)

    @property
    def profile(self) -> Profile:
        """Return what is known of the first server."""
        return self._servers[0].way.profile

    @property
    def loaded(self) -> Mapping[str, Any]:
        """Return nothing: what runs on servers is not told."""
        return EMPTY

    @property
    def counts(self) -> tuple[ServerCount, ...]:
        """Return what each server has done since the pool was made."""
        with self._changed:
            return tuple(
                ServerCount(one.way.url, one.answered, one.failed, one.seconds, one.why)
                for one in self._servers
            )

    def ask(self, ask: Ask, cancelled: Flag) -> Iterator[Event]:
        """Yield what the chosen server says; where it fails and another may not, ask that one.

        ``Again`` tells that what came so far counts for nothing; ``Done`` says who answered.
        """
        tries: dict[_Server, int] = {}
        failed: Failed | None = None
        while True:
            server = yield from self._chosen(tries, cancelled)
            if server is None:
                yield failed if failed and not cancelled.is_set() else Done("", reason="cancelled")
                return
            if failed is not None:
                yield Again(f"Asked anew, of {server.way.url}")
                yield Warned(failed.kind, _anew(server, failed), failed.hint, failed.detail)
            end = yield from self._asked(server, ask, cancelled)
            if isinstance(end, Done) or end.kind not in _ITS_OWN:
                yield end
                return
            failed = end
            passing = end.kind in _PASSING
            tries[server] = tries.get(server, 0) + 1 if passing else _TRIES

    def close(self) -> None:
        """Free what the servers' clients hold."""
        for one in self._servers:
            one.way.close()

    def _asked(
        self, server: _Server, ask: Ask, cancelled: Flag
    ) -> Generator[Event, None, Done | Failed]:
        """Yield what one server says but its end, and return that."""
        began = time.monotonic()
        end: Done | Failed | None = None
        try:
            events = server.way.ask(ask, cancelled)
            with closing(events):
                for event in events:
                    if isinstance(event, Done | Failed):
                        end = event
                    else:
                        yield event
        finally:
            end = self._noted(server, end, time.monotonic() - began)
        return end

    def _noted(self, server: _Server, end: Done | Failed | None, seconds: float) -> Done | Failed:
        """Give the server's place free and count how it did; one that was left counts for nothing.

        Where no end came, somebody stopped listening.
        """
        with self._changed:
            server.at_work -= 1
            if isinstance(end, Done) and end.reason != "cancelled":
                server.did(seconds)
                end = replace(end, server=server.way.url)
            elif isinstance(end, Failed) and end.kind in _ITS_OWN:
                server.did_not(end)
                logger.info("%s: %s", server.way.url, end.message)
            self._changed.notify_all()
        return end or Done("", reason="cancelled")

    def _chosen(
        self, tries: Mapping[_Server, int], cancelled: Flag
    ) -> Generator[Event, None, _Server | None]:
        """Wait for a server that is free and take a place there.

        Return None when cancelled, and when no server is left that might do it.
        """
        told = time.monotonic()
        while not cancelled.is_set():
            with self._changed:
                now = time.monotonic()
                left = [one for one in self._servers if tries.get(one, 0) < _TRIES]
                free = [one for one in left if one.is_free(now)]
                if free:
                    best = min(free, key=_Server.wait_for)
                    best.at_work += 1
                    return best
                if all(one.down and now < one.again_at for one in left) and tries:
                    return None
                self._changed.wait(_LOOK_S)
            if now - told >= _TOLD_EVERY_S:
                told = now
                yield Status(self._waiting_for(now))
        return None

    def _waiting_for(self, now: float) -> str:
        with self._changed:
            resting = [one.again_at - now for one in self._servers if one.again_at > now]
            if len(resting) == len(self._servers):
                return f"No server answers; the next is tried in {max(0.0, min(resting)):.0f} s"
        return "Waiting for a server to be free"


def _anew(server: _Server, failed: Failed) -> str:
    return f"asked anew, of {server.way.url}, since the first failed: {failed.message}"
