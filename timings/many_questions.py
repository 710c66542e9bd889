"""10,000 questions through stub servers, run from the window's Run panel and killed twice.

Two servers on loopback answer at once; the window asks them all questions that the filter shows,
is killed (SIGKILL) after a third and after two thirds, and opened again. Printed is how late a
60 Hz timer of the window came (as in heartbeat.py), the window's memory as answers come, and
whether the result file is complete, each question once. To reach: p99 at most 50 ms, memory after
the last answer at most 1.15 times that after the first tenth, nothing lost. See timings/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np

SCREEN = "1366x768x24"
CASES = 10
LATE_MS, GROWTH = 50.0, 1.15
LETTERS = "ABCD"


# ------------------------------------------------------------------------------ the stub server


class Stub(BaseHTTPRequestHandler):
    """Answers a letter at once, and counts tokens as a model that takes pictures does."""

    def do_GET(self) -> None:
        """List the one model."""
        body = json.dumps({"data": [{"id": "stub", "owned_by": "vllm"}]}).encode()
        self._send("application/json", body)

    def do_POST(self) -> None:
        """Answer."""
        content = self.rfile.read(int(self.headers["content-length"]))
        letter = LETTERS[len(content) % len(LETTERS)]
        tokens = 500 + 2000 * content.count(b'"image_url":')
        delta = {"choices": [{"index": 0, "delta": {"content": letter}}]}
        end = {
            "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": tokens, "completion_tokens": 1},
        }
        pieces = [f"data: {json.dumps(piece)}\n\n".encode() for piece in (delta, end)]
        self._send("text/event-stream", b"".join(pieces) + b"data: [DONE]\n\n")

    def _send(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def serve() -> int:
    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

    server = Server(("127.0.0.1", 0), Stub)
    print(server.server_address[1], flush=True)
    server.serve_forever()
    return 0


# -------------------------------------------------------------------------------- the questions


def write_questions(folder: Path, count: int) -> Path:
    """Write a benchmark that asks ``count`` questions about the demo's CT under ten names."""
    from napari_ctvqa.demo import ensure_demo

    demo = ensure_demo()
    data = json.loads((demo / "benchmark" / "test_qa.json").read_text(encoding="utf-8"))
    texts = data["questions"]
    scan = demo / "benchmark" / "ct" / texts[0]["image_id"]
    ids = [f"BDMAP_{number:08d}" for number in range(1, CASES + 1)]
    (folder / "benchmark" / "ct").mkdir(parents=True)
    for case_id in ids:
        (folder / "benchmark" / "ct" / case_id).symlink_to(scan)
    rows = [
        {**texts[n % len(texts)], "qid": f"q{n:06d}", "image_id": ids[n * CASES // count]}
        for n in range(count)
    ]
    (folder / "benchmark" / "test_qa.json").write_text(json.dumps({"questions": rows}))
    return folder


# ------------------------------------------------------------------------------------ the window


def memory_mb() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def window(bench: Path, servers: list[str], log: Path) -> int:
    """Run all questions from the Run panel; write a line of figures each half second."""
    import napari
    from heartbeat import Pulse, settle
    from qtpy.QtCore import QEventLoop, QTimer

    from napari_ctvqa.core.session import RunState
    from napari_ctvqa.widgets.app import app_for
    from napari_ctvqa.widgets.docks import dock_of

    viewer = napari.Viewer(show=True)
    viewer.window.resize(1366, 768)
    app = app_for(viewer)
    app.coordinator.open(bench)
    settle(app)
    panel, session = app.panels["Run"], app.session
    dock_of(panel).raise_()
    settle(app)
    panel._model.choose("qwen3-vl")
    panel._model._servers.show_addresses(" ".join(servers))
    panel._model._slices.setValue(2)
    panel._filter.setChecked(True)
    settle(app)
    pulse, loop, timer = Pulse(), QEventLoop(), QTimer()
    seen = 0
    with log.open("a") as file:

        def tell() -> None:
            nonlocal seen
            late, seen = pulse.late_ms[seen:], len(pulse.late_ms)
            figures = {"done": session.progress.done, "mb": memory_mb(), "late_ms": late}
            file.write(json.dumps(figures) + "\n")
            file.flush()
            if session.progress.state is RunState.IDLE and session.progress.done:
                loop.quit()

        timer.timeout.connect(tell)
        pulse.start()
        panel._start.click()
        timer.start(500)
        loop.exec()
        file.write(json.dumps({"path": session.progress.path}) + "\n")
        if picture := os.environ.get("MANY_QUESTIONS_PICTURE"):
            viewer.window._qt_window.grab().save(picture)
    sys.stdout.flush()
    os._exit(0)  # no wait for a window's tear-down; every answer is on disk


# --------------------------------------------------------------------------------------- the run


def run(args: argparse.Namespace, folder: Path) -> int:
    bench = write_questions(folder / "bench", args.questions)
    log = folder / "log.jsonl"
    stubs = [_started(["--serve"], stdout=subprocess.PIPE) for _ in range(2)]
    try:
        servers = [f"http://127.0.0.1:{int(stub.stdout.readline())}/v1" for stub in stubs]
        words = ["--window", str(bench), "--log", str(log)]
        words += [word for url in servers for word in ("--server", url)]
        began = time.monotonic()
        for kill_at in (args.questions // 3, 2 * args.questions // 3, None):
            _open_window(words, log, kill_at)
        seconds = time.monotonic() - began
    finally:
        for stub in stubs:
            stub.kill()
            stub.wait()
    return report([json.loads(line) for line in log.open()], args.questions, seconds)


def _started(words: list[str], **more: object) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, __file__, *words], text=True, **more)


def _open_window(words: list[str], log: Path, kill_at: int | None) -> None:
    """Let the window run to its end, or kill it when so many answers have come."""
    size = log.stat().st_size if log.exists() else 0
    running = _started(words)
    while running.poll() is None:
        time.sleep(0.05)
        if kill_at is None or not log.exists():
            continue
        with log.open() as file:
            file.seek(size)
            lines = file.read().split("\n")[:-1]
        if any(json.loads(line).get("done", 0) >= kill_at for line in lines):
            running.send_signal(signal.SIGKILL)
            running.wait()
    if kill_at is None and running.returncode:
        sys.exit("the window ended before its run did")


def report(lines: list[dict], count: int, seconds: float) -> int:
    told = [line for line in lines if "done" in line]
    late = np.concatenate([line["late_ms"] for line in told if line["late_ms"]])
    figures = (*np.percentile(late, [50, 95, 99]), late.max())
    print(f"{count} questions, {seconds:.0f} s with two kills and three openings of the window")
    print("window late: median {:.2f}, p95 {:.2f}, p99 {:.2f}, most {:.2f} ms".format(*figures))
    last = told[max(i for i, line in enumerate(told) if line["done"] == 0) + 1 :]
    early = next((x["mb"] for x in told if x["done"] >= count // 10), told[0]["mb"])
    print(
        "memory: "
        + ", ".join(f"{x['mb']:.0f} MB at {x['done']}" for x in _sampled(told, count))
        + f"; the last window began with {last[0]['mb']:.0f} MB"
    )
    path = Path(lines[-1]["path"])
    rows = json.loads(path.read_bytes())["results"]
    ids = [row["qid"] for row in rows]
    failed = sum(row["raw_output"].startswith("[ERROR]") for row in rows)
    complete = ids == [f"q{n:06d}" for n in range(count)] and not failed
    complete &= [path] == sorted(path.parent.glob("*.json*")) or _only_seen(path)
    growth = told[-1]["mb"] / early
    print(
        f"file: {len(rows)} rows, {failed} failed, {'complete' if complete else 'NOT COMPLETE'}; "
        f"memory grew {growth:.2f} times after the first tenth"
    )
    print(f"load {os.getloadavg()[0]:.1f}")
    return 0 if complete and figures[2] <= LATE_MS and growth <= GROWTH else 1


def _only_seen(path: Path) -> bool:
    """Return whether beside the result file there is but what the model saw."""
    return {p.name for p in path.parent.glob("*.json*")} == {path.name, f"{path.name}.seen"}


def _sampled(told: list[dict], count: int) -> list[dict]:
    steps = [count // 10, count // 4, count // 2, 3 * count // 4, count]
    return [next((x for x in told if x["done"] >= step), told[-1]) for step in steps]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--questions", type=int, default=10_000)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--window", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--log", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--server", action="append", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        return serve()
    if args.window:
        return window(args.window, args.server, args.log)
    if not os.environ.get("DISPLAY"):
        if shutil.which("xvfb-run") is None:
            sys.exit("no display and no xvfb-run: apt-get install xvfb")
        command = ["xvfb-run", "-a", "-s", f"-screen 0 {SCREEN}", sys.executable, *sys.argv]
        return subprocess.run(command, check=False).returncode
    os.environ.setdefault("LIBGL_ALWAYS_SOFTWARE", "1")
    os.environ.setdefault("NAPARI_ASYNC", "0")
    with tempfile.TemporaryDirectory(prefix="many-") as folder:
        os.environ["XDG_DATA_HOME"] = f"{folder}/data"
        os.environ["NAPARI_CTVQA_CONFIG_DIR"] = f"{folder}/config"
        return run(args, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
