"""Time to open and scroll a large case against a public NIfTI reader for napari, in one run.

The reference case: a 512 x 512 x 300 int16 CT and 40 single-organ mask files, generated. The peer
is napari-nifti, its masks opened as labels layers. Each arm runs in a process of its own, one
after the other, in a window of the same size on the same display; printed are medians and the
ratios that the project promises to keep. See timings/README.md.
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

import numpy as np

SHAPE_ZYX = (300, 512, 512)
SPACING_MM = (0.8, 0.8, 1.5)
WINDOW = (1366, 768)
SCREEN = "1366x768x24"
PEER = "napari-nifti"
TARGETS = {"cold open": 1 / 5, "memory": 1 / 5, "scroll": 1 / 4}
SCROLLED = 60
CALM_LOAD = 1.5

# Centre and half-axes as parts of the body's box (x to the patient's left, y to the back, z down).
ORGANS = {
    "liver": (0.30, 0.42, 0.30, 0.20, 0.22, 0.15),
    "spleen": (0.76, 0.58, 0.28, 0.07, 0.10, 0.09),
    "stomach": (0.64, 0.38, 0.30, 0.12, 0.12, 0.10),
    "pancreas": (0.52, 0.48, 0.42, 0.14, 0.05, 0.03),
    "gallbladder": (0.36, 0.34, 0.42, 0.04, 0.05, 0.05),
    "kidney_right": (0.32, 0.66, 0.45, 0.06, 0.07, 0.09),
    "kidney_left": (0.68, 0.66, 0.43, 0.06, 0.07, 0.09),
    "adrenal_gland_right": (0.38, 0.60, 0.36, 0.02, 0.03, 0.02),
    "adrenal_gland_left": (0.60, 0.60, 0.36, 0.02, 0.03, 0.02),
    "lung_upper_lobe_left": (0.72, 0.42, 0.10, 0.14, 0.24, 0.10),
    "lung_lower_lobe_left": (0.72, 0.62, 0.16, 0.14, 0.18, 0.10),
    "lung_upper_lobe_right": (0.28, 0.42, 0.08, 0.14, 0.24, 0.08),
    "lung_middle_lobe_right": (0.26, 0.34, 0.17, 0.12, 0.14, 0.05),
    "lung_lower_lobe_right": (0.28, 0.62, 0.16, 0.14, 0.18, 0.10),
    "heart": (0.54, 0.38, 0.14, 0.13, 0.15, 0.10),
    "aorta": (0.53, 0.62, 0.40, 0.025, 0.035, 0.38),
    "inferior_vena_cava": (0.45, 0.58, 0.45, 0.025, 0.03, 0.30),
    "portal_vein_and_splenic_vein": (0.52, 0.50, 0.38, 0.14, 0.02, 0.02),
    "duodenum": (0.42, 0.48, 0.46, 0.06, 0.06, 0.05),
    "small_bowel": (0.50, 0.40, 0.66, 0.26, 0.18, 0.14),
    "colon": (0.50, 0.38, 0.58, 0.34, 0.24, 0.20),
    "urinary_bladder": (0.50, 0.40, 0.92, 0.10, 0.12, 0.06),
    "spinal_cord": (0.50, 0.78, 0.48, 0.014, 0.02, 0.47),
    "esophagus": (0.51, 0.60, 0.12, 0.02, 0.025, 0.12),
    "autochthon_left": (0.58, 0.84, 0.48, 0.06, 0.07, 0.46),
    "autochthon_right": (0.42, 0.84, 0.48, 0.06, 0.07, 0.46),
    "iliopsoas_left": (0.60, 0.62, 0.72, 0.05, 0.07, 0.22),
    "iliopsoas_right": (0.40, 0.62, 0.72, 0.05, 0.07, 0.22),
    "hip_left": (0.72, 0.62, 0.86, 0.09, 0.16, 0.12),
    "hip_right": (0.28, 0.62, 0.86, 0.09, 0.16, 0.12),
    "gluteus_maximus_left": (0.68, 0.84, 0.90, 0.12, 0.10, 0.10),
    "gluteus_maximus_right": (0.32, 0.84, 0.90, 0.12, 0.10, 0.10),
    "sacrum": (0.50, 0.76, 0.82, 0.08, 0.08, 0.08),
    **{f"vertebrae_L{n}": (0.50, 0.70, 0.43 + 0.07 * n, 0.05, 0.07, 0.028) for n in range(1, 6)},
    "vertebrae_T12": (0.50, 0.70, 0.43, 0.05, 0.07, 0.028),
    "vertebrae_T11": (0.50, 0.70, 0.37, 0.05, 0.07, 0.028),
}


# The case -----------------------------------------------------------------------------------


def make_case(folder: Path) -> Path:
    """Write the reference case; return its folder."""
    import nibabel as nib

    rng = np.random.default_rng(20)
    affine = np.diag([-SPACING_MM[0], -SPACING_MM[1], SPACING_MM[2], 1.0])
    affine[:3, 3] = [204.4, 204.4, -300.0]
    ct = rng.normal(-1000, 12, SHAPE_ZYX).astype(np.int16)
    y, x = np.ogrid[-1:1:512j, -1:1:512j]
    body = (x / 0.88) ** 2 + (y / 0.62) ** 2 < 1
    ct[:, body] += 1030
    (folder / "segmentations").mkdir(parents=True)
    for number, (name, place) in enumerate(ORGANS.items()):
        mask = np.zeros(SHAPE_ZYX, np.uint8)
        box, inside = blob(place, rng)
        mask[box][inside] = 1
        ct[box][inside] += np.int16(number * 5 - 60)
        save(folder / "segmentations" / f"{name}.nii.gz", mask, affine, nib)
    save(folder / "ct.nii.gz", ct, affine, nib)
    return folder


def blob(
    place: tuple[float, ...], rng: np.random.Generator
) -> tuple[tuple[slice, ...], np.ndarray]:
    """Return a box and the voxels in it of an ellipsoid with an uneven surface."""
    from scipy.ndimage import zoom

    low, high = np.array([0.0, 97.0, 30.0]), np.array([300.0, 415.0, 481.0])
    size = high - low
    centre = low + size * place[2::-1]
    half = np.maximum(size * place[:2:-1], 3.0)
    first = np.maximum(np.floor(centre - 1.3 * half), 0).astype(int)
    last = np.minimum(np.ceil(centre + 1.3 * half), SHAPE_ZYX).astype(int)
    box = tuple(slice(a, b) for a, b in zip(first, last, strict=True))
    axes = np.ogrid[box]
    distance = sum(((a - c) / h) ** 2 for a, c, h in zip(axes, centre, half, strict=True))
    rough = zoom(rng.normal(0, 0.22, (7, 7, 7)), np.array(distance.shape) / 7, order=1)
    return box, distance + rough < 1


def save(path: Path, array_zyx: np.ndarray, affine: np.ndarray, nib) -> None:
    """Write one file as common tools write it: gzip, first axis fastest, plain header."""
    # Stored superior first in memory; NIfTI's third axis runs to superior here.
    nib.save(nib.Nifti1Image(array_zyx[::-1].T, affine), path)


# The arms: each runs alone in its process and prints one line of JSON -------------------------


class Window:
    """A napari window of a set size, and the time until what it shows is drawn."""

    def __init__(self) -> None:
        import napari
        from qtpy.QtWidgets import QApplication

        self.viewer = napari.Viewer(show=True)
        self.viewer.window.resize(*WINDOW)
        self.app = QApplication.instance()
        self.canvas = self.viewer.window._qt_viewer.canvas._scene_canvas
        self.draw()

    def draw(self) -> None:
        """Work through all events and wait until the picture is complete."""
        from vispy.gloo import gl

        self.app.processEvents()
        self.canvas.native.repaint()
        self.canvas.set_current()
        gl.glFinish()

    def scroll_ms(self, viewer_axis: int = 0) -> float:
        """Return the median time of one slice step, drawn."""
        count = SHAPE_ZYX[0]
        took = []
        for index in np.linspace(20, count - 20, SCROLLED).astype(int):
            start = time.perf_counter()
            self.viewer.dims.set_current_step(viewer_axis, int(index))
            self.draw()
            took.append(time.perf_counter() - start)
        return 1000 * statistics.median(took)

    @property
    def canvas_size(self) -> list[int]:
        """Return width and height of the drawn picture in pixels."""
        return [int(n) for n in self.canvas.size]


def peak_mb() -> float:
    """Return the largest resident size of this process so far."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) / 1024


