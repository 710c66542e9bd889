"""Picture every layout of the window, dark and light: ``docs/layout_<name>_<theme>.png``.

    sh scripts/on_virtual_display.sh .venv/bin/python scripts/layout_pictures.py

The demo is open, the window has the size of a laptop's screen. Pictures have a palette of 256
colours (made by Pillow, which napari brings), chosen so that small parts keep theirs.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent
SETTLE_S = 1.5
QUIET_S = 6.0
"""The 3-D view is made once nothing else is to be done."""
THEMES = ("dark", "light")


def main() -> int:
    """Write all pictures and say which."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "docs", help="folder (default: docs)")
    out = parser.parse_args().out.absolute()
    sys.path.insert(0, str(ROOT))
    with tempfile.TemporaryDirectory() as config:
        os.environ["NAPARI_CTVQA_CONFIG_DIR"] = config  # no layout of an earlier session
        os.environ["NAPARI_CONFIG"] = str(Path(config) / "napari.yaml")
        _picture_all(out)
    return 0


def _picture_all(out: Path) -> None:
    import napari

    from napari_ctvqa import demo
    from napari_ctvqa.widgets.app import App, app_for
    from napari_ctvqa.widgets.launch import WINDOW_SIZE_PX, wait_until
    from napari_ctvqa.widgets.planes_area import Layout

    viewer = napari.Viewer(title="CT-VQA", show=False, show_welcome_screen=False)
    app: App = app_for(viewer)
    app.arrange()
    viewer.window.show()
    app.arrange()
    viewer.window.resize(*WINDOW_SIZE_PX)
    root = demo.ensure_demo()
    os.chdir(root.parent)  # what is told of files names no folder of this machine
    app.coordinator.open(Path(root.name), question_id=demo.FIRST_QUESTION)
    app.coordinator.focus.first_difference(demo.FIRST_MODEL)
    wait_until(lambda: not app.coordinator.busy)
    layouts: dict[str, Callable[[], None]] = {
        "one": lambda: app.layouts.show(Layout.ONE),
        "three": lambda: app.layouts.show(Layout.THREE),
        "four": lambda: app.layouts.show(Layout.FOUR),
        "pictures_alone": app.layouts.toggle_picture_alone,
    }
    for theme in THEMES:
        viewer.theme = theme
        for name, show in layouts.items():
            show()
            wait_until(lambda: False, QUIET_S if name == "four" else SETTLE_S)
            path = out / f"layout_{name}_{theme}.png"
            viewer.screenshot(str(path), canvas_only=False, flash=False)
            _make_small(path)
            sys.stdout.write(f"{path}: {path.stat().st_size // 1024} KiB\n")
    viewer.close()


def _make_small(path: Path) -> None:
    from PIL import Image

    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(
            256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
        )
    small.save(path, optimize=True)


if __name__ == "__main__":
    sys.exit(main())
