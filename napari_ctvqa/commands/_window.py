"""What the commands that open the window share: the checks before it and the start itself."""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from napari_ctvqa._libraries import missing_packages
from napari_ctvqa.commands._questions import add_path_arguments
from napari_ctvqa.core.errors import CtvqaError, InputFileError

_BINDINGS = ("PySide6", "PyQt6", "PyQt5")
_SCREEN = "-screen 0 1366x768x24"


def open_window(path: Path, **options: Any) -> int:
    """Open the window on a path and return the exit code; options as ``widgets.launch.run_app``.

    Raises
    ------
    CtvqaError
        When this machine cannot show the window, with what to install or to set.
    """
    check_window()
    # A start makes a million objects and drops few: collecting meanwhile finds nothing and takes
    # a tenth of it. ``run_app`` lets it go on when the window is up.
    gc.disable()
    try:
        from napari_ctvqa.widgets.launch import run_app

        return run_app(path, **options)
    except ImportError as error:
        raise explained(error) from error
    finally:
        gc.enable()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare PATH, what says how to read it, and the predictions to show."""
    add_path_arguments(parser, path="case folder, CT file, benchmark folder or question file")
    parser.add_argument(
        "--results", type=Path, nargs="+", action="extend", default=[], metavar="FILE",
        help="prediction files to show, beside those found next to the questions",
    )  # fmt: skip


def png_path(text: str) -> Path:
    """Return where a picture goes; an argparse type, so anything but .png is a usage error."""
    path = Path(text)
    if path.suffix.lower() != ".png":
        raise argparse.ArgumentTypeError(f"{text}: pictures are saved as .png")
    return path


def check_folder_of(path: Path) -> None:
    """Raise CtvqaError when a picture cannot be saved there, before the long way to it."""
    folder = path.absolute().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InputFileError(folder, "is not a folder that can be written to.")


def check_window() -> None:
    """Raise CtvqaError where the window cannot come up; Qt itself would end the process."""
    if not any(find_spec(name) for name in _BINDINGS):
        raise CtvqaError("This needs a Qt binding.", hint='pip install "napari-ctvqa[gui]"')
    platform = os.environ.get("QT_QPA_PLATFORM", "").split(":")[0]
    if platform in {"offscreen", "minimal", "vnc"}:
        raise CtvqaError(
            f"QT_QPA_PLATFORM={platform} has no OpenGL, which the viewer draws with.",
            hint="Unset QT_QPA_PLATFORM; without a display use `napari-ctvqa shot`.",
        )
    if not has_display():
        raise CtvqaError(
            "There is no display: neither DISPLAY nor WAYLAND_DISPLAY is set.",
            hint="For a picture without a display use `napari-ctvqa shot PATH --question ID"
            " --out FILE.png`.",
        )


def has_display() -> bool:
    """Return whether a window can be shown; only Linux needs a variable for it."""
    names = ("DISPLAY", "WAYLAND_DISPLAY")
    return sys.platform != "linux" or any(os.environ.get(name) for name in names)


def on_virtual_display(args: argparse.Namespace) -> int:
    """Run the same command once more on a virtual display and return its exit code.

    Raises
    ------
    CtvqaError
        When Xvfb or its starter is not installed.
    """
    starter = shutil.which("xvfb-run")
    if starter is None or shutil.which("Xvfb") is None:
        packages = " ".join(missing_packages(virtual_display=True)) or "xvfb xauth"
        raise CtvqaError(
            "There is no display, and Xvfb, which stands in for one, is not installed.",
            hint=f"sudo apt-get install -y {packages}",
        )
    command = [sys.executable, "-m", "napari_ctvqa", *args.argv]
    environment = os.environ | {"QT_QPA_PLATFORM": "xcb", "LIBGL_ALWAYS_SOFTWARE": "1"}
    starting = [starter, "--auto-servernum", "--server-args", _SCREEN, *command]
    return subprocess.run(starting, env=environment, check=False).returncode


def explained(error: ImportError) -> Exception:
    """Return what a person can act on, where Qt lacks a system library; else the error itself."""
    if "cannot open shared object file" not in str(error):
        return error
    packages = " ".join(missing_packages())
    return CtvqaError(
        f"Qt cannot start: {error}.",
        hint=f"sudo apt-get install -y {packages}" if packages else "",
    )
