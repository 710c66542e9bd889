"""demo, open and shot: what they hand over, and what they say where no window can come up."""

import argparse
import gc
import subprocess
import sys
from io import StringIO
from pathlib import Path
from types import ModuleType

import pytest

from napari_ctvqa import _libraries, cli, demo
from napari_ctvqa.commands import _progress, _window
from napari_ctvqa.core.errors import CtvqaError

QT_VARIABLES = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")


@pytest.fixture
def opened(monkeypatch):
    """Stand in for the window; return the calls it got."""
    calls = []

    def run_app(path, **options):
        calls.append((path, options))
        return 0

    launch = ModuleType("napari_ctvqa.widgets.launch")
    launch.run_app = run_app
    monkeypatch.setitem(sys.modules, launch.__name__, launch)
    monkeypatch.setattr(_window, "find_spec", lambda name: object())
    monkeypatch.setenv("DISPLAY", ":7")
    monkeypatch.delenv("QT_QPA_PLATFORM", raising=False)
    return calls


@pytest.fixture
def bare(monkeypatch):
    """A Linux machine with Qt and without a display."""
    for name in QT_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(_window.sys, "platform", "linux")
    monkeypatch.setattr(_window, "find_spec", lambda name: object())


def test_open_hands_everything_over(opened):
    line = "open data --benchmark table --cases a --cases b --question q7 --where stage:x"
    assert cli.main([*line.split(), "--results", "r1.json", "r2.json"]) == 0
    assert opened == [
        (
            Path("data"),
            {
                "benchmark": "table",
                "roots": (Path("a"), Path("b")),
                "results": (Path("r1.json"), Path("r2.json")),
                "question_id": "q7",
                "where": "stage:x",
            },
        )
    ]


def test_results_may_be_named_several_times(opened):
    assert cli.main(["open", "data", "--results", "a", "--results", "b", "c"]) == 0
    assert opened[0][1]["results"] == (Path("a"), Path("b"), Path("c"))


def test_shot_asks_for_one_picture(opened, tmp_path):
    picture = tmp_path / "a.png"
    assert cli.main(["shot", "data", "--question", "c::3", "--out", str(picture)]) == 0
    (_, options) = opened[0]
    assert options["screenshot"] == picture
    assert options["question_id"] == "c::3"


def test_demo_hands_over_what_waits_for_it(opened, monkeypatch):
    made_by = Path
    monkeypatch.setattr(demo, "begin_demo", lambda: made_by)
    assert cli.main(["demo"]) == 0
    (_, options) = opened[0]
    assert options["made_by"] is made_by
    assert options["question_id"] == demo.FIRST_QUESTION


def test_garbage_is_collected_again_when_the_window_is_closed(opened):
    assert cli.main(["open", "data"]) == 0
    assert gc.isenabled()


@pytest.mark.parametrize(
    "line", ["shot data --question q --out a.jpg", "shot data --question q", "open", "demo q"]
)
def test_a_wrong_call_is_a_usage_error(line, opened):
    with pytest.raises(SystemExit) as left:
        cli.main(line.split())
    assert left.value.code == cli.USAGE
    assert opened == []


def test_a_folder_that_is_not_there_is_named_before_the_window_opens(opened, tmp_path, capsys):
    picture = tmp_path / "absent" / "a.png"
    code = cli.main(["shot", "data", "--question", "q", "--out", str(picture)])
    assert code == cli.FAILED
    assert str(picture.parent) in capsys.readouterr().err
    assert opened == []


def test_without_a_qt_binding_the_pip_line_is_given(bare, monkeypatch):
    monkeypatch.setattr(_window, "find_spec", lambda name: None)
    with pytest.raises(CtvqaError) as told:
        _window.check_window()
    assert told.value.message == "This needs a Qt binding."
    assert told.value.hint == 'pip install "napari-ctvqa[gui]"'


