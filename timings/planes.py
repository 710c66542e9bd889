"""Three linked planes of a large case against napari with the CT alone, and against a public peer.

The reference case: 512 x 512 x 300, generated: an int16 CT, 61 organs, 3 lesions, a tool's mask.
Ours shows it in three planes; the measure is a napari window beside it that shows the CT alone in
one plane, its window and picture as large as ours; the two take turns in one process. The peer is
napari-orthogonal-views, which goes into a throw-away environment; each of its arms is a process
of its own, with pictures of the same sizes. Printed are medians and the ratios that the project
promises to keep. See timings/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari_ctvqa.core.cases import Case, LabelMap, Mask
    from napari_ctvqa.core.geometry import Grid

SHAPE_ZYX = (300, 512, 512)
SPACING_MM_ZYX = (1.5, 0.8, 0.8)
SCREEN = "1920x1080x24"
WINDOW = (1366, 768)
PEER = "napari-orthogonal-views"
SIZES_PX = [(700, 420), (420, 420), (700, 300)]
"""Main picture, the one to its right, the one below it."""
STEPS, ROUNDS, CHANGES = 12, 6, 50
PROMISED = {
    "three planes": 2.2,
    "one plane": 1.5,
    "opening": 1 / 5,
    "memory": 1 / 2,
    "slice": 1 / 2,
}
GROWTH = 0.05


# The case -----------------------------------------------------------------------------------


def make_arrays(folder: Path) -> None:
    """Write CT and label arrays, (z, y, x), for all arms to load."""
    rng = np.random.default_rng(5)
    _, y, x = np.ogrid[-1:1:300j, -1:1:512j, -1:1:512j]
    body = (x / 0.88) ** 2 + (y / 0.62) ** 2 < 1
    ct = rng.normal(0, 14, SHAPE_ZYX).astype(np.int16)
    ct += np.where(body, np.int16(40), np.int16(-1000))
    np.save(folder / "ct.npy", ct)
    for name, count, radii in (
        ("organs", 61, (16, 60)),
        ("lesions", 3, (5, 14)),
        ("tool", 1, (30, 60)),
    ):
        labels = np.zeros(SHAPE_ZYX, np.uint8)
        for value in range(1, count + 1):
            half = rng.integers(*radii, 3)
            centre = [
                int(rng.integers(max(h, 0.12 * n), min(n - h, 0.88 * n)))
                for h, n in zip(half, SHAPE_ZYX, strict=True)
            ]
            box = tuple(slice(c - h, c + h) for c, h in zip(centre, map(int, half), strict=True))
            a, b, c = np.ogrid[tuple(slice(-1, 1, complex(2 * h)) for h in half)]
            labels[box][a**2 + b**2 + c**2 < 1] = value
        np.save(folder / f"{name}.npy", labels)


def make_case(folder: Path, case_id: str) -> tuple[Case, tuple[Mask, ...]]:
    """Return the case, and what the tool found."""
    from napari_ctvqa.core.cases import Case, CaseFiles, GeometryReport, LabelMap, Source, Volume
    from napari_ctvqa.core.geometry import FileSpace, grid_of_file

    z, y, x = SPACING_MM_ZYX
    affine = np.diag([-x, -y, -z, 1.0])
    grid = grid_of_file(FileSpace(SHAPE_ZYX[::-1], affine, 1, 1))
    ct = np.load(folder / "ct.npy")
    volume = Volume(ct, grid, ct, grid, GeometryReport(), Path("ct.nii.gz"), -1060.0, 110.0)
    masks: dict[str, Mask] = {}
    maps: dict[str, LabelMap] = {}
    for group in ("organs", "lesions"):
        labels = np.load(folder / f"{group}.npy")
        found = masks_of(labels, group[:-1], grid, Source.REFERENCE)
        masks |= {mask.structure: mask for mask in found.values()}
        maps[group] = LabelMap(group, labels, {v: m.structure for v, m in found.items()})
    tool = masks_of(np.load(folder / "tool.npy"), "tool", grid, Source.TOOL)
    case = Case(CaseFiles(case_id, None), volume, masks, GeometryReport(), maps)
    return case, tuple(tool.values())


def masks_of(labels: np.ndarray, name: str, grid: Grid, source: Any) -> dict[int, Mask]:
    from scipy.ndimage import find_objects

    from napari_ctvqa.core.cases import Mask, Region

    found: dict[int, Mask] = {}
    for value, box in enumerate(find_objects(labels), start=1):
        if box is None:
            continue
        inside = labels[box] == value
        region = Region(grid, box, inside, int(inside.sum()))
        title = f"{name} {value}"
        lesion = name == "lesion"
        found[value] = Mask(title, title, source, region, region, lesion=lesion)
    return found


# Windows ------------------------------------------------------------------------------------


class Picture:
    """napari's picture in one window: its size, and whether it was drawn since it was asked."""

    def __init__(self, viewer: Any) -> None:
        self.viewer = viewer
        self.scene_canvas = viewer.window._qt_viewer.canvas._scene_canvas
        self.native = self.scene_canvas.native
        self.drawn = False
        self.scene_canvas.events.draw.connect(self._on_draw)

    def _on_draw(self, event: Any) -> None:
        self.drawn = True


