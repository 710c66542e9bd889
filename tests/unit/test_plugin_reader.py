"""The napari reader: layers without docks still say what is wrong with a case."""

import numpy as np
import phantoms
import pytest
from napari.utils.notifications import notification_manager

from napari_ctvqa._plugin import get_reader, read_case_layers


@pytest.fixture
def told():
    """The messages that napari is given while a test runs."""
    messages = []

    def keep(event):
        messages.append(str(event.message))

    notification_manager.notification_ready.connect(keep)
    yield messages
    notification_manager.notification_ready.disconnect(keep)


def ct_layer(folder):
    return read_case_layers(str(folder))[0][1]


def test_a_sound_case_says_nothing(phantom_case, told):
    layer = ct_layer(phantom_case)
    assert told == [] and layer["name"] == "CT case"
    assert layer["metadata"]["geometry"] == "green"


@pytest.mark.parametrize("fault", ["codes", "swapped", "elsewhere"])
def test_red_geometry_is_told_and_stands_in_the_layer(phantom_case, phantom, told, fault):
    masks = phantom_case / "segmentations"
    if fault == "codes":
        for path in [phantom_case / "ct.nii.gz", *masks.iterdir()]:
            phantoms.edit_header(path, qform_code=0, sform_code=0)
    elif fault == "swapped":
        (masks / "kidney_left.nii.gz").rename(masks / "x.nii.gz")
        (masks / "kidney_right.nii.gz").rename(masks / "kidney_left.nii.gz")
        (masks / "x.nii.gz").rename(masks / "kidney_right.nii.gz")
    else:
        moved = phantom.affine.copy()
        moved[2, 3] += 5000
        phantoms.save(masks / "liver.nii.gz", phantom.masks["liver"], moved)
    layer = ct_layer(phantom_case)
    assert len(told) == 1 and "geometry red" in told[0] and "case" in told[0]
    assert "geometry red" in layer["name"]
    assert layer["metadata"]["geometry"] == "red" and layer["metadata"]["warnings"]


def test_masks_that_could_not_be_read_are_named(phantom_case, told):
    (phantom_case / "segmentations" / "spleen.nii.gz").write_bytes(b"no mask")
    (phantom_case / "segmentations" / "liver.nii.gz").write_bytes(b"")
    layer = ct_layer(phantom_case)
    assert len(told) == 2 and {"spleen", "liver"} <= set(" ".join(told).split())
    assert set(layer["metadata"]["problems"]) == {"spleen", "liver"}


def test_a_mask_that_was_not_placed_is_told_once(phantom_case, phantom, told):
    wrong = np.zeros((5, 6, 7), np.uint8)
    path = phantom_case / "segmentations" / "liver.nii.gz"
    phantoms.save(path, wrong, phantom.affine)
    phantoms.edit_header(path, qform_code=0, sform_code=0)
    ct_layer(phantom_case)
    assert len(told) == 1 and "liver.nii.gz" in told[0]


@pytest.mark.parametrize(
    "path",
    ["x" * 300, "/" + "a/" * 3000, "x" * 300 + ".nii.gz", "a\0b", ""],
    ids=["name", "depth", "file", "null", "empty"],
)
def test_a_path_that_no_system_looks_at_is_not_ours(path):
    assert get_reader(path) is None
