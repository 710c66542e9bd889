"""Every mask of a real CT, measured by us and by SimpleITK and scikit-image.

The other side reads the files itself and shares no line with us: SimpleITK's label statistics for
volumes, HU, components and boxes; for diameters each slice's contour at 0.5 and every pair of its
hull's points. Numbers have to agree to 0.1 %, voxel counts exactly.
"""

import contextlib
import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial import ConvexHull, QhullError
from scipy.spatial.distance import pdist

from napari_ctvqa.core import names
from napari_ctvqa.core.chains import StepKind
from napari_ctvqa.core.findings import find
from napari_ctvqa.core.plans import PlanStep
from napari_ctvqa.core.sampling import centroid_ras_mm
from napari_ctvqa.core.shape import border_contact
from napari_ctvqa.extensions import tools
from napari_ctvqa.io.case_files import find_case
from napari_ctvqa.io.reader import read_case

pytestmark = pytest.mark.real

sitk = pytest.importorskip("SimpleITK")

MASKS = 61
WITHIN = 1e-3


@pytest.fixture(scope="module")
def folder(real_data):
    return real_data / "ts_example"


@pytest.fixture(scope="module")
def case(folder):
    return read_case(find_case(folder))


@pytest.fixture(scope="module")
def theirs(folder):
    """What the other side says of each mask, by the file's name."""
    ct = sitk.ReadImage(str(folder / "ct.nii.gz"))
    paths = sorted((folder / "segmentations").glob("*.nii.gz"))
    assert len(paths) == MASKS
    return {path.name.removesuffix(".nii.gz"): _measured(ct, path) for path in paths}


def _measured(ct, path):
    mask = sitk.Cast(sitk.ReadImage(str(path)) > 0, sitk.sitkUInt8)
    shape = sitk.LabelShapeStatisticsImageFilter()
    shape.Execute(mask)
    hu = sitk.LabelIntensityStatisticsImageFilter()
    hu.Execute(mask, ct)
    parts = sitk.ConnectedComponent(mask, True)  # fully connected: faces, edges and corners
    by_size = sitk.RelabelComponent(parts, sortByObjectSize=True)
    largest = sitk.LabelShapeStatisticsImageFilter()
    largest.Execute(by_size == 1)
    count = int(sitk.GetArrayViewFromImage(parts).max())
    planes = sitk.GetArrayFromImage(mask).astype(bool)  # (k, j, i)
    labels = sitk.GetArrayFromImage(by_size)
    slices = [(_farthest_mm(p, mask.GetSpacing()), k) for k, p in enumerate(labels == 1) if p.any()]
    i, j, k, di, dj, dk = shape.GetBoundingBox(1)
    size = mask.GetSize()
    return SimpleNamespace(
        volume_cm3=shape.GetPhysicalSize(1) / 1000,
        voxels=shape.GetNumberOfPixels(1),
        mean_hu=hu.GetMean(1),
        # ITK divides by n - 1, we by n
        sd_hu=hu.GetStandardDeviation(1) * math.sqrt(1 - 1 / shape.GetNumberOfPixels(1)),
        values=sitk.GetArrayViewFromImage(ct)[planes],
        count=count,
        largest_cm3=largest.GetPhysicalSize(1) / 1000,
        largest_mm=max(slices)[0],
        slices={k for mm, k in slices if mm > max(slices)[0] - 1e-6},
        all_mm=max(
            _farthest_mm(plane, mask.GetSpacing())
            for number in range(1, count + 1)
            for plane in labels == number
            if plane.any()
        ),
        box_ijk=[i, i + di, j, j + dj, k, k + dk],
        faces=_faces(mask, (i, j, k), (i + di, j + dj, k + dk)),
        centroid_lps=shape.GetCentroid(1),
        touches=0 in (i, j, k)
        or any(end == n for end, n in zip((i + di, j + dj, k + dk), size, strict=True)),
        on_border=shape.GetNumberOfPixelsOnBorder(1),
    )


def _faces(image, first, end):
    """RAS mm of the box's two outer corners, half a voxel beyond the voxels' centres."""
    low = image.TransformContinuousIndexToPhysicalPoint([n - 0.5 for n in first])
    high = image.TransformContinuousIndexToPhysicalPoint([n - 0.5 for n in end])
    corners = np.array([low, high]) * [-1, -1, 1]
    return [*corners.min(axis=0), *corners.max(axis=0)]


def _farthest_mm(plane, spacing_ijk):
    """The longest distance between two points of a slice's contour at 0.5 (scikit-image)."""
    from skimage.measure import find_contours

    points = np.concatenate(find_contours(np.pad(plane, 1).astype(float), 0.5))
    points = points * [spacing_ijk[1], spacing_ijk[0]]
    with contextlib.suppress(QhullError):  # all on a line: every pair is compared
        points = points[ConvexHull(points).vertices]
    return float(pdist(points).max())


def ours(case, name, measure):
    kind = StepKind.SEGMENT if "slice" in measure else StepKind.MEASURE
    found = find(case, PlanStep(kind, names.canonical(name), measure))
    assert not found.problem, (name, measure, found.problem)
    return found.value


