"""Figures and films: the right letters burnt in, and nothing of the source file in any byte."""

import re
from dataclasses import replace
from itertools import product
from xml.etree import ElementTree

import numpy as np
import phantoms
import pytest
from PIL import Image, ImageDraw, ImageFont

from napari_ctvqa.core.cases import GeometryReport, GeometryWarning, Level, Source
from napari_ctvqa.core.chains import (
    AlignedStep,
    ChainComparison,
    EvidenceChain,
    EvidenceStep,
    StepKind,
    StepMatch,
)
from napari_ctvqa.core.colours import highlight_colour, look_of
from napari_ctvqa.core.errors import CtvqaError, UsageError
from napari_ctvqa.core.film_steps import FIRST_DIFFERENCE, film_steps, step_text
from napari_ctvqa.core.label_styles import StyledLabels
from napari_ctvqa.core.plane_pictures import PlaneScene, Sheet, Slab
from napari_ctvqa.core.windows import preset_of_structure, preset_table
from napari_ctvqa.exports import film
from napari_ctvqa.exports._composing import burnt, composed, painted
from napari_ctvqa.exports._views import LegendEntry, Parts, private_words, view_of, without
from napari_ctvqa.exports.figure import FigureExport, FigureSize, png_bytes, svg_bytes
from napari_ctvqa.exports.film import FilmExport, film_views
from napari_ctvqa.io.case_files import find_case
from napari_ctvqa.io.reader import read_case

SECRET = "QZ-SECRET-4711"
WINDOW = (-160.0, 240.0)
SIZE = (1200, 1000)
ORDERS = ["".join(sides) for sides in product("LR", "AP", "IS")]
TURNED = ["SRA", "ASL", "PLI", "IPR"]


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """Read the phantom as stored in an axis order, from a folder with a telling name."""
    known = {}

    def of(axcodes="LPS"):
        if axcodes not in known:
            folder = tmp_path_factory.mktemp(axcodes) / SECRET
            known[axcodes] = read_case(find_case(phantoms.save_case(folder, axcodes=axcodes)))
        return known[axcodes]

    return of


def scene_of(case, *names):
    sheets = []
    for name in names:
        region = case.masks[name].region
        labels = StyledLabels(
            region.crop_zyx, {1: (name, highlight_colour())}, look_of(case.masks[name].source)
        )
        labels.corner = tuple(part.start for part in region.box_zyx)
        sheets.append(Sheet(name, labels))
    return PlaneScene(case.volume.display_zyx, case.volume.display_grid, WINDOW, tuple(sheets))


def view(case, axis=0, index=None, **options):
    index = case.volume.display_grid.shape_zyx[axis] // 2 if index is None else index
    return view_of(case, scene_of(case), axis, index, **options)


