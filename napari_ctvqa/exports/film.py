"""The evidence chain as a film: a GIF, an MP4, or a folder of PNG pictures, one a step."""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, PngImagePlugin

from napari_ctvqa.core.colours import highlight_colour, highlight_look
from napari_ctvqa.core.errors import CtvqaError, UsageError
from napari_ctvqa.core.label_styles import StyledLabels
from napari_ctvqa.core.names import label
from napari_ctvqa.core.plane_pictures import PlaneScene, Sheet
from napari_ctvqa.core.windows import preset_of_structure
from napari_ctvqa.exports._composing import composed, painted
from napari_ctvqa.exports._views import PROJECT, LegendEntry, Parts, View, view_of

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Case, Mask
    from napari_ctvqa.core.film_steps import FilmStep
    from napari_ctvqa.core.windows import PresetTable

SUFFIXES = (".gif", ".mp4")
FRAMES_PER_SECOND = 10
_COLOURS = 255
_NO_TAGS = ["-map_metadata", "-1", "-fflags", "+bitexact", "-flags:v", "+bitexact"]
"""For ffmpeg: no date, no version, nothing of the input."""

Progress = tuple[int, int]


def film_views(
    case: Case,
    steps: Sequence[FilmStep],
    window_hu: tuple[float, float],
    presets: PresetTable | None = None,
) -> list[View]:
    """Return a view a step: its mask in the colour that stands out, on its slice, with caption.

    With ``presets`` a step on lungs, bones or brain has the window of these, not ``window_hu``.
    """
    volume = case.volume
    middle = volume.display_grid.shape_zyx[0] // 2
    views = []
    for number, step in enumerate(steps, start=1):
        sheets, legend = _standing_out(step.mask) if step.own else ((), ())
        window = _window(step, presets) or window_hu
        scene = PlaneScene(volume.display_zyx, volume.display_grid, window, sheets)
        index = middle if step.index_z is None else step.index_z
        head, *rest = step.lines or ("",)
        caption = (f"Step {number} of {len(steps)}. {head}", *rest)
        views.append(
            view_of(case, scene, 0, index, legend=legend, caption=caption, marked=step.first)
        )
    return views


def _window(step: FilmStep, presets: PresetTable | None) -> tuple[float, float] | None:
    if presets is None or step.mask is None:
        return None
    found = preset_of_structure(step.mask.structure, presets)
    return None if found is None else (found.lo, found.hi)


def _standing_out(mask: Mask | None) -> tuple[tuple[Sheet, ...], tuple[LegendEntry, ...]]:
    if mask is None or mask.region.box_zyx is None or mask.region.crop_zyx is None:
        return (), ()
    colour, look = highlight_colour(), highlight_look()
    labels = StyledLabels(mask.region.crop_zyx, {1: (mask.structure, colour)}, look)
    z, y, x = mask.region.box_zyx
    labels.corner = (z.start, y.start, x.start)
    words = f"{label(mask.structure)} ({mask.source.value})"
    return (Sheet("focus", labels),), (LegendEntry(words, colour, look),)


class FilmExport:
    """Writes Views to a film."""

    name = "film"
    suffixes = SUFFIXES

    def steps(
        self,
        views: Sequence[View],
        path: Path,
        size_px: tuple[int, int],
        *,
        seconds_each: float = 2.0,
        parts: Parts | None = None,
    ) -> Generator[Progress, None, None]:
        """Write the film, yielding (pictures done, of all); closing the generator leaves nothing.

        ``path`` ends in .gif or .mp4, or is a folder for pictures ``step_001.png``, …

        Raises
        ------
        UsageError
            For no step, another ending, or seconds that are none.
        CtvqaError
            Where MP4 is wanted and its library is not installed.
        OSError
            When it cannot be written.
        """
        check(views, path, seconds_each)
        parts, size_px = parts or Parts(), (size_px[0] // 2 * 2, size_px[1] // 2 * 2)
        writers = {".gif": _gif, ".mp4": _mp4}
        with ExitStack() as stack:
            folder = stack.enter_context(
                tempfile.TemporaryDirectory(dir=path.parent, prefix=".film-")
            )
            made = Path(folder) / f"film{path.suffix.lower()}"
            write = writers.get(path.suffix.lower(), _pictures)
            pictures = (painted(composed(view, size_px, parts)) for view in views)
            for done in write(pictures, made, size_px, seconds_each):
                yield done, len(views)
            _move(made, path)


def check(views: Sequence[View], path: Path, seconds_each: float) -> None:
    """Raise the error that writing a film there would end in; see ``FilmExport.steps``."""
    suffix = path.suffix.lower()
    if not views:
        raise UsageError("there is no step to film.", hint="Choose a question with evidence.")
    if not 0.1 <= seconds_each <= 60:
        raise UsageError(f"{seconds_each:g} s a step is no speed.", hint="Give 0.1 to 60 s.")
    if suffix and suffix not in SUFFIXES:
        raise UsageError(
            f"{path.name!r} is no film's name.",
            hint="End it in .gif or .mp4, or name a folder for pictures.",
        )
    if suffix == ".mp4" and find_spec("imageio_ffmpeg") is None:
        raise CtvqaError(
            "MP4 needs the library imageio-ffmpeg, which is not installed.",
            hint='Install it with: pip install "napari-ctvqa[film]"; or end the name in .gif.',
        )


def _move(made: Path, path: Path) -> None:
    if not made.is_dir():
        made.replace(path)
        return
    path.mkdir(parents=True, exist_ok=True)
    for old in path.glob("step_*.png"):
        old.unlink()  # of a longer film before: it would be taken for this one's end
    for picture in sorted(made.iterdir()):
        shutil.move(picture, path / picture.name)


def _pictures(
    pictures: Any, folder: Path, size_px: tuple[int, int], seconds_each: float
) -> Generator[int, None, None]:
    folder.mkdir()
    for number, picture in enumerate(pictures, start=1):
        info = PngImagePlugin.PngInfo()
        info.add_text("Software", PROJECT)
        picture.save(folder / f"step_{number:03}.png", "PNG", pnginfo=info)
        yield number


def _gif(
    pictures: Any, path: Path, size_px: tuple[int, int], seconds_each: float
) -> Generator[int, None, None]:
    frames: list[Image.Image] = []
    for number, picture in enumerate(pictures, start=1):
        frames.append(picture.quantize(_COLOURS, dither=Image.Dither.NONE))
        yield number
    buffer = io.BytesIO()
    frames[0].save(
        buffer,
        "GIF",
        save_all=True,
        append_images=frames[1:],
        duration=round(1000 * seconds_each),
        loop=0,
        comment=PROJECT.encode(),
        disposal=1,
    )
    path.write_bytes(buffer.getvalue())


def _mp4(
    pictures: Any, path: Path, size_px: tuple[int, int], seconds_each: float
) -> Generator[int, None, None]:
    import imageio_ffmpeg

    writer = imageio_ffmpeg.write_frames(
        str(path),
        size_px,
        fps=FRAMES_PER_SECOND,
        codec="libx264",
        macro_block_size=2,
        quality=8,
        output_params=[*_NO_TAGS, "-metadata", f"title={PROJECT}"],
    )
    writer.send(None)
    try:
        for number, picture in enumerate(pictures, start=1):
            pixels = np.ascontiguousarray(np.asarray(picture, np.uint8))
            for _ in range(max(round(FRAMES_PER_SECOND * seconds_each), 1)):
                writer.send(pixels)
            yield number
    finally:
        writer.close()


EXPORT = FilmExport()