def run_empty(_: Path) -> dict[str, object]:
    window = Window()
    return {"peak_mb": peak_mb(), "canvas": window.canvas_size}


def run_ours(folder: Path) -> dict[str, object]:
    from napari_ctvqa.core.session import CaseState, Session
    from napari_ctvqa.io.case_cache import CaseCache
    from napari_ctvqa.io.case_files import find_case
    from napari_ctvqa.widgets.background import Job
    from napari_ctvqa.widgets.layers import CaseLayers

    window, session, cache = Window(), Session(), CaseCache()
    layers = CaseLayers(window.viewer, session)

    def open_case() -> list[float]:
        """Open the case as the window does; return when each of its steps was drawn."""
        drawn: list[float] = []
        shown: list[bool] = []

        def show(case) -> None:
            session.update(case=case, case_state=CaseState.CT_SHOWN)
            shown.append(case.complete)

        start = time.perf_counter()
        session.update(case=None, case_state=CaseState.LOADING)
        job = Job(cache.open_steps(find_case(folder)))
        job.item.connect(show)
        job.start()
        while not any(shown[: len(drawn)]):
            window.app.processEvents()
            if len(shown) > len(drawn):
                steps = len(shown)
                window.draw()
                drawn += [time.perf_counter() - start] * (steps - len(drawn))
            time.sleep(0.001)
        return drawn

    cpu = time.process_time()
    drawn = open_case()
    cpu_s = time.process_time() - cpu
    peak = peak_mb()
    masks = len(session.case.masks)
    assert masks == len(ORGANS) and layers.layer("organs") is not None
    scroll_ms = window.scroll_ms()
    layers.toggle_overlays()
    scroll_ct_ms = window.scroll_ms()
    layers.toggle_overlays()
    window.draw()
    return {
        "ct_s": drawn[0],
        "open_s": drawn[-1],
        "cpu_s": cpu_s,
        "again_s": open_case()[-1],
        "peak_mb": peak,
        "scroll_ms": scroll_ms,
        "scroll_ct_ms": scroll_ct_ms,
        "masks": masks,
        "canvas": window.canvas_size,
    }