def letter_at(pixels, side):
    """Read the letter at one edge, by likeness with each letter drawn alone."""
    high, wide = pixels.shape[:2]
    size = round(0.052 * min(high, wide)) + 2
    middle = {
        "left": np.s_[high // 2 - size : high // 2 + size, : 2 * size],
        "right": np.s_[high // 2 - size : high // 2 + size, wide - 2 * size :],
        "top": np.s_[: 2 * size, wide // 2 - size : wide // 2 + size],
        "bottom": np.s_[high - 2 * size :, wide // 2 - size : wide // 2 + size],
    }[side]
    found = cut(pixels[middle].min(axis=-1) > 200)
    if found is None:
        return ""
    likeness = {letter: like(found, drawn(letter)) for letter in "LRAPSI"}
    return max(likeness, key=likeness.get)


def drawn(letter):
    image = Image.new("L", (120, 120))
    ImageDraw.Draw(image).text((30, 20), letter, font=ImageFont.load_default(60), fill=255)
    return cut(np.asarray(image) > 128)


def cut(inside):
    if not inside.any():
        return None
    rows, columns = np.nonzero(inside.any(axis=1))[0], np.nonzero(inside.any(axis=0))[0]
    return inside[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


def like(found, wanted):
    """Return the agreement of two shapes at one size; narrow letters stay narrow."""
    size = (32, 32)
    a = np.asarray(Image.fromarray(found).resize(size)) > 0
    b = np.asarray(Image.fromarray(wanted).resize(size)) > 0
    proportion = abs(np.log(found.shape[1] / found.shape[0] * wanted.shape[0] / wanted.shape[1]))
    return (a & b).sum() / (a | b).sum() - proportion


def pixels_of(view, parts=None, size=SIZE):
    return np.asarray(painted(composed(view, size, parts or Parts())))


EDGES = {
    0: {"left": "R", "right": "L", "top": "A", "bottom": "P"},
    1: {"left": "R", "right": "L", "top": "S", "bottom": "I"},
    2: {"left": "A", "right": "P", "top": "S", "bottom": "I"},
}


# ------------------------------------------------------------------------------ the right side


@pytest.mark.parametrize("axcodes", [*ORDERS, *TURNED])
def test_a_mirrored_case_is_exported_with_the_right_markers(read, axcodes):
    """Spleen and left kidney lie on patient left, so at the side that says L."""
    case = read(axcodes)
    for axis, edges in EDGES.items():
        picture = pixels_of(view(case, axis))
        assert {side: letter_at(picture, side) for side in edges} == edges
    region = case.masks["spleen"].region
    index = (region.box_zyx[0].start + region.box_zyx[0].stop) // 2
    shown = view_of(case, scene_of(case, "spleen"), 0, index)
    picture = pixels_of(shown, Parts(False, False, False, False, False, False)).astype(int)
    yellow = picture[..., 0] - picture[..., 2] > 30
    assert np.argwhere(yellow)[:, 1].mean() > SIZE[0] / 2  # right of the picture: L


def test_a_sagittal_plane_with_the_nose_to_the_right_is_mirrored_with_its_letters(read):
    case = read()
    plain, turned = view(case, 2), view(case, 2, mirrored=True)
    assert letter_at(pixels_of(turned), "left") == "P"
    assert letter_at(pixels_of(turned), "right") == "A"
    planes = [composed(shown, SIZE, Parts()).plane for shown in (turned, plain)]
    assert np.array_equal(planes[0], planes[1][:, ::-1])


def test_without_a_trusted_orientation_there_are_no_letters_but_the_reason(read):
    case = read()
    red = GeometryReport((GeometryWarning("codes_zero", Level.RED, f"{SECRET} has no codes"),))
    untrusted = view(replace(case, report=red))
    picture = pixels_of(untrusted)
    assert [letter_at(picture, side) for side in ("left", "right")] == ["", ""]
    svg = svg_bytes(untrusted, FigureSize(*SIZE), Parts()).decode()
    words = re.findall(r">([^<>]+)</text>", svg)
    assert any("no markers (codes zero)" in text for text in words)
    assert not {"L", "R", "A", "P"} & set(words)
    assert SECRET not in svg
    assert not re.search(r">\d+ [cm]m</text>", svg)  # nor a bar to read lengths from
    trusted = svg_bytes(view(case), FigureSize(*SIZE), Parts()).decode()
    assert re.search(r">\d+ [cm]m</text>", trusted)


def test_oblique_letters_have_two_parts_in_the_drawing(read):
    case = read()
    view_ = view(case)
    two = replace(view_, letters=replace(view_.letters, left="RA", right="LP"))
    svg = svg_bytes(two, FigureSize(*SIZE), Parts()).decode()
    assert ">RA<" in svg and ">LP<" in svg


# ---------------------------------------------------------------------------------- what is shown


def test_voxels_keep_their_proportions(read):
    """Voxels of 1.5 × 2 × 3 mm are drawn as such: a pixel is as wide as it is high."""
    case = read()
    for axis in range(3):
        made = composed(view(case, axis), SIZE, Parts(caption=False))
        high, wide = made.plane.shape[:2]
        grid = case.volume.display_grid
        mm = np.array(grid.shape_zyx) * grid.spacing_mm_zyx
        row, column = ((1, 2), (0, 2), (0, 1))[axis]
        assert wide / high == pytest.approx(mm[column] / mm[row], rel=0.01)


def test_the_scale_bar_is_as_long_as_it_says(read):
    case = read()
    made = composed(view(case), SIZE, Parts())
    bar = next(s for s in made.shapes if getattr(s, "fill", None) == (255, 255, 255, 255))
    length_px = bar.corners[2] - bar.corners[0]
    grid = case.volume.display_grid
    px_per_mm = made.plane.shape[1] / (grid.shape_zyx[2] * grid.spacing_mm_zyx[2])
    text = next(s.text for s in made.shapes if re.fullmatch(r"\d+ c?m", getattr(s, "text", "")))
    length_mm = float(text.split()[0]) * (10 if "cm" in text else 1)
    assert length_px / px_per_mm == pytest.approx(length_mm, rel=0.01)


def test_each_part_can_be_left_out(read):
    entry = LegendEntry("spleen", highlight_colour(), look_of(read().masks["spleen"].source))
    shown = view(read(), caption=("measure",), legend=(entry,))
    words = {
        "markers": ">L<", "slice_text": "slice", "window": "W 400 L 40", "scale_bar": " cm",
        "legend": "spleen", "caption": "measure",
    }  # fmt: skip
    for part, word in words.items():
        everything = svg_bytes(shown, FigureSize(*SIZE), Parts()).decode()
        lacking = svg_bytes(shown, FigureSize(*SIZE), replace(Parts(), **{part: False})).decode()
        word = word.strip("<>") if part == "markers" else f"[^<]*{re.escape(word)}[^<]*"
        pattern = re.compile(rf">{word}</text>")
        assert pattern.search(everything) and not pattern.search(lacking), part


def test_no_letter_is_burnt_in_as_an_empty_box(read):
    font = ImageFont.load_default(40)
    unknown = bytes(font.getmask("\ue000"))
    for character in burnt("cm³ mm² – — … · ° × ≈ ≥ µ ✗ 中"):
        assert bytes(font.getmask(character)) != unknown, character
    assert burnt("154.2 cm³ · 3 mm²") == "154.2 cm3 · 3 mm2"


def test_slice_is_counted_from_one_as_shown(read):
    svg = svg_bytes(view(read(), 0, 4), FigureSize(*SIZE), Parts()).decode()
    count = read().volume.display_grid.shape_zyx[0]
    assert f"Axial · slice 5 of {count}" in svg


def test_a_slab_is_said_to_be_one(read):
    shown = view(read())
    slab = replace(shown, scene=replace(shown.scene, slab=Slab("mip", 10.0)))
    svg = svg_bytes(slab, FigureSize(*SIZE), Parts()).decode()
    assert re.search(r">MIP of \d+ slices, [\d.]+ mm</text>", svg)


def test_long_captions_stay_inside(read):
    long = "measure " * 60
    made = composed(view(read(), caption=(long, "x" * 900)), SIZE, Parts())
    picture = np.asarray(painted(made))
    assert picture[:, -3:].max() == 0  # nothing is cut at the right edge below the picture


@pytest.mark.parametrize(
    ("text", "dpi", "wanted"),
    [
        ("800x600", 300, (800, 600)),
        ("85x60mm", 300, (1004, 709)),
        ("100 x 50 mm", 254, (1000, 500)),
    ],
)
def test_a_size_is_read_in_pixels_or_millimetres(text, dpi, wanted):
    size = FigureSize.from_text(text, dpi)
    assert (size.wide_px, size.high_px) == wanted and size.dpi == dpi


@pytest.mark.parametrize("text", ["", "800", "8x6", "9000x10", "a x b", "85x60cm"])
def test_a_size_that_is_none_is_refused(text):
    with pytest.raises(UsageError):
        FigureSize.from_text(text)


def test_files_have_the_size_and_resolution_asked_for(read, tmp_path):
    FigureExport().write(view(read()), tmp_path / "a.png", FigureSize(640, 480, 200))
    with Image.open(tmp_path / "a.png") as image:
        assert image.size == (640, 480)
        assert image.info["dpi"] == pytest.approx((200, 200), abs=0.1)
    FigureExport().write(view(read()), tmp_path / "a.svg", FigureSize(1000, 500, 254))
    assert 'width="100.000mm" height="50.000mm"' in (tmp_path / "a.svg").read_text("utf-8")
    with pytest.raises(UsageError, match="png"):
        FigureExport().write(view(read()), tmp_path / "a.jpeg", FigureSize(640, 480))


def test_the_drawing_is_well_formed_whatever_a_caption_says(read):
    from xml.etree import ElementTree

    shown = view(read(), caption=('<script>&"', "a > b"))
    tree = ElementTree.fromstring(svg_bytes(shown, FigureSize(*SIZE), Parts()))
    assert "script" not in {node.tag.rsplit("}")[-1] for node in tree.iter()}


# ------------------------------------------------------------------------------------------ films


def chains(case):
    """Two steps that agree, one that differs, one that only the model has; words that tell."""
    measure, segment = StepKind.MEASURE, StepKind.SEGMENT
    source = f"ct + {case.volume.path}"
    first = EvidenceStep(segment, "spleen", "voxels", 900, "voxels", source=source, mask="spleen")
    right = EvidenceStep(measure, "kidney_left", "volume_cm3", 154.2, "cm³", mask="kidney_left")
    wrong = replace(right, value=98.0, source=source, raw={"path": str(case.volume.path)})
    extra = EvidenceStep(StepKind.LOOKUP, "", "note", f"see {SECRET} /data/{SECRET}/x.nii")
    rows = (
        AlignedStep(first, first, StepMatch.SAME),
        AlignedStep(right, wrong, StepMatch.WRONG_VALUE),
        AlignedStep(None, extra, StepMatch.EXTRA),
    )
    reference = EvidenceChain("q", "reference", (first, right))
    model = EvidenceChain("q", f"model of {SECRET}", (first, wrong, extra))
    return reference, model, ChainComparison(rows, 1)


def test_a_film_shows_each_step_on_the_slice_of_its_mask(read):
    case = read()
    steps = film_steps(case, *chains(case))
    assert [step.first for step in steps] == [False, True, False]
    assert [step.own for step in steps] == [True, True, False]
    for step, name in zip(steps, ("spleen", "kidney_left", "kidney_left"), strict=True):
        assert step.mask is case.masks[name]
        region = case.masks[name].region
        areas = region.crop_zyx.sum(axis=(1, 2))
        assert step.index_z == region.box_zyx[0].start + int(np.argmax(areas))
    assert steps[1].lines[0] == FIRST_DIFFERENCE
    assert steps[1].lines[1] == "Reference: measure left kidney: volume = 154.2 cm³"
    assert steps[1].lines[-1] == "Wrong value"


def test_a_hidden_reference_is_not_in_the_film(read):
    case = read()
    steps = film_steps(case, *chains(case), revealed=False)
    assert len(steps) == 3 and not any(step.first for step in steps)
    told = " ".join(line for step in steps for line in step.lines)
    assert "Reference" not in told and "154.2" not in told and "Wrong" not in told


def test_a_reference_alone_is_a_film_too(read):
    reference, _, _ = chains(read())
    assert len(film_steps(read(), reference)) == 2


def test_a_step_s_words_hold_no_source(read):
    _, model, _ = chains(read())
    assert step_text(model.steps[1]) == "measure left kidney: volume = 98 cm³"
    assert step_text(replace(model.steps[0], value=33140)) == "segment spleen = 33,140 voxels"


def views_of(case):
    return film_views(case, film_steps(case, *chains(case)), WINDOW)


def test_a_step_on_lung_or_bone_is_shown_in_their_window_unless_one_is_named(read):
    case, table = read(), preset_table()
    steps = film_steps(case, *chains(case))
    for structure, name in (
        ("lung_upper_lobe_left", "lung"),
        ("vertebrae_L1", "bone"),
        ("brain", "brain"),
        ("hip_left", "bone"),
        ("hepatic_vessel", None),
        ("lung_nodule", "lung"),
    ):
        found = preset_of_structure(structure, table)
        assert (found.name if found else None) == name
    seen = replace(steps[1], mask=replace(steps[1].mask, structure="lung_left"))
    views = film_views(case, (steps[0], seen), WINDOW, table)
    lung = table.named("lung")
    assert [view.scene.window_hu for view in views] == [WINDOW, (lung.lo, lung.hi)]
    assert film_views(case, (seen,), WINDOW)[0].scene.window_hu == WINDOW
    assert preset_of_structure("lung_left", replace(table, presets=table.presets[:1])) is None


def write(views, path, **options):
    return list(FilmExport().steps(views, path, (320, 261), **options))


def test_a_gif_holds_every_step_at_the_speed_asked_for(read, tmp_path):
    assert write(views_of(read()), tmp_path / "film.gif", seconds_each=1.5) == [
        (1, 3), (2, 3), (3, 3)
    ]  # fmt: skip
    with Image.open(tmp_path / "film.gif") as film_:
        assert film_.n_frames == 3 and film_.size == (320, 260)
        assert film_.info["duration"] == 1500
        assert film_.info["comment"] == b"napari-ctvqa"
        film_.seek(1)
        frame = np.asarray(film_.convert("RGB"))
    assert (abs(frame[:2].astype(int) - (213, 94, 0)).max(axis=-1) < 40).mean() > 0.4  # framed


def test_pictures_of_a_mirrored_case_carry_the_right_markers(read, tmp_path):
    for axcodes in ("LPS", "RAS", "SRA"):
        views = [replace(v, caption=()) for v in views_of(read(axcodes))]
        list(FilmExport().steps(views, tmp_path / axcodes, SIZE))
        made = sorted((tmp_path / axcodes).glob("*.png"))
        assert [path.name for path in made] == ["step_001.png", "step_002.png", "step_003.png"]
        for path in made:
            with Image.open(path) as image:
                picture = np.asarray(image)
            assert {s: letter_at(picture, s) for s in EDGES[0]} == EDGES[0]


def test_a_shorter_film_leaves_no_pictures_of_a_longer_one(read, tmp_path):
    write(views_of(read()), tmp_path / "pictures")
    write(views_of(read())[:1], tmp_path / "pictures")
    assert [p.name for p in (tmp_path / "pictures").iterdir()] == ["step_001.png"]


def test_a_film_that_is_stopped_leaves_nothing(read, tmp_path):
    for name in ("film.gif", "pictures"):
        steps = FilmExport().steps(views_of(read()), tmp_path / name, (320, 260))
        assert next(steps) == (1, 3)
        steps.close()
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_filmed_is_said_before_anything_is_written(read, tmp_path, monkeypatch):
    views = views_of(read())
    for bad, options in (("film.avi", {}), ("a.gif", {"seconds_each": 0})):
        with pytest.raises(UsageError):
            write(views, tmp_path / bad, **options)
    with pytest.raises(UsageError, match="no step"):
        write([], tmp_path / "a.gif")
    monkeypatch.setattr(film, "find_spec", lambda name: None)
    with pytest.raises(CtvqaError, match="imageio-ffmpeg"):
        write(views, tmp_path / "a.mp4")
    assert list(tmp_path.iterdir()) == []


def test_an_mp4_holds_every_step(read, tmp_path):
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    write(views_of(read()), tmp_path / "film.mp4", seconds_each=0.5)
    frames = ffmpeg.read_frames(str(tmp_path / "film.mp4"))
    meta = next(frames)
    assert meta["size"] == (320, 260)
    assert meta["duration"] == pytest.approx(1.5, abs=0.2)
    assert sum(1 for _ in frames) == 15
    data = (tmp_path / "film.mp4").read_bytes()
    assert b"napari-ctvqa" in data and b"Lavf5" not in data
    assert_private(data, read())


# ---------------------------------------------------------------------------------- nothing private


def assert_private(data, case):
    """No byte sequence names the source: as UTF-8, UTF-16, in any case."""
    words = [SECRET, case.case_id, str(case.volume.path), "ct.nii", str(case.volume.path.parent)]
    text = data.lower()
    for word in words:
        for encoding in ("utf-8", "utf-16-le"):
            assert word.lower().encode(encoding) not in text, word


def test_no_exported_file_names_its_source(read, tmp_path):
    case = read()
    case = replace(case, files=replace(case.files, case_id=SECRET))
    told = (f"{SECRET}: measure {case.volume.path}", f"in {SECRET.lower()}_kidney")
    shown = view(case, caption=told)
    assert all(SECRET.lower() not in line.lower() for line in shown.caption)
    for name in ("figure.png", "figure.svg"):
        FigureExport().write(shown, tmp_path / name, FigureSize(*SIZE))
    views = film_views(case, film_steps(case, *chains(case)), WINDOW)
    assert not any(SECRET in line for v in views for line in v.caption)
    write(views, tmp_path / "film.gif")
    write(views, tmp_path / "pictures")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 6
    for path in files:
        assert_private(path.read_bytes(), case)
        if path.suffix == ".png":
            with Image.open(path) as image:
                assert {"Software": "napari-ctvqa"}.items() <= image.info.items()
                assert set(image.info) <= {"Software", "dpi"}


def test_the_picture_inside_a_drawing_has_no_words(read):
    import base64

    svg = svg_bytes(view(read()), FigureSize(*SIZE), Parts()).decode()
    png = base64.b64decode(re.search(r"base64,([^\"]+)", svg)[1])
    assert not {b"tEXt", b"iTXt", b"zTXt", b"eXIf", b"tIME"} & set(
        re.findall(rb"[a-zI]{4}", png[:200])
    )


def test_paths_of_any_system_are_blanked():
    for path in ("/data/p/ct.nii.gz", "C:\\data\\ct.nii", "see x/y/z now"):
        assert not re.search(r"[/\\]", without(f"a {path} b", ()))
    assert without("HU/mm 3.5 cm³", ()) == "HU/mm 3.5 cm³"


def test_an_id_of_digits_leaves_measured_values_alone():
    assert without("case 186: 186.4 cm³, 1186, 186", ("186",)) == "case …: 186.4 cm³, 1186, …"
    assert without("BDMAP_0001_kidney", ("bdmap_0001",)) == "…_kidney"


def test_a_folder_named_like_an_organ_hides_no_organ(read):
    case = read()
    path = case.volume.path.parent.parent / "liver" / "ct.nii.gz"
    case = replace(case, volume=replace(case.volume, path=path))
    assert "liver" not in private_words(case)


def test_png_states_nothing_but_the_project(read):
    data = png_bytes(view(read()), FigureSize(*SIZE), Parts())
    assert data.count(b"tEXt") == 1 and b"Software\x00napari-ctvqa" in data


# ------------------------------------------------------------------------------ names from files


def words_of(view, parts=None):
    return [shape.text for shape in composed(view, SIZE, parts or Parts()).shapes if text_of(shape)]


def text_of(shape):
    return getattr(shape, "text", "")


def test_the_legend_holds_no_name_of_the_file_either(read):
    entry = LegendEntry(f"{SECRET} liver", highlight_colour(), look_of(Source.REFERENCE))
    named = view(read(), legend=[entry])
    assert not any(SECRET in word for word in words_of(named))
    assert SECRET.encode() not in svg_bytes(named, FigureSize(800, 600), Parts())


def test_a_name_of_any_letters_and_length_leaves_a_figure_that_can_be_read(read):
    text = 'a\x00\x1b<b>&"' + "x" * 10_000
    entry = LegendEntry(text, highlight_colour(), look_of(Source.REFERENCE))
    named = view(read(), legend=[entry], caption=[text])
    ElementTree.fromstring(svg_bytes(named, FigureSize(*SIZE), Parts()))
    assert letter_at(pixels_of(named, Parts(caption=False)), "bottom") == "P"
