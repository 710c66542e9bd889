"""Whether this machine has the OpenGL that the viewer draws with, and what draws it.

vispy ends the process where there is none, so it is asked for before a viewer is made. Qt makes
the context on a surface without a window; what draws is read through vispy's own bindings, which
work with every Qt binding (PyQt6 wraps no OpenGL functions).
"""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass

from qtpy.QtGui import QOffscreenSurface, QOpenGLContext
from vispy.gloo import gl

from napari_ctvqa.core.errors import CtvqaError

logger = logging.getLogger(__name__)

LEAST_VERSION = (2, 1)
_LEAST_EMBEDDED = (2, 0)
"""OpenGL ES, which vispy is written for."""
_IN_SOFTWARE = (
    "llvmpipe",
    "softpipe",
    "swrast",
    "software rasterizer",
    "gdi generic",
    "swiftshader",
)
_ELSEWHERE = "or run the program on the machine you sit at, with a model server on the other one."
_ADVICE = {
    "linux": "sudo apt-get install -y libgl1 libegl1 libgl1-mesa-dri; over a remote desktop set"
    f" LIBGL_ALWAYS_SOFTWARE=1, {_ELSEWHERE}",
    "win32": f"Install the graphics card's driver, set QT_OPENGL=software, {_ELSEWHERE}",
}


@dataclass(frozen=True)
class Renderer:
    """What draws: its name and the version of OpenGL, in the driver's own words."""

    name: str
    version: str

    @property
    def in_software(self) -> bool:
        """Return whether the processor draws, not a graphics card."""
        return any(word in self.name.lower() for word in _IN_SOFTWARE)

    def told(self) -> str:
        """Return one line for a reader."""
        how = ", in software: slower, not less exact" if self.in_software else ""
        return f"Drawn by {self.name} (OpenGL {self.version}){how}."


def check_opengl() -> Renderer:
    """Return what draws; a renderer in software is logged.

    A QApplication has to be there.

    Raises
    ------
    CtvqaError
        When no OpenGL context of version 2.1 or newer can be made, with what to do.
    """
    context, surface = QOpenGLContext(), QOffscreenSurface()
    surface.create()
    if not (context.create() and context.makeCurrent(surface)):
        raise CtvqaError("The viewer draws with OpenGL, and this display has none.", hint=_advice())
    try:
        found = Renderer(_said(gl.GL_RENDERER), _said(gl.GL_VERSION))
    finally:
        context.doneCurrent()
    least = _LEAST_EMBEDDED if context.isOpenGLES() else LEAST_VERSION
    if tuple(context.format().version()) < least:
        raise CtvqaError(
            f"The viewer draws with OpenGL {'.'.join(map(str, least))} or newer, and {found.name}"
            f" has {found.version}.",
            hint=_advice(),
        )
    if found.in_software:
        logger.info(found.told())
    return found


def _said(name: int) -> str:
    return str(gl.glGetParameter(name) or "unknown")


def _advice() -> str:
    return _ADVICE.get(sys.platform, f"Install the graphics card's driver, {_ELSEWHERE}")
