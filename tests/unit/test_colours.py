import json
from itertools import combinations

import nibabel as nib
import numpy as np
import pytest
from skimage.color import deltaE_ciede2000, rgb2lab

from napari_ctvqa._resources import resource_path
from napari_ctvqa.core.cases import Source
from napari_ctvqa.core.colours import (
    RGB,
    case_colours,
    highlight_colour,
    highlight_look,
    highlight_pixels,
    lesion_look,
    look_of,
)
from napari_ctvqa.core.names import canonical, is_lesion, table
from napari_ctvqa.demo import ensure_demo
from napari_ctvqa.io.reader import read_case
from napari_ctvqa.runners.opening import open_path

ORGANS = [name for name in table().structures if not is_lesion(name)]
LESIONS = [name for name in table().structures if is_lesion(name)]


def over_grey(colour, alpha, grey):
    return np.rint(alpha * np.array(colour) + (1 - alpha) * grey).astype(np.uint8)


def test_no_two_structures_of_a_case_share_a_colour():
    colours = case_colours(ORGANS, LESIONS)
    assert set(colours) == {*ORGANS, *LESIONS}
    assert len(set(colours.values())) == len(colours)
    assert highlight_colour() not in colours.values()


def test_a_known_structure_has_its_colour_in_every_case():
    alone = case_colours(["liver"], ["liver_lesion"])
    together = case_colours(["spleen", "my organ", "liver"], ["kidney_lesion", "liver_lesion"])
    for name in ("liver", "liver_lesion"):
        assert alone[name] == together[name]


def test_unknown_structures_get_colours_nobody_else_has():
    names = [f"thing {n}" for n in range(300)]
    colours = case_colours([*names, *ORGANS], [f"spot {n}" for n in range(100)])
    assert len(set(colours.values())) == 300 + len(ORGANS) + 100
    assert case_colours(names, ()) == case_colours(reversed(names), ())


def test_too_many_structures_are_refused_rather_than_drawn_alike():
    with pytest.raises(ValueError, match="colours"):
        case_colours([f"thing {n}" for n in range(10_000)], ())


def test_hex_is_read_and_written():
    assert RGB.from_hex("#E69F00") == (230, 159, 0)
    assert RGB(230, 159, 0).hex == "#e69f00"
    with pytest.raises(ValueError, match="colour"):
        RGB.from_hex("red")


def alphas():
    looks = [lesion_look(), *(look_of(source) for source in Source)]
    drawn = {alpha for look in looks for alpha in (look.fill_alpha, look.outline_alpha)}
    return sorted(drawn | {0.35 * alpha for alpha in drawn})


def test_highlight_is_recognised_over_every_grey():
    look = highlight_look()
    greys = np.arange(256)[:, None]
    for alpha in (look.fill_alpha, look.outline_alpha):
        assert highlight_pixels(over_grey(highlight_colour(), alpha, greys)).all()


def test_no_other_mask_is_taken_for_the_highlight():
    data = json.loads(resource_path("colours.json").read_text(encoding="utf-8"))
    texts = [*data["structures"].values(), *data["lesions"].values()]
    texts += [*data["palette"], *data["lesion_palette"]]
    colours = {RGB.from_hex(text) for text in texts}
    colours |= set(case_colours([f"thing {n}" for n in range(300)], ()).values())
    greys = np.arange(0, 256, 5)[:, None]
    for colour in colours:
        for alpha in alphas():
            assert not highlight_pixels(over_grey(colour, alpha, greys)).any(), (colour, alpha)


def test_colours_stand_out_on_ct_grey():
    """Neither dark (blue and black vanish) nor grey."""
    lab = rgb2lab(np.array(list(case_colours(ORGANS, LESIONS).values())) / 255.0)
    assert lab[:, 0].min() > 45
    assert np.hypot(lab[:, 1], lab[:, 2]).min() > 30


def test_each_source_is_told_apart_without_hue():
    looks = {(look.outline, look.fill) for look in (look_of(source) for source in Source)}
    assert len(looks) == len(Source)
    assert look_of(Source.REFERENCE).outline == "solid"
    assert look_of(Source.PREDICTED).outline == "dashed"
    assert 0.25 <= look_of(Source.TOOL).fill_alpha <= 0.35
    assert look_of(Source.READER).fill == "cross"


def seen_by_everybody(colours):
    """Return Lab with full vision and the three deficiencies.

    Matrices of severity 1 for linear RGB: Machado, Oliveira, Fernandes, "A physiologically-based
    model for simulation of color vision deficiency", IEEE TVCG 15(6), 2009.
    """
    unit = np.array(colours) / 255.0
    linear = np.where(unit <= 0.04045, unit / 12.92, ((unit + 0.055) / 1.055) ** 2.4)
    matrices = (
        "0.152286 1.052583 -0.204868 0.114503 0.786281 0.099216 -0.003882 -0.048116 1.051998",
        "0.367322 0.860646 -0.227968 0.280085 0.672501 0.047413 -0.011820 0.042940 0.968881",
        "1.255528 -0.076749 -0.178779 -0.078411 0.930809 0.147602 0.004733 0.691367 0.303900",
    )
    views = [unit]
    for matrix in matrices:
        there = np.clip(linear @ np.reshape(np.array(matrix.split(), float), (3, 3)).T, 0, 1)
        views.append(
            np.where(there <= 0.0031308, there * 12.92, 1.055 * there ** (1 / 2.4) - 0.055)
        )
    return [rgb2lab(view) for view in views]


