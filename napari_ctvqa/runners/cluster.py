"""A dask.distributed cluster that does tasks for a run: a local one, or one that is named.

Between client and workers dask unpickles what comes, which runs code: a cluster is one that the
person named, or our own on this machine, which speaks TLS with a key made for it alone. Our own
part of what is sent is JSON.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import re
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Self

from napari_ctvqa import __version__
from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.io.check_table import rules_stamp

if TYPE_CHECKING:
    from pathlib import Path

logger = logging.getLogger(__name__)

LOCAL = "local"
TICK_S = 0.25
_CONNECT_S, _FIRST_WORKER_S = 10.0, 30.0
_LOOK_EVERY_S = 1.0
_MOST_ALONE_S = 300.0
"""How long to wait for a worker when all have gone; some clusters replace theirs."""
_LOST_S = 20.0
_RETRIES = 2
"""How often a task is done again, maybe by another worker, where a worker could not begin it."""
_LOCAL_N = re.compile(r"local(?::(\d{1,4}))?\Z")
_ADDRESS = re.compile(r"(?:(tcp|tls|ucx|ws|wss)://)?[^\s/:@]+:\d{1,5}\Z")


class ClusterError(CtvqaError):
    """A cluster that cannot be used, or no longer."""

    code = "cluster"


@dataclass(frozen=True, slots=True)
class Came:
    """What came of a task: its worker's answer, or why there is none.

    ``kept_out`` says that no worker could even begin it.
    """

    key: Any
    value: Any = None
    error: CtvqaError | None = None
    kept_out: bool = False


class Cluster:
    """A cluster for the time of a ``with``.

    Parameters
    ----------
    address
        ``local`` or ``local:N`` for N processes on this machine, started here and ended with the
        ``with``; else the address of a scheduler, e.g. ``tcp://head:8786``.
    processes
        How many ``local`` means.

    Raises
    ------
    ClusterError
        Without the package ``distributed``, for what is no address, and when no scheduler answers
        there or it has no workers.
    """

    def __init__(self, address: str, *, processes: int | None = None) -> None:
        local = _LOCAL_N.match(address)
        if local is None and not _ADDRESS.match(address):
            raise ClusterError(
                f"{address!r:.200} is no address of a scheduler.",
                hint="Give local, local:N, or e.g. tcp://head:8786.",
            )
        if importlib.util.find_spec("distributed") is None:
            raise ClusterError(
                "A cluster needs the package distributed, which is not installed.",
                hint="pip install 'napari-ctvqa[scale]', here and where the workers run.",
            )
        self.address = address
        self.local = local is not None
        asked = int(local[1]) if local is not None and local[1] else processes
        self.processes = max(1, asked or os.cpu_count() or 1)
        self._ends = ExitStack()
        self._client: Any = None

    def __enter__(self) -> Self:
        try:
            self._client = self._local_client() if self.local else self._named_client()
            self._wait_for_workers()
        except BaseException:
            self._ends.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def _local_client(self) -> Any:
        from distributed import Client, LocalCluster

        cluster = LocalCluster(
            n_workers=self.processes,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            # A case may be large: dask would stop a worker at its share of the memory.
            memory_limit=None,
            silence_logs=50,
            security=_own_keys() or None,
        )
        self._ends.callback(cluster.close, timeout=10)
        return self._ends.enter_context(Client(cluster, set_as_default=False))

    def _named_client(self) -> Any:
        from distributed import Client

        try:
            client = Client(self.address, timeout=_CONNECT_S, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise ClusterError(
                f"No scheduler answers at {self.address} within {_CONNECT_S:.0f} seconds "
                f"({type(error).__name__}).",
                hint="Start one with: dask scheduler, and give the address that it prints.",
            ) from None
        return self._ends.enter_context(client)

    def _wait_for_workers(self) -> None:
        try:
            self._client.wait_for_workers(1, timeout=_FIRST_WORKER_S)
        except TimeoutError:
            raise ClusterError(
                f"The scheduler at {self.address} has no workers.",
                hint=f"Start some with: dask worker --nthreads 1 --nworkers N {self.address}.",
            ) from None

    # -------------------------------------------------------------------------------- preparing

    def prepare(self, what: Callable[[str], str], task: dict[str, Any], see: Path) -> None:
        """Let each worker that there is get ready.

        ``what`` is a function of a module, called on each worker with ``task`` as JSON; it returns
        why the worker cannot do such tasks, empty where it can.

        Raises
        ------
        ClusterError
            When one of them has not this version, does not find ``see`` at the same path, or cannot
            do it; names the worker.
        """
        from napari_ctvqa.runners.cluster_work import look

        for one, seen in self._everywhere(look, str(see)).items():
            self._check(one, seen, see)
        for one, why in self._everywhere(what, json.dumps(task)).items():
            if why:
                raise ClusterError(f"The worker {one} cannot do this: {_said(why)}")
        many = [one for one, threads in self._threads().items() if threads > 1]
        if many:
            logger.warning(
                "%d workers have several threads, which share one processor for most of the work: "
                "dask worker --nthreads 1 --nworkers N is faster",
                len(many),
            )

    def _everywhere(self, what: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        found: dict[str, Any] = self._client.run(what, *arguments, on_error="return")
        return found

    def _check(self, worker: str, seen: Any, see: Path) -> None:
        if not isinstance(seen, dict):
            raise ClusterError(
                f"The worker {worker} cannot load napari-ctvqa ({_said(seen)}).",
                hint=f"Install napari-ctvqa {__version__} with the extra scale where it runs.",
            )
        if (seen["version"], seen["rules"]) != (__version__, rules_stamp()):
            raise ClusterError(
                f"The worker {worker} has napari-ctvqa {seen['version']} with other rules or of "
                f"another version, here is {__version__}.",
                hint="Install the same on both.",
            )
        if not seen["there"]:
            raise ClusterError(
                f"The worker {worker} does not find {see}.",
                hint="Workers read the files themselves: they must lie at the same path there.",
            )

    # ------------------------------------------------------------------------------------ doing

    def run(
        self, do: Callable[[str], Any], tasks: Iterator[tuple[Any, dict[str, Any]]]
    ) -> Generator[Came | None, None, None]:
        """Yield what comes of each (key, task), in the order in which they are done.

        ``do`` is a function of a module, called on a worker with the task as JSON. A task whose
        worker dies is done again by another; one that several died of comes with an error. Tasks
        are taken as there is room. While nothing is done None is yielded now and then; closing the
        generator takes back what nobody has begun, and what comes of the rest counts for nothing.

        Raises
        ------
        ClusterError
            When the scheduler is lost, or all workers for minutes.
        """
        done: SimpleQueue[Any] = SimpleQueue()
        pending: dict[str, tuple[Any, Any]] = {}
        state = _State(self)
        try:
            while True:
                for key, task in islice(tasks, max(0, state.room() - len(pending))):
                    future = self._client.submit(do, json.dumps(task), pure=False, retries=_RETRIES)
                    pending[future.key] = (future, key)
                    future.add_done_callback(done.put)
                if not pending:
                    return
                try:
                    future = done.get(timeout=TICK_S)
                except Empty:
                    state.check()
                    yield None
                    continue
                if future.key in pending:
                    yield self._came(*pending.pop(future.key))
        finally:
            if pending and self._client.status == "running":
                self._client.cancel([future for future, _ in pending.values()], force=True)

    def _came(self, future: Any, key: Any) -> Came:
        if future.status == "finished":
            try:
                return Came(key, future.result(timeout=_LOST_S))
            except (OSError, TimeoutError) as error:
                return Came(key, error=CtvqaError(f"its result was lost ({_said(error)})."))
        if future.status == "cancelled":
            raise self.lost()
        raised = future.exception(timeout=_LOST_S)
        if type(raised).__name__ == "KilledWorker":
            return Came(
                key,
                error=CtvqaError(
                    "the workers that were given it ended, one after the other.",
                    hint="They may have run out of memory: start fewer of them on one machine.",
                ),
            )
        said = raised if isinstance(raised, CtvqaError) else CtvqaError(f"{_said(raised)}.")
        return Came(key, error=said, kept_out=True)

    def lost(self) -> ClusterError:
        """Return what to say when the scheduler is gone."""
        return ClusterError(
            f"The connection to the scheduler at {self.address} is lost.",
            hint="What was done is kept: the same command goes on from there.",
        )

    def _threads(self) -> dict[str, int]:
        found: dict[str, int] = self._client.nthreads()
        return found


class _State:
    """Whether the cluster is still there, looked at now and then."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._looked = -_LOOK_EVERY_S
        self._threads = 0
        self._well = self._manned = time.monotonic()

    def room(self) -> int:
        """Return how many tasks may be under way: one a thread.

        A task takes seconds, the way to a worker some milliseconds; one that waited at a busy
        worker would be the last to be done while the others have nothing left.
        """
        now = time.monotonic()
        client = self._cluster._client
        if now - self._looked >= _LOOK_EVERY_S and client.status == "running":
            self._looked = now
            self._threads = sum(self._cluster._threads().values())
            self._manned = now if self._threads else self._manned
        return max(1, self._threads)

    def check(self) -> None:
        """Raise when the scheduler or all workers have been gone for long."""
        now = time.monotonic()
        if self._cluster._client.status == "running":
            self._well = now
        if now - self._well > _LOST_S:
            raise self._cluster.lost()
        self.room()
        if now - self._manned > _MOST_ALONE_S:
            raise ClusterError(
                f"The scheduler at {self._cluster.address} has had no worker for "
                f"{_MOST_ALONE_S / 60:.0f} minutes.",
                hint="Start workers, then the same command goes on.",
            )


def _own_keys() -> bool:
    """Return whether the local cluster can have keys of its own: others on this machine cannot."""
    return importlib.util.find_spec("cryptography") is not None


def _said(error: object) -> str:
    if isinstance(error, CtvqaError):
        return str(error)
    if isinstance(error, BaseException):
        return f"{type(error).__name__}: {error}"[:500]
    return str(error)[:500]