def test_offscreen_is_refused_because_the_viewer_would_end_the_process(opened, monkeypatch, capsys):
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")
    assert cli.main(["open", "data"]) == cli.FAILED
    assert "QT_QPA_PLATFORM=offscreen has no OpenGL" in capsys.readouterr().err
    assert opened == []


def test_open_without_a_display_points_to_shot(bare, capsys):
    assert cli.main(["open", "data"]) == cli.FAILED
    assert "napari-ctvqa shot" in capsys.readouterr().err


def test_shot_without_a_display_runs_itself_on_a_virtual_one(bare, monkeypatch, tmp_path):
    started = []

    def run(command, **options):
        started.append((command, options["env"]))
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr(_window.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(_window.subprocess, "run", run)
    line = ["shot", "my data", "--question", "q", "--out", str(tmp_path / "a.png")]

    assert cli.main(line) == cli.FAILED

    ((command, environment),) = started
    assert command[0] == "/usr/bin/xvfb-run"
    assert command[-len(line) :] == line
    assert environment["QT_QPA_PLATFORM"] == "xcb"


def test_without_xvfb_the_package_to_install_is_named(bare, monkeypatch):
    monkeypatch.setattr(_window.shutil, "which", lambda name: None)
    with pytest.raises(CtvqaError) as told:
        _window.on_virtual_display(argparse.Namespace(argv=[]))
    assert told.value.hint.startswith("sudo apt-get install -y ")
    assert "xvfb" in told.value.hint


def test_a_missing_system_library_is_told_apart_from_a_fault_of_ours():
    library = ImportError("libEGL.so.1: cannot open shared object file: No such file or directory")
    assert isinstance(_window.explained(library), CtvqaError)
    ours = ImportError("cannot import name 'x'")
    assert _window.explained(ours) is ours


def test_missing_packages_come_from_the_table(monkeypatch):
    def load(name):
        if name == "libEGL.so.1":
            raise OSError(name)

    monkeypatch.setattr(_libraries.ctypes, "CDLL", load)
    monkeypatch.setattr(_libraries.shutil, "which", lambda name: None)
    assert _libraries.missing_packages() == ("libegl1",)
    assert _libraries.missing_packages(virtual_display=True) == ("libegl1", "xauth", "xvfb")


def test_the_demo_says_where_it_lies(opened, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo, "is_made", lambda: False)
    monkeypatch.setattr(demo, "begin_demo", lambda: Path)
    monkeypatch.setattr(demo, "demo_root", lambda: tmp_path / "demo-1")
    assert cli.main(["demo"]) == 0
    out, err = capsys.readouterr()
    assert out == f"demo: {tmp_path / 'demo-1'}\n"
    assert "making the demo case" in err and "PATH" in err


def test_a_picture_says_what_takes_the_time(opened, tmp_path, capsys):
    assert cli.main(["shot", str(tmp_path), "--out", str(tmp_path / "a.png")]) == 0
    assert f"opening {tmp_path}" in capsys.readouterr().err


class Slow:
    done, total, failed, seconds_left, per_second = 3, 10, 1, 40.0, 0.5


def test_a_log_gets_few_lines_of_progress_and_a_terminal_one_that_changes(monkeypatch):
    said = StringIO()
    now = iter([0.0, 1.0, 11.0, 11.5, 12.0, 21.5, 21.5, 21.5])
    monkeypatch.setattr(_progress.sys, "stderr", said)
    monkeypatch.setattr(_progress.time, "monotonic", lambda: next(now))
    with _progress.ProgressLine() as line:
        line.show(Slow)  # 1 s after the start: too soon
        line.show(Slow)  # 11 s
        line.show(Slow)  # 12 s: too soon again
        line.show(Slow)  # 21.5 s
    line = "napari-ctvqa: 3 of 10, 1 failed, 0.5 a second, 40 s left\n"
    assert said.getvalue() == 2 * line