def open_window() -> Any:
    import napari
    from qtpy.QtWidgets import QApplication, QDockWidget

    viewer = napari.Viewer(show=True)
    viewer.window.resize(*WINDOW)
    for dock in viewer.window._qt_window.findChildren(QDockWidget):
        dock.hide()
    QApplication.processEvents()
    return viewer


def wait_until(done: Callable[[], bool], seconds: float = 20.0) -> None:
    from qtpy.QtWidgets import QApplication

    end = time.perf_counter() + seconds
    while not done():
        QApplication.processEvents()
        if time.perf_counter() > end:
            sys.exit("a picture was not drawn in time")


def finish(picture: Any) -> None:
    from vispy.gloo import gl

    picture.native.makeCurrent()
    gl.glFinish()
    picture.native.doneCurrent()


Took = tuple[float, float]
"""Milliseconds on the clock, and of processor time."""


def took(picture: Any, change: Callable[[], None], done: Callable[[], bool]) -> Took:
    """Return the time from a change to its last pixel."""
    picture.drawn = False
    start, cpu = time.perf_counter(), time.process_time()
    change()
    wait_until(done)
    finish(picture)
    return 1000 * (time.perf_counter() - start), 1000 * (time.process_time() - cpu)


def settle(seconds: float = 0.5) -> None:
    end = time.perf_counter() + seconds
    wait_until(lambda: time.perf_counter() > end, seconds + 30)


def status_mb(name: str) -> float:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(name))) / 1024


# The arms: each runs in a process of its own and prints one line of JSON -------------------------


def run_empty(folder: Path, sizes: list[list[int]]) -> dict[str, Any]:
    open_window()
    settle()
    return {"peak_mb": status_mb("VmHWM")}


class Ours:
    """The planes in a window of their own, with the pictures' sizes set."""

    def __init__(self, sizes: list[list[int]]) -> None:
        from qtpy.QtWidgets import QLabel

        from napari_ctvqa.core.session import Session
        from napari_ctvqa.widgets.layers import CaseLayers
        from napari_ctvqa.widgets.overlays import canvas_of
        from napari_ctvqa.widgets.planes import Planes
        from napari_ctvqa.widgets.planes_area import Layout

        self.viewer = open_window()
        label = QLabel("window")
        dock = self.viewer.window.add_dock_widget(label, area="bottom")
        window = label.window()
        dock.hide()
        self.session = Session()
        self.layers = CaseLayers(self.viewer, self.session)
        self.planes = Planes(self.viewer, self.layers, canvas_of(window), window)
        self.planes.show_layout(Layout.THREE)
        settle()
        self.picture = Picture(self.viewer)
        self.set_sizes(sizes)

    def set_sizes(self, sizes: list[list[int]]) -> None:
        """Give the three pictures their sizes."""
        area, native = self.planes.area, self.picture.native
        for _ in range(3):
            main = area.main
            more = [sizes[0][0] - native.width(), sizes[0][1] - native.height()]
            main.setGeometry(0, 0, main.width() + more[0], main.height() + more[1])
            settle(0.1)
        for canvas, size, corner in zip(
            self.planes.beside, sizes[1:], ((720, 0), (0, 520)), strict=True
        ):
            canvas.setGeometry(*corner, *size)
        settle()

    def sizes(self) -> list[list[int]]:
        """Return the pictures' widths and heights in pixels."""
        widgets = [self.picture.native, *self.planes.beside]
        return [[widget.width(), widget.height()] for widget in widgets]

    def show(self, case: Case, tool: tuple[Mask, ...]) -> None:
        """Show a case and what a tool found in it, in all planes."""
        from napari_ctvqa.core.cases import Source

        self.session.update(case=case)
        self.layers.show_masks(Source.TOOL, tool)
        self.planes.catch_up()

    def painted(self) -> bool:
        """Return whether all planes are drawn since they were asked."""
        return self.picture.drawn and all(c._picture is not None for c in self.planes.beside)

    def drawn_after(self, change: Callable[[], None], done: Callable[[], bool]) -> Took:
        """Return the milliseconds from a change to its last pixel."""
        return took(self.picture, change, done)


