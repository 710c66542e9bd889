"""What drawings measure, against closed form, and against what the evidence measures on masks."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from evidence_cases import case as case_of
from evidence_cases import grid, mask
from skimage.measure import find_contours, points_in_poly

from napari_ctvqa.core.cases import (
    Case,
    CaseFiles,
    GeometryReport,
    GeometryWarning,
    Level,
    Volume,
)
from napari_ctvqa.core.drawings import (
    Drawing,
    Kind,
    crosses_itself,
    handles,
    in_plane,
    on_slice,
    shifted,
    with_point,
    with_short_axis,
)
from napari_ctvqa.core.geometry import Grid
from napari_ctvqa.core.measure import hu_percentile, hu_statistics, mean_hu, sd_hu, volume_cm3
from napari_ctvqa.core.measuring import (
    NO_VOXELS,
    SAME_POINTS,
    SPACING_CAVEAT,
    circle_statistics,
    measured,
    next_radius_mm,
    region,
)
from napari_ctvqa.core.regions import region_of
from napari_ctvqa.core.sampling import resample_linear
from napari_ctvqa.io.case_files import find_case
from napari_ctvqa.io.reader import read_case

SHAPE = (20, 40, 60)
SPACING = (2.5, 0.8, 0.5)
ON = grid(SHAPE, SPACING)
PLANES = (0, 1, 2)


def plain(hu=None, on=ON, **options):
    return case_of({}, hu=np.zeros(on.shape_zyx, np.int16) if hu is None else hu, on=on, **options)


def turned_grid(shear=0.0, degrees=20.0):
    """A grid turned about two axes; ``shear`` mm a slice along y, as a tilted gantry makes it."""
    a, b = np.deg2rad([degrees, degrees / 3])
    turn = np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]])
    turn = turn @ np.array([[1, 0, 0], [0, np.cos(b), -np.sin(b)], [0, np.sin(b), np.cos(b)]])
    frame = -np.eye(3)[::-1].T * np.array(SPACING)
    frame[1, 0] += shear
    affine = np.eye(4)
    affine[:3, :3] = turn @ frame
    affine[:3, 3] = (30, -20, 70)
    return Grid(SHAPE, affine)


def sheared_case(field):
    """A sheared CT whose HU are a function of the place in mm, drawn on its orthogonal grid."""
    own = turned_grid(shear=0.9, degrees=0.0)
    assert own.sheared
    shown = own.orthogonal()
    index = np.stack(np.meshgrid(*map(np.arange, SHAPE), indexing="ij"), axis=-1)
    hu = field(own.ras_mm(index)).astype(np.float32)
    drawn = resample_linear(hu, own, shown)
    volume = Volume(hu, own, drawn, shown, GeometryReport(), Path("ct.nii.gz"), -1000.0, 1000.0)
    return Case(CaseFiles("tilted", Path("ct.nii.gz")), volume, {}, GeometryReport())


def drawn(kind, points, plane=0, number=5):
    return Drawing(kind, plane, number, tuple((float(r), float(c)) for r, c in points))


def ras_of(drawing, on):
    return on.ras_mm(drawing.index_zyx)


# ------------------------------------------------------------------------------- lines


@pytest.mark.parametrize("plane", PLANES)
def test_a_ruler_measures_millimetres_on_anisotropic_voxels(plane):
    rows_mm, columns_mm = np.delete(SPACING, plane)
    found = measured(
        drawn(Kind.RULER, [(2, 3), (2 + 3 / rows_mm, 3 + 4 / columns_mm)], plane), plain()
    )
    assert found.value("length_mm") == pytest.approx(5)
    assert [(m.measure, m.unit, m.caveats) for m in found.values] == [("length_mm", "mm", ())]
    assert found.caveats == ()


@pytest.mark.parametrize("on", [turned_grid(), turned_grid(shear=0.4)], ids=["turned", "sheared"])
@pytest.mark.parametrize("plane", PLANES)
def test_lengths_and_angles_are_the_patient_s_on_any_grid(on, plane):
    ruler = drawn(Kind.RULER, [(1.5, 2.25), (11, 17.5)], plane)
    first, last = ras_of(ruler, on)
    found = measured(ruler, plain(on=on))
    assert found.value("length_mm") == pytest.approx(np.linalg.norm(last - first))
    angle = drawn(Kind.ANGLE, [(1.5, 2.25), (11, 17.5), (4, 9)], plane)
    one, at, other = ras_of(angle, on)
    cosine = (one - at) @ (other - at) / np.linalg.norm(one - at) / np.linalg.norm(other - at)
    found = measured(angle, plain(on=on))
    assert found.value("angle_deg") == pytest.approx(np.rad2deg(np.arccos(cosine)))


def test_a_ruler_on_a_sheared_scan_measures_between_places_of_the_patient():
    case = sheared_case(lambda at: at[..., 0])
    shown = case.volume.display_grid
    for plane in PLANES:
        ruler = drawn(Kind.RULER, [(3, 4), (9, 19)], plane)
        first, last = shown.ras_mm(ruler.index_zyx)
        assert measured(ruler, case).value("length_mm") == pytest.approx(math.dist(first, last))


@pytest.mark.parametrize(("end", "degrees"), [((5, 20), 0), ((9, 12), 90), ((5, 4), 180)])
def test_an_angle_of_0_90_and_180_degrees(end, degrees):
    found = measured(drawn(Kind.ANGLE, [end, (5, 12), (5, 16)]), plain())
    assert found.value("angle_deg") == degrees


def test_an_angle_of_45_degrees_on_anisotropic_voxels():
    points = [(10 + 8 / 0.8, 10 + 8 / 0.5), (10, 10), (10, 30)]
    assert measured(drawn(Kind.ANGLE, points), plain()).value("angle_deg") == pytest.approx(45)


def test_an_angle_without_a_leg_is_not_given():
    value = measured(drawn(Kind.ANGLE, [(5, 5), (5, 5), (9, 9)]), plain()).values[0]
    assert (value.value, value.caveats) == (None, (SAME_POINTS,))


def test_a_drawing_without_all_points_measures_nothing():
    with pytest.raises(ValueError, match="2 points"):
        measured(drawn(Kind.POLYGON, [(1, 1), (2, 2)]), plain())


# ------------------------------------------------------------------------ bidirectional


def axes_mm(drawing, on):
    points = ras_of(drawing, on)
    return points[1] - points[0], points[3] - points[2]


@pytest.mark.parametrize("on", [ON, turned_grid(shear=0.4)], ids=["anisotropic", "sheared"])
@pytest.mark.parametrize("plane", PLANES)
def test_the_short_axis_stays_at_a_right_angle_however_points_are_moved(on, plane):
    drawing = with_short_axis(drawn(Kind.BIDIRECTIONAL, [(2, 3), (12, 27)], plane), on)
    long_mm, short_mm = axes_mm(drawing, on)
    assert np.linalg.norm(short_mm) == pytest.approx(np.linalg.norm(long_mm) / 2)
    for number, to in ((0, (4, 1)), (1, (9, 30)), (2, (3, 12)), (3, (14, 16)), (2, (8, 5))):
        drawing = with_point(drawing, number, to, on)
        long_mm, short_mm = axes_mm(drawing, on)
        assert abs(long_mm @ short_mm) < 1e-9 * np.linalg.norm(long_mm) * np.linalg.norm(short_mm)
        found = measured(drawing, plain(on=on))
        lengths = sorted((np.linalg.norm(short_mm), np.linalg.norm(long_mm)))
        assert found.value("short_axis_mm") == pytest.approx(lengths[0])
        assert found.value("long_axis_mm") == pytest.approx(lengths[1])


def test_moving_an_end_of_the_short_axis_keeps_the_other_side_s_length():
    on = grid(SHAPE, (1.0, 1.0, 1.0))
    drawing = with_short_axis(drawn(Kind.BIDIRECTIONAL, [(10, 0), (10, 20)]), on)
    assert drawing.points[2:] == ((5, 10), (15, 10)) or drawing.points[2:] == ((15, 10), (5, 10))
    far = 3 if drawing.points[3][0] > 10 else 2
    moved = with_point(drawing, far, (18, 4), on)
    assert moved.points[far] == pytest.approx((18, 4))
    assert moved.points[5 - far] == pytest.approx((5, 4))
    found = measured(moved, plain(on=on))
    assert (found.value("long_axis_mm"), found.value("short_axis_mm")) == pytest.approx((20, 13))
    beyond = with_point(moved, far, (18, 50), on)  # the axes always meet
    assert beyond.points[far] == pytest.approx((18, 20))


def test_a_long_axis_pulled_to_a_point_is_no_number_that_is_not_finite():
    drawing = with_short_axis(drawn(Kind.BIDIRECTIONAL, [(2, 3), (12, 27)]), ON)
    flat = with_point(drawing, 1, (2, 3), ON)
    again = with_point(flat, 1, (12, 27), ON)
    for each in (flat, again, with_short_axis(drawn(Kind.BIDIRECTIONAL, [(2, 3), (2, 3)]), ON)):
        values = [m.value for m in measured(each, plain()).values]
        assert all(value is not None and math.isfinite(value) for value in values)


# ----------------------------------------------------------------------------- regions


@pytest.mark.parametrize("plane", PLANES)
def test_an_ellipse_s_area_and_hu_are_those_of_closed_form(plane):
    rng = np.random.default_rng(3)
    hu = rng.integers(-100, 200, SHAPE).astype(np.int16)
    drawing = drawn(Kind.ELLIPSE, [(3.2, 5.7), (16.4, 18.1)], plane)
    found = measured(drawing, plain(hu))
    rows_mm, columns_mm = np.delete(SPACING, plane)
    area = math.pi / 4 * (13.2 * rows_mm) * (12.4 * columns_mm)
    assert found.value("area_mm2") == pytest.approx(area)
    size = np.delete(SHAPE, plane)
    r, c = np.ogrid[: size[0], : size[1]]
    inside = ((r - 9.8) / 6.6) ** 2 + ((c - 11.9) / 6.2) ** 2 <= 1
    values = np.take(hu, 5, axis=plane)[inside].astype(float)
    assert found.value("mean_hu") == pytest.approx(values.mean())
    assert found.value("sd_hu") == pytest.approx(values.std())
    assert (found.value("min_hu"), found.value("max_hu")) == (values.min(), values.max())
    assert found.value("voxels") == inside.sum()
    assert found.value("voxel_area_mm2") == pytest.approx(inside.sum() * rows_mm * columns_mm)
    assert found.value("voxel_area_mm2") == pytest.approx(area, rel=0.05)
    units = {m.measure: m.unit for m in found.values}
    assert (units["mean_hu"], units["area_mm2"], units["voxels"]) == ("HU", "mm²", "voxels")


def test_a_polygon_s_area_is_the_shoelace_s_and_its_mean_the_disc_s():
    turn = np.linspace(0, 2 * np.pi, 400, endpoint=False)
    ring = np.stack([20 + 12 / 0.8 * np.sin(turn), 30 + 12 / 0.5 * np.cos(turn)], axis=1)
    z, y, x = np.ogrid[: SHAPE[0], : SHAPE[1], : SHAPE[2]]
    far = ((y - 20) * 0.8) ** 2 + ((x - 30) * 0.5) ** 2 + 0 * z
    hu = np.where(far <= 12**2, 60, -100).astype(np.int16)
    found = measured(drawn(Kind.POLYGON, ring), plain(hu))
    assert found.value("area_mm2") == pytest.approx(math.pi * 144, rel=1e-3)
    assert found.value("voxel_area_mm2") == pytest.approx(math.pi * 144, rel=0.02)
    assert found.value("mean_hu") == pytest.approx(60, abs=1)


def test_a_voxel_counts_when_its_centre_lies_in_or_on_the_outline():
    square = drawn(Kind.POLYGON, [(4, 6), (4, 9), (8, 9), (8, 6)])
    assert region(square, ON).voxels == 5 * 4  # centres on the outline
    assert region(shifted(square, 0.01, 0.01), ON).voxels == 4 * 3
    ellipse = drawn(Kind.ELLIPSE, [(4, 6), (8, 10)])
    assert region(ellipse, ON).crop_zyx[0, 2].sum() == 5
    notch = drawn(Kind.POLYGON, [(2, 2), (2, 12), (12, 12), (7, 7), (12, 2)])
    crop = region(notch, ON).crop_zyx[0]
    assert crop[5, 5] and not crop[8, 5]  # (7, 7) is a corner, (10, 7) lies in the notch


@pytest.mark.parametrize("seed", range(12))
def test_membership_is_that_of_scikit_image_for_any_polygon(seed):
    rng = np.random.default_rng(seed)
    corners = rng.uniform(-5, 45, (rng.integers(3, 14), 2)) + rng.uniform(0, 1, 2)
    lattice = np.argwhere(np.ones(SHAPE[1:], bool))
    expected = points_in_poly(lattice, corners).reshape(SHAPE[1:])
    found = np.zeros(SHAPE, bool)
    got = region(drawn(Kind.POLYGON, corners), ON)
    found[got.box_zyx] = got.crop_zyx
    assert np.array_equal(found[5], expected)
    assert not np.delete(found, 5, axis=0).any()


@pytest.mark.parametrize("on", [ON, turned_grid()], ids=["anisotropic", "oblique"])
@pytest.mark.parametrize("plane", PLANES)
def test_a_polygon_over_a_mask_s_slice_gives_what_the_evidence_gives(on, plane):
    rng = np.random.default_rng(5)
    hu = rng.integers(-90, 160, SHAPE).astype(np.int16)
    z, y, x = np.ogrid[: SHAPE[0], : SHAPE[1], : SHAPE[2]]
    ball = ((z - 9) / 6) ** 2 + ((y - 19) / 13) ** 2 + ((x - 28) / 17) ** 2 <= 1
    number = (9, 17, 30)[plane]
    slab = np.zeros(SHAPE, bool)
    at = [slice(None)] * 3
    at[plane] = number
    slab[tuple(at)] = ball[tuple(at)]
    (ring,) = find_contours(np.pad(slab[tuple(at)], 1).astype(float), 0.5)
    found = measured(drawn(Kind.POLYGON, ring[:-1] - 1, plane, number), plain(hu, on))
    case = plain(hu, on)
    masks = [mask("liver", slab, on)]
    assert found.value("voxels") == slab.sum()
    assert found.value("mean_hu") == mean_hu(masks, [], case.volume).value
    assert found.value("sd_hu") == sd_hu(masks, [], case.volume).value
    assert found.value("min_hu") == hu_percentile(masks, [], case.volume, 0).value
    assert found.value("max_hu") == hu_percentile(masks, [], case.volume, 100).value
    # a slab of voxels is as thick as the planes lie apart, at a right angle
    thick_mm = on.voxel_mm3 / abs(np.linalg.det(_in_plane_mm(on, plane)))
    assert found.value("voxel_area_mm2") * thick_mm / 1000 == pytest.approx(volume_cm3(masks).value)


def _in_plane_mm(on, plane):
    axes = np.delete(on.affine_zyx_to_ras[:3, :3], plane, axis=1)
    return np.linalg.cholesky(axes.T @ axes)


def test_a_region_on_a_sheared_scan_measures_the_field_at_its_middle():
    slope = np.array([1.5, -2.0, 0.7])
    case = sheared_case(lambda at: at @ slope)
    shown = case.volume.display_grid
    middle = [n // 2 for n in shown.shape_zyx]
    for plane in PLANES:
        row, column = in_plane(middle, plane)
        box = [
            (row - 4, column - 6),
            (row - 4, column + 6),
            (row + 4, column + 6),
            (row + 4, column - 6),
        ]
        found = measured(drawn(Kind.POLYGON, box, plane, middle[plane]), case)
        centre = on_slice(np.array([[row, column]]), plane, middle[plane])
        assert found.value("mean_hu") == pytest.approx(
            float(shown.ras_mm(centre)[0] @ slope), abs=0.01
        )
        assert found.value("voxels") == 9 * 13
        sides = np.delete(shown.spacing_mm_zyx, plane)
        assert found.value("area_mm2") == pytest.approx(8 * sides[0] * 12 * sides[1])


def test_what_a_sheared_scan_s_picture_has_around_the_scan_does_not_count():
    case = sheared_case(lambda at: at[..., 0])
    shown = case.volume.display_grid
    deep, high, wide = shown.shape_zyx
    whole = [(-0.5, -0.5), (-0.5, wide - 0.5), (high - 0.5, wide - 0.5), (high - 0.5, -0.5)]
    found = measured(drawn(Kind.POLYGON, whole, 0, deep // 2), case)
    own = case.volume.grid
    # an axial plane cuts the tilted box in a rectangle as wide as the scan
    y_mm = np.linalg.norm(own.affine_zyx_to_ras[:3, 1]) * SHAPE[1]
    x_mm = np.linalg.norm(own.affine_zyx_to_ras[:3, 2]) * SHAPE[2]
    assert found.value("area_mm2") == pytest.approx(x_mm * y_mm, rel=1e-6)
    assert any("outside the volume" in caveat for caveat in found.caveats)
    assert any("outside the scan" in caveat for caveat in found.caveats)
    assert found.value("voxels") < high * wide
    voxel_mm2 = shown.spacing_mm_zyx[1] * shown.spacing_mm_zyx[2]
    assert found.value("voxel_area_mm2") == pytest.approx(found.value("voxels") * voxel_mm2)


@pytest.mark.parametrize(
    ("number", "points"),
    [
        (0, ((1, 2), (8, 12))),
        (1, ((4, 6), (1, 2))),
        (2, ((1, 6), (8, 2))),
        (3, ((4, 2), (1, 12))),
    ],
)
def test_each_corner_of_an_ellipse_s_box_can_be_moved(number, points):
    ellipse = drawn(Kind.ELLIPSE, [(4, 6), (8, 12)])
    assert handles(ellipse) == ((4, 6), (8, 12), (4, 12), (8, 6))
    moved = with_point(ellipse, number, (1.0, 2.0), ON)
    assert moved.points == points
    assert handles(moved)[number] == (1, 2)


# ------------------------------------------------------------------- beyond the volume


@pytest.mark.parametrize("kind", [Kind.ELLIPSE, Kind.POLYGON])
@pytest.mark.parametrize("plane", PLANES)
def test_of_a_region_half_outside_only_the_inner_half_counts(kind, plane):
    hu = np.full(SHAPE, 30, np.int16)
    width = np.delete(SHAPE, plane)[1]
    rows_mm, columns_mm = np.delete(SPACING, plane)
    edge = width - 0.5
    corners = [(4.2, edge - 5), (12.2, edge + 5)]
    full = 8 * rows_mm * 10 * columns_mm
    if kind is Kind.POLYGON:
        (top, left), (bottom, right) = corners
        corners = [(top, left), (top, right), (bottom, right), (bottom, left)]
    else:
        full *= math.pi / 4
    found = measured(drawn(kind, corners, plane), plain(hu))
    assert found.value("area_mm2") == pytest.approx(full / 2)
    assert found.caveats == ("50% of the outline lies outside the volume and is not counted",)
    assert (found.value("mean_hu"), found.value("sd_hu")) == (30, 0)
    assert found.value("voxels") == region(drawn(kind, corners, plane), ON).voxels > 0


def test_a_corner_outside_is_cut_off_exactly():
    square = [(-10.5, -10.5), (-10.5, 9.5), (9.5, 9.5), (9.5, -10.5)]
    found = measured(drawn(Kind.POLYGON, square), plain())
    assert found.value("area_mm2") == pytest.approx(10 * 0.8 * 10 * 0.5)
    assert found.value("voxels") == 100
    assert "75% of the outline" in found.caveats[0]


@pytest.mark.parametrize(
    "drawing",
    [
        drawn(Kind.ELLIPSE, [(-20, -20), (-5, -5)]),
        drawn(Kind.POLYGON, [(100, 100), (110, 100), (110, 120)]),
        drawn(Kind.ELLIPSE, [(5.3, 5.3), (5.3, 5.3)]),
        drawn(Kind.POLYGON, [(5.3, 5.3)] * 3),
        drawn(Kind.ELLIPSE, [(5.2, 5.2), (5.4, 9.4)]),
    ],
)
def test_a_region_without_a_voxel_says_so_and_never_infinity(drawing):
    found = measured(drawing, plain(np.full(SHAPE, 30, np.int16)))
    assert NO_VOXELS in found.caveats
    for name in ("mean_hu", "sd_hu", "min_hu", "max_hu"):
        assert found.value(name) is None
    assert next(m for m in found.values if m.measure == "mean_hu").caveats == (NO_VOXELS,)
    assert found.value("voxels") == 0
    assert all(m.value is None or math.isfinite(m.value) for m in found.values)


def test_one_voxel_has_a_mean_and_an_sd_of_zero():
    hu = np.zeros(SHAPE, np.int16)
    hu[5, 7, 9] = 77
    found = measured(drawn(Kind.ELLIPSE, [(6.8, 8.8), (7.2, 9.2)]), plain(hu))
    assert (found.value("mean_hu"), found.value("sd_hu"), found.value("voxels")) == (77, 0, 1)


def test_an_outline_that_crosses_itself_says_so_and_counts_its_voxels():
    bow = drawn(Kind.POLYGON, [(2, 2), (12, 14), (12, 2), (2, 14)])
    assert crosses_itself(np.array(bow.points))
    found = measured(bow, plain())
    assert found.value("area_mm2") == found.value("voxel_area_mm2") > 0
    assert "crosses itself" in found.caveats[0]
    assert not crosses_itself(np.array([(2, 2), (2, 12), (12, 12), (7, 7), (12, 2)]))


@pytest.mark.parametrize("seed", range(20))
def test_crossing_is_found_as_by_looking_at_every_pair_of_sides(seed):
    rng = np.random.default_rng(seed)
    points = rng.uniform(0, 10, (rng.integers(3, 9), 2))

    def turn(a, b, c):
        return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])

    sides = list(zip(points, np.roll(points, -1, axis=0), strict=True))
    expected = any(
        turn(a, b, c) * turn(a, b, d) < 0 and turn(c, d, a) * turn(c, d, b) < 0
        for n, (a, b) in enumerate(sides)
        for k, (c, d) in enumerate(sides)
        if k > n + 1 and not (n == 0 and k == len(sides) - 1)
    )
    assert crosses_itself(points) == expected


# ------------------------------------------------------------------------------- trust


def warned(code, level, on_volume=True):
    report = GeometryReport((GeometryWarning(code, level, "The header is wrong."),))
    hu = np.full(SHAPE, 30, np.int16)
    case = plain(hu, report=report)
    return case if on_volume else replace(case, volume=plain(hu).volume)


@pytest.mark.parametrize(
    ("kind", "points"),
    [
        (Kind.RULER, [(1, 1), (5, 5)]),
        (Kind.ANGLE, [(1, 1), (5, 5), (9, 2)]),
        (Kind.BIDIRECTIONAL, [(1, 1), (5, 5), (2, 4), (4, 2)]),
    ],
)
def test_red_geometry_refuses_lengths_with_the_reason(kind, points):
    found = measured(drawn(kind, points), warned("codes_zero", Level.RED))
    assert all(m.value is None and m.caveats == ("geometry red",) for m in found.values)
    assert "The header is wrong." in found.caveats[0]


def test_red_geometry_leaves_hu_and_refuses_areas():
    found = measured(drawn(Kind.ELLIPSE, [(2, 2), (9, 9)]), warned("codes_zero", Level.RED))
    assert found.value("mean_hu") == 30
    assert found.value("area_mm2") is None and found.value("voxel_area_mm2") is None
    assert found.value("voxels") > 0


def test_swapped_sides_refuse_and_a_mask_that_lies_elsewhere_does_not():
    ruler = drawn(Kind.RULER, [(1, 1), (1, 11)])
    swapped = warned("side_swapped", Level.RED, on_volume=False)
    assert measured(ruler, swapped).values[0].value is None
    elsewhere = warned("mask_elsewhere", Level.RED, on_volume=False)
    assert measured(ruler, elsewhere).value("length_mm") == pytest.approx(5)


def test_a_voxel_size_in_doubt_is_said_with_the_number():
    found = measured(
        drawn(Kind.RULER, [(1, 1), (1, 11)]), warned("pixdim_affine_differ", Level.AMBER)
    )
    assert found.value("length_mm") == pytest.approx(5)
    assert found.caveats == (SPACING_CAVEAT,)


def test_values_that_are_no_hu_are_not_averaged():
    found = measured(drawn(Kind.ELLIPSE, [(2, 2), (9, 9)]), warned("hu_implausible", Level.AMBER))
    assert found.value("mean_hu") is None
    assert "HU cannot be measured" in found.caveats[0]
    assert found.value("area_mm2") is not None


def test_padding_is_left_out_and_said():
    hu = np.full(SHAPE, 30, np.int16)
    hu[:, :, :10] = -2000
    found = measured(drawn(Kind.POLYGON, [(5, 5), (5, 14), (8, 14), (8, 5)]), plain(hu))
    assert (found.value("mean_hu"), found.value("voxels")) == (30, 4 * 5)
    assert any("padding" in caveat for caveat in found.caveats)


# ------------------------------------------------------------------------------- probe


@pytest.mark.parametrize("plane", PLANES)
def test_the_circle_under_the_pointer_holds_the_centres_within_its_radius(plane):
    rng = np.random.default_rng(9)
    hu = rng.integers(-100, 300, SHAPE).astype(np.int16)
    at = np.array([9.3, 17.6, 31.2])
    found = circle_statistics(plain(hu).volume, plane, at, 4.0)
    index = np.indices(SHAPE).reshape(3, -1).T
    on_it = index[index[:, plane] == round(at[plane])]
    way = np.delete((on_it - at) * SPACING, plane, axis=1)
    inside = on_it[np.linalg.norm(way, axis=1) <= 4.0]
    values = hu[tuple(inside.T)].astype(float)
    assert found.voxels == len(inside) > 10
    assert (found.mean_hu, found.sd_hu) == pytest.approx((values.mean(), values.std()))


def test_the_circle_is_round_in_the_patient_on_a_sheared_grid():
    on = turned_grid(shear=0.9)
    at = np.array([9.0, 17.6, 31.2])
    found = circle_statistics(plain(on=on).volume, 1, at, 6.0)
    index = np.indices(SHAPE).reshape(3, -1).T
    on_it = index[index[:, 1] == 18]
    apart = np.linalg.norm(on.ras_mm(on_it) - on.ras_mm(np.array([9.0, 18, 31.2])), axis=1)
    assert found.voxels == int((apart <= 6.0).sum()) > 10


def test_a_circle_without_a_centre_in_it_has_no_voxels():
    for at in ((5, 10.5, 10.5), (5, -30, 4), (5, 4, 400)):
        found = circle_statistics(plain().volume, 0, at, 0.2)
        assert (found.voxels, found.mean_hu, found.problem) == (0, None, NO_VOXELS)


def test_a_circle_at_the_edge_counts_what_is_inside():
    found = circle_statistics(plain(np.full(SHAPE, 50, np.int16)).volume, 0, (5, 0, 0), 3.0)
    whole = circle_statistics(plain().volume, 0, (5, 20, 30), 3.0)
    assert 0 < found.voxels < whole.voxels / 2
    assert (found.mean_hu, found.sd_hu) == (50, 0)


def test_the_radius_goes_from_step_to_step_and_stops_at_the_ends():
    assert (next_radius_mm(3.0, 1), next_radius_mm(3.0, -1)) == (4.0, 2.0)
    assert (next_radius_mm(50.0, 1), next_radius_mm(0.5, -1)) == (50.0, 0.5)


@pytest.mark.real
def test_on_a_real_ct_a_polygon_over_an_organ_s_slice_gives_what_the_evidence_gives(real_data):
    case = read_case(find_case(real_data / "ts_example"))
    compared = 0
    for name in ("liver", "spleen", "kidney_left", "aorta", "stomach", "vertebrae_L1"):
        organ = case.masks.get(name)
        if organ is None or organ.region.empty:
            continue
        for plane in PLANES:
            box = organ.region.box_zyx
            number = (box[plane].start + box[plane].stop) // 2
            part = np.take(organ.region.crop_zyx, number - box[plane].start, axis=plane)
            rings = find_contours(np.pad(part, 1).astype(float), 0.5)
            if len(rings) != 1:
                continue  # more than one piece is more than one polygon
            start = np.delete([edge.start for edge in box], plane)
            found = measured(drawn(Kind.POLYGON, rings[0][:-1] - 1 + start, plane, number), case)
            at = tuple(int(n) for n in np.insert(start, plane, number))
            same = region_of(np.expand_dims(part, plane), case.volume.grid, at)
            wanted = hu_statistics(same, case.volume)
            assert found.value("voxels") == wanted.voxels
            assert found.value("mean_hu") == wanted.mean_hu
            assert found.value("sd_hu") == wanted.sd_hu
            compared += 1
    assert compared >= 6
