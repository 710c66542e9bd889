"""Which system packages a window still needs on Linux; standard library only.

``python3 -m napari_ctvqa._libraries [--virtual-display]`` writes the missing Debian packages, so
that the set-up can ask before anything is installed.
"""

from __future__ import annotations

import ctypes
import json
import shutil
import sys

from napari_ctvqa._resources import resource_path


def missing_packages(*, virtual_display: bool = False) -> tuple[str, ...]:
    """Return the Debian packages whose library or program this machine lacks, sorted.

    The list holds what the Qt wheels link to and do not bring along (found with ``ldd`` in a
    bare Debian), and with ``virtual_display`` what a picture without a display takes.
    """
    groups = json.loads(resource_path("system_libraries.json").read_text(encoding="utf-8"))
    wanted = dict(groups["window"])
    if virtual_display:
        wanted |= groups["virtual_display"]
    return tuple(sorted({package for name, package in wanted.items() if not _present(name)}))


def _present(name: str) -> bool:
    if ".so" not in name:
        return shutil.which(name) is not None
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    sys.stdout.write(
        " ".join(missing_packages(virtual_display="--virtual-display" in sys.argv[1:]))
    )