def run_ours(folder: Path, sizes: list[list[int]]) -> dict[str, Any]:
    ours = Ours(sizes)
    case, tool = make_case(folder, "first")
    start = time.perf_counter()
    ours.picture.drawn = False
    ours.show(case, tool)
    wait_until(ours.painted)
    finish(ours.picture)
    opened = time.perf_counter() - start
    settle()
    peak = status_mb("VmHWM")
    ours.set_sizes(sizes)  # again: with a case napari has a slider below its picture
    found: dict[str, Any] = {"open_s": opened, "peak_mb": peak, "sizes": ours.sizes()}
    found |= against_ct_alone(ours, case)
    found |= many_changes(ours, case, tool)
    return found


def against_ct_alone(ours: Ours, case: Case) -> dict[str, float]:
    """Return medians of ours and of a plain napari window with the CT alone, taking turns."""
    viewer = open_window()
    viewer.add_image(
        case.volume.display_zyx,
        scale=SPACING_MM_ZYX,
        contrast_limits=(-160, 240),
        interpolation2d="linear",
    )
    plain = Picture(viewer)
    size = [ours.picture.native.width(), ours.picture.native.height()]
    pad(viewer, plain, size)
    viewer.fit_to_view(margin=0.02)
    settle()
    found = [plain.native.width(), plain.native.height()]
    if max(abs(a - b) for a, b in zip(found, size, strict=True)) > 2:
        sys.exit(f"the arms drew pictures of different sizes: {found}, {size}")

    def alone(n: int) -> Took:
        return took(plain, lambda: viewer.dims.set_current_step(0, n), lambda: plain.drawn)

    layers, main = ours.layers, lambda: ours.picture.drawn
    coronal = ours.planes.beside[0]
    arms: dict[str, Callable[[int], Took]] = {
        "ct_alone": alone,
        "three": lambda n: ours.drawn_after(
            lambda: layers.move_to((n, 100 + n, 150 + n)), ours.painted
        ),
        "one": lambda n: ours.drawn_after(lambda: layers.go_to(0, n), main),
        "beside": lambda n: ours.drawn_after(
            lambda: layers.go_to(1, 100 + n), lambda: coronal._picture is not None
        ),
    }
    times: dict[str, list[Took]] = {name: [] for name in arms}
    for turn in range(ROUNDS + 1):
        for name, step in arms.items():
            settle(0.15)
            for n in range(110 + turn, 110 + turn + STEPS):
                found = step(n)
                if turn:
                    times[name].append(found)
    viewer.close()
    return medians(times)


def medians(times: dict[str, list[Took]]) -> dict[str, float]:
    """Return the medians of each, on the clock (``_ms``) and of the processor (``_cpu_ms``)."""
    kinds = ("ms", "cpu_ms")
    return {
        f"{name}_{kind}": statistics.median(one[n] for one in found)
        for name, found in times.items()
        for n, kind in enumerate(kinds)
    }


def pad(viewer: Any, picture: Picture, size: list[int]) -> None:
    """Fill a window with empty docks until its picture has a size.

    So both windows are as large, too: with software OpenGL, putting a window of this size
    together takes as long as drawing the CT.
    """
    from qtpy.QtWidgets import QWidget

    right, low = QWidget(), QWidget()
    viewer.window.add_dock_widget(right, area="right", name="right")
    viewer.window.add_dock_widget(low, area="bottom", name="low")
    settle(0.3)
    for _ in range(4):
        right.setFixedWidth(max(right.width() + picture.native.width() - size[0], 1))
        low.setFixedHeight(max(low.height() + picture.native.height() - size[1], 1))
        settle(0.3)


