"""Worker processes that recompute references, each with a case of its own at a time.

Processes are started by command, not forked and not by multiprocessing: the window's threads and
OpenGL must not be copied, and a script that opened napari must not run again in each of them. A
worker that dies (out of memory, a broken library) costs its one case, and another takes its place.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from napari_ctvqa.core.errors import CtvqaError

TICK_S = 0.25

Task = tuple[Any, dict[str, Any]]
Done = tuple[Any, "list[dict[str, Any]] | CtvqaError"]


def run_tasks(
    tasks: Iterator[Task], jobs: int, *, polite: bool
) -> Generator[Done | None, None, None]:
    """Yield (key, checks) of each task as it is done, not in order; an error where it died.

    ``tasks`` are taken as workers get free. While nothing is done, None is yielded now and then,
    so that whoever listens can stop: closing the generator ends the workers at once.
    """
    workers = [_Worker(polite=polite) for _ in range(jobs)]
    free: SimpleQueue[_Worker] = SimpleQueue()
    for worker in workers:
        free.put(worker)

    def do(task: dict[str, Any]) -> list[dict[str, Any]] | CtvqaError:
        worker = free.get()
        try:
            return worker.ask(task)
        except CtvqaError as error:
            return error
        finally:
            free.put(worker)

    threads = ThreadPoolExecutor(jobs, thread_name_prefix="check")
    pending: dict[Future[list[dict[str, Any]] | CtvqaError], Any] = {}
    try:
        while True:
            for key, task in islice(tasks, max(0, jobs + 1 - len(pending))):
                pending[threads.submit(do, task)] = key
            if not pending:
                return
            done, _ = wait(pending, TICK_S, return_when=FIRST_COMPLETED)
            if not done:
                yield None
            for future in done:
                yield pending.pop(future), future.result()
    finally:
        for worker in workers:
            worker.kill()
        threads.shutdown(wait=True, cancel_futures=True)
        for worker in workers:
            worker.close()


class _Worker:
    """One process, started at its first task and again after it died."""

    def __init__(self, *, polite: bool) -> None:
        self._polite = polite
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def ask(self, task: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the answer to one task.

        Raises
        ------
        CtvqaError
            When the process died over it.
        """
        if self._process is None:
            self._process = _start(polite=self._polite)
            if self._closed:
                self._process.kill()
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        line = b""
        with suppress(OSError):
            process.stdin.write(json.dumps(task).encode("ascii") + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
        if line.endswith(b"\n"):
            checks: list[dict[str, Any]] = json.loads(line)
            return checks
        self._process = None
        code = _reaped(process)
        raise CtvqaError(
            f"the process that read case {task['case']['id']} ended (code {code}).",
            hint="It may have run out of memory: try --jobs 1, or close other programs.",
        )

    def kill(self) -> None:
        """End the process, whatever it does; a thread that waits for it gets its answer."""
        self._closed = True
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        """Let go of the process; no thread may be using it."""
        process, self._process = self._process, None
        if process is not None:
            _reaped(process)


def _reaped(process: subprocess.Popen[bytes]) -> int:
    process.kill()
    code = process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError):
                stream.close()
    return code


def _start(*, polite: bool) -> subprocess.Popen[bytes]:
    # -P: a module lying in the folder one happens to work in is not ours to run. Where this
    # package is not installed, its folder is looked in last.
    package = str(Path(__file__).resolve().parents[2])
    begin = (
        f"import sys; sys.path.append({package!r}); "
        "from napari_ctvqa.runners.check_worker import main; main()"
    )
    command = [sys.executable, "-P", "-c", begin]
    return subprocess.Popen(
        [*command, "--polite"] if polite else command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