def run_peer(folder: Path) -> dict[str, object]:
    import napari_nifti._reader  # noqa: F401  # as much imported before the clock starts as ours

    window = Window()
    masks = sorted(str(path) for path in (folder / "segmentations").iterdir())
    start, cpu = time.perf_counter(), time.process_time()
    window.viewer.open(str(folder / "ct.nii.gz"), plugin=PEER)
    window.draw()
    ct_s = time.perf_counter() - start
    window.viewer.open(masks, plugin=PEER, layer_type=os.environ["PEER_LAYERS"])
    window.draw()
    open_s, cpu_s = time.perf_counter() - start, time.process_time() - cpu
    assert len(window.viewer.layers) == 1 + len(masks)
    return {
        "ct_s": ct_s,
        "open_s": open_s,
        "cpu_s": cpu_s,
        "peak_mb": peak_mb(),
        "scroll_ms": window.scroll_ms(),
        "masks": len(masks),
        "canvas": window.canvas_size,
    }


ARMS = {"empty": run_empty, "ours": run_ours, "peer": run_peer}


# The run ------------------------------------------------------------------------------------


def peer_python(folder: Path) -> Path:
    """Return the Python of a throw-away environment: this one's packages plus the peer."""
    home = folder / "peer"
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    paths = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    link = home / "lib" / version / "site-packages" / "this_environment.pth"
    link.write_text("\n".join(sorted(paths)) + "\n", encoding="utf-8")
    subprocess.run([python, "-m", "pip", "install", "-q", PEER], check=True)
    return python


