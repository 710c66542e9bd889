"""Time of one slice step: the CT alone, with all masks, with one mask in focus, with all the text.

A generated case (512 x 512 x 300, 40 organs and 3 lesions that touch and overlap) in one window;
the arms take turns, so that whatever else the machine does hits all of them. Printed are medians
and their ratios to the CT alone, which the project promises to keep. See timings/README.md.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari_ctvqa.core.cases import Case, LabelMap, Mask
    from napari_ctvqa.core.geometry import Grid

SHAPE_ZYX = (300, 512, 512)
WINDOW = (1366, 768)
PROMISED = 1.5
STEPS, ROUNDS = 12, 8


def make_case() -> Case:
    from napari_ctvqa.core.cases import Case, CaseFiles, GeometryReport, Volume
    from napari_ctvqa.core.geometry import FileSpace, grid_of_file, to_display

    rng = np.random.default_rng(3)
    affine = np.diag([-0.8, -0.8, 1.5, 1.0])
    stored = rng.normal(40, 30, SHAPE_ZYX[::-1]).astype(np.int16)
    grid = grid_of_file(FileSpace(stored.shape, affine, 1, 1))
    hu = to_display(stored, grid)
    organs = [ball(f"organ {n}", grid, rng, (20, 70)) for n in range(40)]
    lesions = [ball(f"lesion {n}", grid, rng, (6, 15)) for n in range(3)]
    volume = Volume(hu, grid, hu, grid, GeometryReport(), Path("ct.nii.gz"), -200.0, 300.0)
    return Case(
        CaseFiles("timing", None),
        volume,
        {mask.structure: mask for mask in (*organs, *lesions)},
        GeometryReport(),
        {"organs": painted("organs", organs), "lesions": painted("lesions", lesions)},
    )


def ball(name: str, grid: Grid, rng: np.random.Generator, radii: tuple[int, int]) -> Mask:
    from napari_ctvqa.core.cases import Mask, Region, Source

    half = rng.integers(*radii, 3)
    centre = [int(rng.integers(h, size - h)) for h, size in zip(half, SHAPE_ZYX, strict=True)]
    z, y, x = np.ogrid[tuple(slice(-1, 1, complex(2 * h)) for h in half)]
    inside = z**2 + y**2 + x**2 < 1
    b = [slice(c - h, c + h) for c, h in zip(centre, map(int, half), strict=True)]
    region = Region(grid, (b[0], b[1], b[2]), inside, int(inside.sum()))
    return Mask(name, name, Source.REFERENCE, region, region, lesion=name.startswith("lesion"))


def painted(group: str, masks: list[Mask]) -> LabelMap:
    from napari_ctvqa.core.cases import LabelMap

    labels = np.zeros(SHAPE_ZYX, np.uint8)
    for value, mask in enumerate(masks, start=1):
        labels[mask.region.box_zyx][mask.region.crop_zyx] = value
    return LabelMap(group, labels, {v: m.structure for v, m in enumerate(masks, start=1)})


def measure() -> dict[str, float]:
    import napari
    from qtpy.QtWidgets import QApplication, QDockWidget, QLabel

    from napari_ctvqa.core.session import Session
    from napari_ctvqa.widgets.layers import CaseLayers
    from napari_ctvqa.widgets.overlays import Overlays, canvas_of
    from napari_ctvqa.widgets.probe import ProbeStrip

    viewer = napari.Viewer(show=True)
    viewer.window.resize(*WINDOW)
    window = viewer.window.add_dock_widget(QLabel("dock"), area="bottom").window()
    for dock in window.findChildren(QDockWidget):
        if dock.objectName() in ("layer list", "layer controls"):
            dock.hide()
    session, canvas = Session(), canvas_of(window)
    layers = CaseLayers(viewer, session)
    case = make_case()
    session.update(case=case)
    written: list[Overlays | ProbeStrip] = []

    def text(shown: bool) -> None:
        if shown and not written:
            written.append(Overlays(viewer, layers, canvas))
            strip = ProbeStrip(viewer, layers, canvas)
            window.statusBar().addWidget(strip, 1)
            written.append(strip)
        elif not shown and written:
            written.pop().close_probe()
            written.pop().close()

    def arm(masks: bool, focus: str, shown: bool) -> None:
        if layers.overlays_shown != masks:
            layers.toggle_overlays()
        layers.highlight(case.masks.get(focus))
        text(shown)

    arms: dict[str, Callable[[], None]] = {
        "CT alone": lambda: arm(False, "", False),
        "all masks": lambda: arm(True, "", False),
        "all masks, one in focus": lambda: arm(True, "organ 0", False),
        "all masks, markers, text, legend, probe": lambda: arm(True, "", True),
    }
    times: dict[str, list[float]] = {name: [] for name in arms}
    start = case.masks["organ 0"].region.box_zyx[0].start + 5
    for turn in range(ROUNDS + 1):
        for name, prepare in arms.items():
            prepare()
            for _ in range(3):
                QApplication.processEvents()
            for index in range(start, start + STEPS):
                before = time.perf_counter()
                layers.go_to(0, index)
                canvas.repaint()
                QApplication.processEvents()
                if turn:
                    times[name].append(time.perf_counter() - before)
    text(False)
    viewer.close()
    return {name: 1000 * statistics.median(found) for name, found in times.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.parse_args()
    if not os.environ.get("DISPLAY") and sys.platform == "linux" and shutil.which("xvfb-run"):
        screen = ["xvfb-run", "-a", "-s", "-screen 0 1366x768x24", sys.executable, __file__]
        return subprocess.call(screen, env=os.environ | {"LIBGL_ALWAYS_SOFTWARE": "1"})
    found = measure()
    alone = found["CT alone"]
    for name, milliseconds in found.items():
        print(f"{name:42} {milliseconds:6.1f} ms   {milliseconds / alone:5.2f} ×")
    kept = found["all masks"] / alone <= PROMISED
    print(f"promise: all masks at most {PROMISED} × the CT alone: {'kept' if kept else 'BROKEN'}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