def test_all_masks_are_there(case, theirs):
    assert len(case.masks) == len(theirs) == MASKS
    assert {names.canonical(name) for name in theirs} == set(case.masks)


@pytest.mark.parametrize(
    ("measure", "other"),
    [
        ("volume_cm3", "volume_cm3"),
        ("mean_hu", "mean_hu"),
        ("sd_hu", "sd_hu"),
        ("largest_lesion_volume_cm3", "largest_cm3"),
    ],
)
def test_volumes_and_hu_of_all_masks(case, theirs, measure, other):
    for name, their in theirs.items():
        # 0.1 % of the value; a mean near 0 HU to 0.001 HU
        expected = pytest.approx(getattr(their, other), rel=WITHIN, abs=1e-3)
        assert ours(case, name, measure) == expected, name


@pytest.mark.parametrize(
    ("measure", "percent"), [("p10_hu", 10), ("median_hu", 50), ("p90_hu", 90)]
)
def test_percentiles_of_all_masks(case, theirs, measure, percent):
    for name, their in theirs.items():
        expected = np.percentile(their.values, percent)
        assert ours(case, name, measure) == pytest.approx(expected, rel=WITHIN), name


def test_voxels_and_components_of_all_masks(case, theirs):
    for name, their in theirs.items():
        assert ours(case, name, "voxels") == their.voxels, name
        assert ours(case, name, "lesion_count") == their.count, name
    assert any(their.count > 1 for their in theirs.values()), "some masks are in pieces"


def test_diameters_of_all_masks(case, theirs):
    for name, their in theirs.items():
        largest_cm = ours(case, name, "largest_lesion_diameter_cm")
        assert largest_cm == pytest.approx(their.largest_mm / 10, rel=WITHIN), name
        assert ours(case, name, "max_diameter_mm") == pytest.approx(their.all_mm, rel=WITHIN), name


def test_the_slice_of_the_longest_diameter_of_all_masks(case, theirs):
    for name, their in theirs.items():
        # the file is RAS: its k is the index from the feet
        assert ours(case, f"largest {name}", "widest_slice_ras") in their.slices, name
        assert ours(case, f"largest {name}", "widest_slice_file") in their.slices, name


def test_diameters_are_a_voxel_longer_than_between_centres(folder, case):
    """SimpleITK's Feret diameter runs between the centres of voxels, ours to their faces."""
    for name in ("kidney_left", "spleen", "aorta", "adrenal_gland_right", "urinary_bladder"):
        mask = sitk.ReadImage(str(folder / "segmentations" / f"{name}.nii.gz")) > 0
        by_size = sitk.RelabelComponent(sitk.ConnectedComponent(mask, True), sortByObjectSize=True)
        longest = 0.0
        for k in range(mask.GetSize()[2]):
            plane = by_size[:, :, k] == 1
            feret = sitk.LabelShapeStatisticsImageFilter()
            feret.ComputeFeretDiameterOn()
            feret.Execute(plane)
            if feret.HasLabel(1):
                longest = max(longest, feret.GetFeretDiameter(1))
        found_mm = ours(case, name, "largest_lesion_diameter_cm") * 10
        assert 0 < found_mm - longest <= 3.0 * math.sqrt(2), name


def test_boxes_of_all_masks_in_every_order(case, theirs):
    box = tools()["bounding_box"]
    ni, nj, nk = 122, 101, 112
    for name, their in theirs.items():
        found = box(case, {"target": name}).content
        i0, i1, j0, j1, k0, k1 = their.box_ijk
        assert found["bbox_ijk"] == their.box_ijk, name
        assert found["bbox_ras"] == their.box_ijk, "the file is RAS"
        # display: z to inferior, y to posterior, x to left: each runs against the file's axis
        shown = [nk - k1, nk - k0, nj - j1, nj - j0, ni - i1, ni - i0]
        assert found["bbox_display_zyx"] == shown, name
        size = {"x": 3.0 * (i1 - i0), "y": 3.0 * (j1 - j0), "z": 3.0 * (k1 - k0)}
        assert found["size_mm"] == pytest.approx(size, rel=WITHIN), name
        faces = [*found["low_ras_mm"], *found["high_ras_mm"]]
        assert faces == pytest.approx(their.faces, abs=0.01), name


def test_centroids_and_the_border_of_all_masks(case, theirs):
    cut = set()
    for name, their in theirs.items():
        region = case.masks[names.canonical(name)].own_region
        x, y, z = their.centroid_lps
        assert centroid_ras_mm(region) == pytest.approx([-x, -y, z], abs=3e-3), name
        assert region.touches_border == their.touches == bool(their.on_border), name
        assert bool(border_contact(region)) == their.touches, name
        if their.touches:
            cut.add(name)
    assert {"liver", "spleen", "stomach"} <= cut
    assert not cut & {"kidney_left", "kidney_right", "pancreas", "urinary_bladder"}