def many_changes(ours: Ours, case: Case, tool: tuple[Mask, ...]) -> dict[str, float]:
    """Return by how much the memory grew over many case changes, after the first few."""
    from dataclasses import replace

    from napari_ctvqa.core.cases import CaseFiles

    before = 0.0
    for n in range(CHANGES):
        files = CaseFiles(f"case {n}", None)
        volume = replace(case.volume, array_zyx=case.volume.array_zyx.copy())
        volume = replace(volume, display_zyx=volume.array_zyx)
        ours.picture.drawn = False
        ours.show(replace(case, files=files, volume=volume), tool)
        wait_until(ours.painted)
        settle(0.05)
        if n == 4:
            before = status_mb("VmRSS")
    return {"growth": status_mb("VmRSS") / before - 1}


def run_peer(folder: Path, sizes: list[list[int]], *, layer_a_mask: bool = False) -> dict[str, Any]:
    from napari_orthogonal_views.ortho_view_manager import _get_manager

    viewer = open_window()
    picture = Picture(viewer)
    ct = np.load(folder / "ct.npy")
    labels = {name: np.load(folder / f"{name}.npy") for name in ("organs", "lesions", "tool")}
    if layer_a_mask:
        labels = {
            f"{name} {value}": (array == value).view(np.uint8)
            for name, array in labels.items()
            for value in range(1, int(array.max()) + 1)
        }
    settle()
    start = time.perf_counter()
    viewer.add_image(ct, scale=SPACING_MM_ZYX, contrast_limits=(-160, 240))
    for name, array in labels.items():
        viewer.add_labels(array, name=name, scale=SPACING_MM_ZYX, opacity=0.3)
    manager = _get_manager(viewer)
    manager.show()
    views = [manager.right_widget, manager.bottom_widget]
    others = [
        view.qt_viewers[0] if hasattr(view, "qt_viewers") else view.qt_viewer for view in views
    ]
    canvases = [picture.scene_canvas, *(v.canvas._scene_canvas for v in others)]
    drawn: set[int] = set()
    for number, canvas in enumerate(canvases):
        canvas.events.draw.connect(lambda event, number=number: drawn.add(number))
    wait_until(lambda: len(drawn) == 3, 120)
    finish(picture)
    opened = time.perf_counter() - start
    set_peer_sizes(manager, viewer, [c.native for c in canvases], sizes)
    settle()
    peak = status_mb("VmHWM")

    def step(point: tuple[int, int, int], expected: int) -> Took:
        drawn.clear()
        return took(
            picture,
            lambda: setattr(viewer.dims, "current_step", point),
            lambda: len(drawn) >= expected and 0 in drawn,
        )

    three = [step((n, 100 + n, 150 + n), 3) for n in range(110, 110 + STEPS)]
    one = [step((n, 211, 261), 1) for n in range(110, 110 + STEPS)]
    return {
        "open_s": opened,
        "peak_mb": peak,
        **medians({"three": three[1:], "one": one[1:]}),
        "sizes": [[c.native.width(), c.native.height()] for c in canvases],
    }


def run_peer_mask(folder: Path, sizes: list[list[int]]) -> dict[str, Any]:
    return run_peer(folder, sizes, layer_a_mask=True)


def set_peer_sizes(manager: Any, viewer: Any, natives: list[Any], sizes: list[list[int]]) -> None:
    """Give the peer's three pictures their sizes: fixed ones, which its splitters obey."""
    for native, size in zip(natives, sizes, strict=True):
        native.setFixedSize(*size)
    settle(0.3)


ARMS = {"empty": run_empty, "ours": run_ours, "peer": run_peer, "peer_mask": run_peer_mask}


# The run ------------------------------------------------------------------------------------


def peer_python(folder: Path) -> Path | None:
    """Return the Python of a throw-away environment with the peer; None where pip has none."""
    home = folder / "peer"
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    paths = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    link = home / "lib" / version / "site-packages" / "this_environment.pth"
    link.write_text("\n".join(sorted(paths)) + "\n", encoding="utf-8")
    done = subprocess.run([python, "-m", "pip", "install", "-q", PEER], check=False)
    return None if done.returncode else python


