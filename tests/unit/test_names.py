"""One canonical name for the many names that files and tools use."""

import json

import pytest

from napari_ctvqa._resources import resource_path
from napari_ctvqa.core import names

ABDOMEN_ATLAS = [
    "aorta",
    "adrenal_gland_left",
    "adrenal_gland_right",
    "bladder",
    "celiac_trunk",
    "colon",
    "common_bile_duct",
    "duodenum",
    "esophagus",
    "femur_left",
    "femur_right",
    "gall_bladder",
    "hepatic_vessel",
    "intestine",
    "kidney_left",
    "kidney_right",
    "kidney_lesion",
    "liver",
    "liver_lesion",
    "lung_left",
    "lung_right",
    "pancreas",
    "pancreas_head",
    "pancreas_body",
    "pancreas_tail",
    "pancreatic_lesion",
    "portal_vein_and_splenic_vein",
    "postcava",
    "prostate",
    "rectum",
    "spleen",
    "stomach",
    "superior_mesenteric_artery",
    "veins",
    "colon_lesion",
    *(f"liver_segment_{n}" for n in range(1, 9)),
]


@pytest.mark.parametrize("name", ABDOMEN_ATLAS)
def test_abdomen_atlas_names_are_canonical(name):
    assert names.canonical(name) == name
    assert names.is_known(name)


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("gallbladder", "gall_bladder"),
        ("inferior_vena_cava", "postcava"),
        ("urinary_bladder", "bladder"),
        ("small_bowel", "intestine"),
        ("left kidney", "kidney_left"),
        ("Kidney-Left", "kidney_left"),
        ("_kidney_right", "kidney_right"),
        ("rib_left_7", "rib_left_7"),
        ("vertebra_L1", "vertebrae_L1"),
        ("hepatic_tumor", "liver_tumor"),
        ("pancreas_lesion", "pancreatic_lesion"),
        ("PDAC", "pancreatic_pdac"),
        ("celiac_aa", "celiac_trunk"),
        ("Something New", "Something New"),
    ],
)
def test_aliases(name, canonical):
    assert names.canonical(name) == canonical


def test_left_and_right_never_become_each_other():
    for row in names.table().structures.values():
        for alias in (row.name, *row.aliases):
            for side, other in (("left", "right"), ("right", "left")):
                if side in alias.split("_"):
                    assert names.side_of(names.canonical(alias)) == side
                    assert other not in names.canonical(alias)


def test_every_row_points_at_rows():
    known = names.table().structures
    for row in known.values():
        assert names.canonical(row.name) == row.name
        for other in (*row.parts, *row.stand_ins, *filter(None, (row.parent, row.opposite))):
            assert other in known, f"{row.name} names {other}"
        if row.opposite:
            assert known[row.opposite].opposite == row.name
            assert {row.side, known[row.opposite].side} == {"left", "right"}
    for pair in names.table().right_of:
        assert set(pair) <= set(known)


def test_labels_are_for_people_and_tell_structures_apart():
    labels = [row.label for row in names.table().structures.values()]
    assert len(set(labels)) == len(labels)
    assert not any("_" in label for label in labels)
    assert names.label("kidney_left") == "left kidney"
    assert names.label("postcava") == "inferior vena cava"
    assert names.label("my_own_thing") == "my own thing"


def test_an_alias_of_two_structures_is_refused(monkeypatch, tmp_path):
    rows = {"a": {"aliases": ["x"]}, "b": {"aliases": ["X"]}}
    path = tmp_path / "names.json"
    path.write_text(json.dumps({"order_checks": [], "structures": rows}))
    monkeypatch.setattr(names, "resource_path", lambda _: path)
    with pytest.raises(ValueError, match="stands for"):
        names.table.__wrapped__()


def test_the_file_lists_no_row_twice():
    pairs = []
    json.loads(
        resource_path("names.json").read_text(encoding="utf-8"),
        object_pairs_hook=lambda p: pairs.append([k for k, _ in p]) or dict(p),
    )
    assert all(len(keys) == len(set(keys)) for keys in pairs)


@pytest.mark.parametrize(
    ("name", "lesion", "parent"),
    [
        ("liver_tumor", True, "liver"),
        ("hepatic_vessel_tumor", True, "liver"),
        ("kidney_cyst", True, "kidney"),
        ("kidney_cyst_left", True, "kidney_left"),
        ("pancreas_tumor", True, "pancreas"),
        ("gallbladder_lesion", True, "gall_bladder"),
        ("GTV_Mass", True, ""),
        ("some_new_tumour", True, ""),
        ("liver", False, ""),
        ("massive_thing", False, ""),
    ],
)
def test_lesions_and_what_they_lie_in(name, lesion, parent):
    assert names.is_lesion(name) is lesion
    assert names.parent_of(name) == parent


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("liver_tumor", ("liver_tumor", "liver_lesion")),
        ("kidney_tumor", ("kidney_tumor", "kidney_lesion")),
        ("colon_tumor", ("colon_tumor", "colon_lesion")),
        (
            "pancreas_tumor",
            ("pancreas_tumor", "pancreatic_lesion", "pancreatic_pdac", "pancreatic_pnet"),
        ),
        ("kidney_cyst", ("kidney_cyst",)),
        ("left kidney", ("kidney_left",)),
        ("gallbladder", ("gall_bladder",)),
        ("no such thing", ("no such thing",)),
    ],
)
def test_candidates(target, expected):
    assert names.candidates(target) == expected


def test_sides_of_names_that_the_table_lacks():
    assert names.side_of("foot_left") == "left"
    assert names.side_of("left_to_right_shunt") == ""
    assert names.side_of("heart_ventricle_left") == "left"
    assert names.opposite_of("heart_ventricle_left") == ""
    assert names.opposite_of("kidney_left") == "kidney_right"
    assert names.parts_of("kidney") == ("kidney_left", "kidney_right")


@pytest.mark.real
def test_every_mask_of_the_real_case_is_known(real_data):
    for path in (real_data / "ts_example" / "segmentations").iterdir():
        assert names.is_known(path.name.removesuffix(".nii.gz")), path.name
