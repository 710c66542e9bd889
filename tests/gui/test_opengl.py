"""OpenGL is asked for before a viewer is made: none is one sentence and exit 1, no abort."""

import os
import subprocess
import sys

import pytest
from qtpy.QtWidgets import QLabel

from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.widgets import opengl
from napari_ctvqa.widgets.opengl import Renderer, check_opengl
from napari_ctvqa.widgets.shortcuts import HelpSheet

OFFSCREEN = """
import pathlib, sys
from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.widgets.launch import run_app
try:
    run_app(None)
except CtvqaError as error:
    sys.exit(f"told: {error}")
"""


def _run(*arguments, **variables):
    return subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.skipif(sys.platform != "linux", reason="the variables are those of X and Mesa")
@pytest.mark.parametrize(
    ("variables", "why"),
    [
        ({"QT_XCB_GL_INTEGRATION": "none"}, "this display has none"),
        ({"MESA_GL_VERSION_OVERRIDE": "1.3"}, "OpenGL 2.1 or newer"),
    ],
)
def test_the_command_says_what_to_do_and_exits_with_1(tmp_path, variables, why):
    done = _run("-m", "napari_ctvqa", "open", str(tmp_path), **variables)
    told = [line for line in done.stderr.splitlines() if "OpenGL" in line and "draws" in line]
    assert done.returncode == 1
    assert len(told) == 1
    assert why in told[0]
    assert "apt-get install -y lib" in told[0]
    assert "LIBGL_ALWAYS_SOFTWARE=1" in told[0]
    assert "Traceback" not in done.stderr


def test_a_platform_without_opengl_does_not_end_the_process():
    done = _run("-c", OFFSCREEN, QT_QPA_PLATFORM="offscreen")
    assert done.returncode == 1
    assert "told: The viewer draws with OpenGL" in done.stderr


def test_what_draws_is_found_and_named_in_the_list_of_keys(qtbot):
    found = check_opengl()
    assert found.version[0] in "234"
    sheet = HelpSheet()
    qtbot.addWidget(sheet)
    assert found.told() in [label.text() for label in sheet.findChildren(QLabel)]


@pytest.mark.parametrize(
    ("name", "in_software"),
    [
        ("llvmpipe (LLVM 15.0.6, 256 bits)", True),
        ("GDI Generic", True),
        ("NVIDIA GeForce RTX 4070/PCIe/SSE2", False),
        ("Apple M3", False),
    ],
)
def test_a_renderer_in_software_is_said_to_be_one(name, in_software):
    assert Renderer(name, "4.5").in_software is in_software
    assert ("in software" in Renderer(name, "4.5").told()) is in_software


@pytest.mark.parametrize("platform", ["linux", "win32", "darwin"])
def test_the_advice_names_the_remote_way_on_every_system(monkeypatch, platform):
    monkeypatch.setattr(opengl.sys, "platform", platform)
    monkeypatch.setattr(opengl.QOpenGLContext, "create", lambda context: False)
    with pytest.raises(CtvqaError) as told:
        check_opengl()
    assert "model server" in told.value.hint