def touching_pairs(labels):
    """Return the pairs of values with voxels that share a face."""
    found = set()
    for axis in range(3):
        ahead = np.moveaxis(labels, axis, 0)
        both = np.stack([ahead[1:].ravel(), ahead[:-1].ravel()])
        both = both[:, (both[0] != both[1]) & (both > 0).all(axis=0)]
        found |= {tuple(sorted(pair)) for pair in np.unique(both, axis=1).T.tolist()}
    return found


def apart_for_everybody(colours):
    """Return CIEDE2000 (n, n), the smallest of full vision and the three deficiencies."""
    views = seen_by_everybody(colours)
    return np.min([deltaE_ciede2000(view[:, None], view[None]) for view in views], axis=0)


def assert_touching_differ(labels, names, at_least):
    colours = case_colours(names.values(), ())
    row = {value: index for index, value in enumerate(names)}
    apart = apart_for_everybody([colours[name] for name in names.values()])
    pairs = touching_pairs(labels)
    for a, b in pairs:
        assert apart[row[a], row[b]] >= at_least, (names[a], names[b], apart[row[a], row[b]])
    return len(pairs)


def stated_distance():
    data = json.loads(resource_path("colours.json").read_text(encoding="utf-8"))
    return data["distance"]["touching_ciede2000"]


def test_the_stated_distance_is_one_that_everybody_sees():
    assert stated_distance() >= 12


@pytest.fixture
def example_labels(real_data):
    """The masks of the 61 organs, last file on top: array (x, y, z), value to structure."""
    folder = real_data / "ts_example" / "segmentations"
    names, labels = {}, None
    for value, path in enumerate(sorted(folder.glob("*.nii.gz")), start=1):
        mask = np.asarray(nib.load(path).dataobj) > 0
        labels = np.zeros(mask.shape, np.uint8) if labels is None else labels
        labels[mask] = value
        names[value] = canonical(path.name.removesuffix(".nii.gz"))
    return labels, names


@pytest.mark.real
def test_structures_that_touch_differ_for_everybody(example_labels):
    labels, names = example_labels
    assert len(names) == 61
    assert assert_touching_differ(labels, names, stated_distance()) > 80


@pytest.mark.real
def test_soft_organs_in_one_axial_slice_differ(example_labels):
    """The grey of soft organs tells nothing, so that their colours have to."""
    labels, names = example_labels
    hard = (
        "rib",
        "vertebra",
        "hip",
        "femur",
        "sacrum",
        "glut",
        "auto",
        "iliopsoas",
        "cost",
        "lung",
    )
    soft = {v: n for v, n in names.items() if not n.startswith((*hard, "spinal"))}
    colours = np.array(list(case_colours(names.values(), ()).values()))
    row = {name: n for n, name in enumerate(case_colours(names.values(), ()))}
    lab = rgb2lab(colours / 255.0)
    for plane in np.moveaxis(labels, 2, 0):
        for a, b in combinations([v for v in np.unique(plane) if v in soft], 2):
            apart = float(deltaE_ciede2000(lab[row[names[a]]], lab[row[names[b]]]))
            assert apart >= 12, (names[a], names[b], apart)


@pytest.mark.parametrize("case_id", ["DEMO_0001", "DEMO_0002"])
def test_structures_that_touch_in_the_demo_differ_for_everybody(case_id, tmp_path_factory):
    """As drawn: of overlapping masks the smaller one."""
    made = ensure_demo(tmp_path_factory.getbasetemp() / "the demo")
    opened = open_path(made / "benchmark")
    organs = read_case(opened.case_files(case_id), label_maps=True).label_maps["organs"]
    assert assert_touching_differ(organs.array_zyx, organs.structures, stated_distance()) > 10


def test_left_and_right_differ():
    for name in ORGANS:
        other = table().structures[name].opposite
        if other:
            colours = case_colours([name, other], ())
            lab = rgb2lab(np.array([colours[name], colours[other]]) / 255.0)
            assert float(deltaE_ciede2000(*lab)) > 6, name


def test_lesions_differ_from_their_organ():
    for lesion, organ in combinations(["liver_lesion", "liver"], 2):
        colours = case_colours([organ], [lesion])
        lab = rgb2lab(np.array([colours[organ], colours[lesion]]) / 255.0)
        assert float(deltaE_ciede2000(*lab)) > 18