def run_arm(name: str, python: Path, folder: Path) -> dict[str, Any]:
    root = Path(__file__).resolve().parents[1]
    environment = os.environ | {"PYTHONPATH": str(root), "NAPARI_ASYNC": "0"}
    done = subprocess.run(
        [python, __file__, "--arm", name, "--case", folder],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"the arm {name!r} failed:\n{done.stdout[-500:]}{done.stderr[-4000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def judge(name: str, ratio: float, text: str) -> bool:
    kept = ratio <= PROMISED[name]
    print(f"{text:58} {ratio:6.3f} x (at most {PROMISED[name]:g}) {'kept' if kept else 'BROKEN'}")
    return kept


def report(found: dict[str, dict[str, Any]]) -> bool:
    """Print the table; return whether all promises are kept."""
    ours, empty = found["ours"], found["empty"]
    print(f"pictures {ours['sizes']}; in brackets: of the processor's time")
    alone, alone_cpu = ours["ct_alone_ms"], ours["ct_alone_cpu_ms"]
    print(f"napari with the CT alone {alone:.1f} ms a slice ({alone_cpu:.1f})")
    kept = True
    for name, key in (("three planes", "three"), ("one plane", "one")):
        ms, cpu = ours[f"{key}_ms"], ours[f"{key}_cpu_ms"]
        kept &= judge(name, ms / alone, f"{name} {ms:.1f} ms ({cpu:.1f}: {cpu / alone_cpu:.2f} x)")
    print(f"a plane beside the main one {ours['beside_ms']:.1f} ms ({ours['beside_cpu_ms']:.1f})")
    grown = ours["growth"]
    print(f"memory over {CHANGES} case changes {100 * grown:+.1f} % (at most {100 * GROWTH:.0f})")
    kept &= grown <= GROWTH
    for arm, text in (("peer", "one layer a source"), ("peer_mask", "one layer a mask")):
        if arm not in found:
            continue
        peer = found[arm]
        print(f"{PEER}, {text}, pictures {peer['sizes']}")
        rows = (
            ("opening", "open_s", "s", 0.0),
            ("memory", "peak_mb", "MB", empty["peak_mb"]),
            ("slice", "three_ms", "ms", 0.0),
            ("slice", "one_ms", "ms", 0.0),
        )
        for name, key, unit, less in rows:
            mine, theirs = ours[key] - less, peer[key] - less
            told = f"  {name} ({key}) ours {mine:.2f} {unit}, peer {theirs:.2f} {unit}"
            good = judge(name, mine / theirs, told)
            kept &= good or arm == "peer"  # the promise is about a mask file a layer
    return kept


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arm", choices=ARMS, help=argparse.SUPPRESS)
    parser.add_argument("--case", type=Path, help="a folder that an earlier run made")
    parser.add_argument("--peer-python", type=Path, help="a Python that has the peer")
    parser.add_argument("--no-peer", action="store_true", help="without the peer")
    options = parser.parse_args()
    if options.arm:
        print(json.dumps(ARMS[options.arm](options.case, SIZES_PX)))
        sys.stdout.flush()
        os._exit(0)  # closing the windows is not measured
    if not os.environ.get("DISPLAY") and sys.platform == "linux" and shutil.which("xvfb-run"):
        screen = ["xvfb-run", "-a", "-s", f"-screen 0 {SCREEN}", sys.executable, *sys.argv]
        return subprocess.call(screen, env=os.environ | {"LIBGL_ALWAYS_SOFTWARE": "1"})
    with tempfile.TemporaryDirectory() as made:
        folder = options.case or Path(made)
        if not (folder / "tool.npy").is_file():
            folder.mkdir(parents=True, exist_ok=True)
            make_arrays(folder)
        python = Path(sys.executable)
        found = {name: run_arm(name, python, folder) for name in ("empty", "ours")}
        other = None if options.no_peer else options.peer_python or peer_python(Path(made))
        if other is None:
            print(f"without the peer: {'asked for' if options.no_peer else f'pip has no {PEER}'}")
        else:
            found |= {name: run_arm(name, other, folder) for name in ("peer", "peer_mask")}
    return 0 if report(found) else 1


if __name__ == "__main__":
    sys.exit(main())