def run_arm(name: str, python: Path, folder: Path) -> dict[str, object]:
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
        sys.exit(f"the arm {name!r} failed:\n{done.stderr[-4000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def medians(rounds: list[dict[str, object]]) -> dict[str, float]:
    keys = [key for key, value in rounds[0].items() if isinstance(value, float)]
    return {key: statistics.median(r[key] for r in rounds) for key in keys}


def report(rounds: dict[str, list[dict[str, object]]]) -> bool:
    """Print the table; return whether all targets are reached."""
    sizes = [r["canvas"] for name in ("ours", "peer") for r in rounds[name]]
    if np.ptp(sizes, axis=0).max() > 2:
        sys.exit(f"the arms drew pictures of different sizes: {sizes}")
    empty, ours, peer = (medians(rounds[name]) for name in ARMS)
    print(
        f"picture {sizes[0]}, {len(rounds['ours'])} rounds, medians; empty napari "
        f"{empty['peak_mb']:.0f} MB"
    )
    rows = {
        "cold open": ("s", ours["open_s"], peer["open_s"]),
        "memory": ("MB", ours["peak_mb"] - empty["peak_mb"], peer["peak_mb"] - empty["peak_mb"]),
        "scroll": ("ms", ours["scroll_ms"], peer["scroll_ms"]),
    }
    print(
        f"ours alone      again {ours['again_s']:.3f} s (1/{ours['open_s'] / ours['again_s']:.1f} "
        f"of cold), slice with masks {ours['scroll_ms'] / ours['scroll_ct_ms']:.2f} x CT alone"
    )
    print(
        f"CT on screen    ours {ours['ct_s']:8.2f} s   peer {peer['ct_s']:8.2f} s   "
        "(no promise; to be no later)"
    )
    print(f"processor time  ours {ours['cpu_s']:8.2f} s   peer {peer['cpu_s']:8.2f} s")
    reached = True
    for name, (unit, mine, theirs) in rows.items():
        ratio = mine / theirs
        reached &= ratio <= TARGETS[name]
        print(
            f"{name:<15} ours {mine:8.2f} {unit:<3} peer {theirs:8.2f} {unit:<3} "
            f"ratio 1/{1 / ratio:.1f} (at most 1/{1 / TARGETS[name]:.0f})"
        )
    return reached


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arm", choices=ARMS, help=argparse.SUPPRESS)
    parser.add_argument("--case", type=Path, help="use this case folder instead of a new one")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer-python", type=Path, help=f"a Python that has {PEER}")
    parser.add_argument("--peer-layers", choices=("labels", "image"), default="labels")
    args = parser.parse_args()
    if args.arm:
        print(json.dumps(ARMS[args.arm](args.case)), flush=True)
        os._exit(0)  # no wait for a window's tear-down; nothing is to be kept
    if not os.environ.get("DISPLAY"):
        if shutil.which("xvfb-run") is None:
            sys.exit("no display and no xvfb-run: apt-get install xvfb")
        command = ["xvfb-run", "-a", "-s", f"-screen 0 {SCREEN}", sys.executable, *sys.argv]
        return subprocess.run(command, check=False).returncode
    load = os.getloadavg()[0]
    if load > CALM_LOAD:
        print(
            f"other work keeps this machine busy (load {load:.1f}): wall times are not to be kept"
        )
    os.environ.setdefault("LIBGL_ALWAYS_SOFTWARE", "1")
    os.environ["PEER_LAYERS"] = args.peer_layers
    with tempfile.TemporaryDirectory(prefix="open-case-") as temporary:
        folder = Path(temporary)
        case = args.case or make_case(folder / "case")
        peer = args.peer_python or peer_python(folder)
        rounds: dict[str, list[dict[str, object]]] = {name: [] for name in ARMS}
        for _ in range(args.rounds):
            for name in ARMS:
                python = peer if name == "peer" else Path(sys.executable)
                rounds[name].append(run_arm(name, python, case))
    return 0 if report(rounds) else 1


if __name__ == "__main__":
    sys.exit(main())
