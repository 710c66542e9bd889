"""Where the files of a case lie, in every layout; and that an id leads nowhere else."""

import json

import pytest

from napari_ctvqa.core.errors import AmbiguousError, InputFileError, NotFoundError, RecordError
from napari_ctvqa.io.case_files import find_case, find_in_roots, safe_inside, stem, with_masks
from napari_ctvqa.io.label_table import read_label_table

ID = "BDMAP_00000017"


def touch(*paths):
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return paths[0]


def names(files):
    return [mask.name for mask in files.masks]


def case(folder, *masks):
    touch(folder / "ct.nii.gz", *(folder / "segmentations" / f"{m}.nii.gz" for m in masks))
    return folder


# One case -----------------------------------------------------------------------------------


def test_a_case_folder(tmp_path):
    folder = case(tmp_path / ID, "liver", "spleen")
    files = find_case(folder)
    assert (files.case_id, files.ct, names(files)) == (
        ID,
        folder / "ct.nii.gz",
        ["liver", "spleen"],
    )
    assert files.notes == ()
    assert find_case(folder / "ct.nii.gz") == files
    assert find_case(folder / "segmentations") == files
    assert find_case(folder, "other id").case_id == "other id"


def test_a_ct_alone_and_uncompressed(tmp_path):
    path = touch(tmp_path / "valid_1_a_1.nii.gz")
    files = find_case(path)
    assert (files.case_id, files.ct, files.masks) == ("valid_1_a_1", path, ())
    assert find_case(tmp_path).ct == path
    plain = touch(tmp_path / "x" / "ct.nii")
    assert find_case(plain).case_id == "x"


def test_a_multi_label_file_with_its_names(tmp_path):
    touch(tmp_path / "ct.nii.gz", tmp_path / "labels.nii.gz")
    (tmp_path / "labels.json").write_text('{"2": "spleen", "1": "liver"}')
    files = find_case(tmp_path)
    assert [(m.name, m.label, m.path.name) for m in files.masks] == [
        ("liver", 1, "labels.nii.gz"),
        ("spleen", 2, "labels.nii.gz"),
    ]


def test_a_ct_of_any_name_beside_a_multi_label_file(tmp_path):
    touch(tmp_path / "scan.nii.gz", tmp_path / "segmentation.nii.gz")
    (tmp_path / "segmentation.json").write_text('{"liver": 1}')
    files = find_case(tmp_path)
    assert files.ct.name == "scan.nii.gz" and names(files) == ["liver"]


def test_single_files_are_preferred_and_that_is_noted(tmp_path):
    case(tmp_path, "liver")
    touch(tmp_path / "labels.nii.gz")
    (tmp_path / "labels.json").write_text('{"1": "spleen"}')
    files = find_case(tmp_path)
    assert names(files) == ["liver"]
    assert "labels.nii.gz" in files.notes[0]


def test_a_label_file_without_names_is_noted_and_not_read(tmp_path):
    touch(tmp_path / "ct.nii.gz", tmp_path / "combined_labels.nii.gz")
    files = find_case(tmp_path)
    assert files.masks == () and "--labels" in files.notes[0]


def test_a_fallback_mask_gives_way_and_other_files_of_one_structure_stay(tmp_path):
    files = find_case(case(tmp_path, "gallbladder", "gall_bladder", "_liver_", "liver"))
    assert names(files) == ["gall_bladder", "gallbladder", "liver"]
    assert len(files.notes) == 1 and "_liver_.nii.gz" in files.notes[0]


def test_a_fallback_mask_is_taken_where_it_is_the_only_one(tmp_path):
    assert names(find_case(case(tmp_path, "_kidney_right"))) == ["_kidney_right"]


@pytest.mark.parametrize("inner", ["segmentations", "."])
def test_masks_alone_are_told_so(tmp_path, inner):
    touch(*(tmp_path / inner / f"{m}.nii.gz" for m in ("liver", "spleen")))
    with pytest.raises(NotFoundError, match="no CT") as caught:
        find_case(tmp_path)
    assert "masks" in caught.value.message and "--masks" in caught.value.hint
    with pytest.raises(NotFoundError, match="no CT"):
        find_case(tmp_path / inner)


def test_a_single_organ_file_is_not_taken_for_a_ct(tmp_path):
    touch(tmp_path / "liver.nii.gz")
    with pytest.raises(NotFoundError, match="no CT"):
        find_case(tmp_path)


def test_a_mask_file_given_as_the_ct_is_told(tmp_path):
    folder = case(tmp_path, "liver")
    touch(folder / "labels.nii.gz")
    with pytest.raises(NotFoundError, match="not a CT"):
        find_case(folder / "labels.nii.gz")
    touch(tmp_path / "only" / "segmentations" / "liver.nii.gz")
    with pytest.raises(NotFoundError, match="no CT"):
        find_case(tmp_path / "only" / "segmentations" / "liver.nii.gz")


def test_several_volumes_are_listed_not_guessed(tmp_path):
    touch(tmp_path / "a.nii.gz", tmp_path / "b.nii.gz")
    with pytest.raises(AmbiguousError, match=r"a\.nii\.gz, b\.nii\.gz"):
        find_case(tmp_path)


def test_nothing_there(tmp_path):
    with pytest.raises(NotFoundError, match="does not exist"):
        find_case(tmp_path / "absent")
    with pytest.raises(NotFoundError, match="holds no CT"):
        find_case(tmp_path)
    with pytest.raises(InputFileError, match="not named like"):
        find_case(touch(tmp_path / "notes.txt"))


def test_hidden_files_are_no_masks(tmp_path):
    case(tmp_path, "liver")
    touch(tmp_path / "segmentations" / "._liver.nii.gz")
    assert names(find_case(tmp_path)) == ["liver"]


# Masks that a person names ------------------------------------------------------------------


def test_a_folder_of_masks_given_for_a_ct(tmp_path):
    ct = touch(tmp_path / "scan.nii.gz")
    touch(tmp_path / "organs" / "liver.nii.gz")
    case(tmp_path / "other", "spleen")
    assert names(with_masks(find_case(ct), tmp_path / "organs")) == ["liver"]
    assert names(with_masks(find_case(ct), tmp_path / "other")) == ["spleen"]


def test_a_multi_label_file_given_with_its_names(tmp_path):
    ct = touch(tmp_path / "scan.nii.gz")
    masks = touch(tmp_path / "x" / "all.nii.gz")
    table = tmp_path / "names.json"
    table.write_text('{"1": "spleen"}')
    assert names(with_masks(find_case(ct), masks, table)) == ["spleen"]
    (tmp_path / "x" / "all.json").write_text('{"liver": 3}')
    assert names(with_masks(find_case(ct), masks)) == ["liver"]


def test_names_given_for_the_multi_label_file_beside_the_ct(tmp_path):
    touch(tmp_path / "ct.nii.gz", tmp_path / "combined_labels.nii.gz")
    table = tmp_path / "names.json"
    table.write_text('{"1": "spleen"}')
    files = with_masks(find_case(tmp_path), None, table)
    assert [(m.name, m.path.name) for m in files.masks] == [("spleen", "combined_labels.nii.gz")]
    assert files.notes == ()


def test_masks_that_are_not_there(tmp_path):
    files = find_case(touch(tmp_path / "scan.nii.gz"))
    (tmp_path / "none").mkdir()
    with pytest.raises(NotFoundError, match="holds no mask"):
        with_masks(files, tmp_path / "none")
    with pytest.raises(NotFoundError, match="does not exist"):
        with_masks(files, tmp_path / "absent.nii.gz")
    with pytest.raises(NotFoundError, match="0 multi-label files"):
        with_masks(files, None, tmp_path / "names.json")


# Roots --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "layout",
    [
        "{id}",
        "AbdomenAtlas3.0Mini/{id}",
        "benchmark/ct/{id}",
        "ct/{id}",
        "image_only/{id}",
        "AbdomenAtlas3.0Mini/image_only/{id}",
        "image_only/part_1/{id}",
    ],
)
def test_a_ct_under_a_root(tmp_path, layout):
    folder = case(tmp_path / layout.format(id=ID), "liver")
    files = find_in_roots(ID, [tmp_path])
    assert files.ct == folder / "ct.nii.gz"
    assert files.case_id == ID
    assert names(files) == ["liver"]


@pytest.mark.parametrize("deeper", ["", "AbdomenAtlas3.0Mini"])
@pytest.mark.parametrize("parts", [("image_only", "mask_only"), ("ImageTr", "LabelTr")])
def test_a_split_root(tmp_path, deeper, parts):
    images, masks = (tmp_path / deeper / part / ID for part in parts)
    touch(images / "ct.nii.gz", masks / "segmentations" / "liver.nii.gz")
    for files in (find_in_roots(ID, [tmp_path]), find_case(images), find_case(tmp_path, ID)):
        assert files.ct == images / "ct.nii.gz"
        assert names(files) == ["liver"]


def test_masks_from_another_root_than_the_ct(tmp_path):
    touch(tmp_path / "bench" / "benchmark" / "ct" / ID / "ct.nii.gz")
    case(tmp_path / "atlas" / ID, "liver")
    files = find_in_roots(ID, [tmp_path / "bench", tmp_path / "atlas"])
    assert "bench" in files.ct.parts and names(files) == ["liver"]
    assert "atlas" in files.notes[-1]


def test_the_root_may_be_the_case_itself(tmp_path):
    folder = case(tmp_path / ID, "liver")
    assert find_in_roots(ID, [folder]).ct == folder / "ct.nii.gz"


@pytest.mark.parametrize(
    "layout",
    [
        "dataset/valid_fixed/valid_1000/valid_1000_a",
        "valid_fixed/valid_1000/valid_1000_a",
        "data_volumes/dataset/valid/valid_1000/valid_1000_a",
        "valid_1000/valid_1000_a",
        ".",
    ],
)
@pytest.mark.parametrize("suffix", [".nii.gz", ""])
def test_ct_rate_nesting(tmp_path, layout, suffix):
    path = touch(tmp_path / layout / "valid_1000_a_1.nii.gz")
    files = find_in_roots("valid_1000_a_1" + suffix, [tmp_path])
    assert files.ct.resolve() == path.resolve()
    assert files.case_id == "valid_1000_a_1" + suffix


def test_another_scan_of_the_same_patient_is_not_taken(tmp_path):
    touch(tmp_path / "valid_1000/valid_1000_a/valid_1000_a_2.nii.gz")
    with pytest.raises(NotFoundError):
        find_in_roots("valid_1000_a_1.nii.gz", [tmp_path])


def test_a_path_below_the_root_is_an_id_too(tmp_path):
    path = touch(tmp_path / "hospital" / "scan 7.nii.gz")
    assert find_in_roots("hospital/scan 7.nii.gz", [tmp_path]).ct == path
    assert find_in_roots(str(path), [tmp_path]).ct == path
    folder = case(tmp_path / "hospital" / "p1", "liver")
    assert names(find_in_roots("hospital/p1", [tmp_path])) == ["liver"]
    assert find_in_roots(str(folder), [tmp_path]).ct == folder / "ct.nii.gz"


def test_a_link_that_a_person_made_is_followed(tmp_path):
    real = case(tmp_path / "store" / "x", "liver")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / ID).symlink_to(real)
    assert names(find_in_roots(ID, [tmp_path / "root"])) == ["liver"]


@pytest.mark.parametrize(
    "case_id",
    [
        "../secret",
        "a/../../secret",
        "..",
        "",
        " ",
        ".",
        "x\0y",
        "x\ny",
        "/etc",
        "a" * 300,
        "a/" * 600,
    ],
)
def test_an_id_never_leads_outside_the_root(tmp_path, case_id):
    case(tmp_path / "secret", "liver")
    root = tmp_path / "root"
    case(root / "a", "liver")
    assert safe_inside(root, case_id) is None
    with pytest.raises(NotFoundError, match="outside"):
        find_in_roots(case_id, [root])
    with pytest.raises(NotFoundError):
        find_in_roots(str(tmp_path / "secret"), [root])


def test_an_absent_case_names_the_roots_and_what_to_do(tmp_path):
    case(tmp_path / "BDMAP_1", "liver")
    with pytest.raises(NotFoundError, match=str(tmp_path)) as caught:
        find_in_roots(ID, [tmp_path])
    assert ID in caught.value.message and "--cases" in caught.value.hint
    with pytest.raises(NotFoundError, match="no folder"):
        find_in_roots(ID, [])


def test_masks_without_ct_under_a_root_are_told(tmp_path):
    touch(tmp_path / "mask_only" / ID / "segmentations" / "liver.nii.gz")
    with pytest.raises(NotFoundError, match="its CT is not"):
        find_in_roots(ID, [tmp_path])


def test_stem():
    from pathlib import Path

    assert [stem(Path(n)) for n in ("a.nii.gz", "a.b.nii", "x.txt")] == ["a", "a.b", "x"]


# The table of label names -------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        {"0": "background", "1": "liver", "12": "spleen"},
        {"background": 0, "liver": 1, "spleen": 12},
        {"labels": {"background": 0, "liver": 1, "spleen": 12}, "numTraining": 7},
    ],
)
def test_label_tables_in_both_directions(tmp_path, data):
    path = tmp_path / "labels.json"
    path.write_text(json.dumps(data))
    assert read_label_table(path) == {1: "liver", 12: "spleen"}


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ('{"1": "liver",\n "2": }', InputFileError, "line 2"),
        ("[1, 2]", RecordError, "list"),
        ('{"one": "liver"}', RecordError, "'one'"),
        ('{"1": ["liver"]}', RecordError, "'1'"),
        ('{"70000": "liver"}', RecordError, "65535"),
        ('{"liver": 1, "spleen": 1}', RecordError, "two names"),
        ('{"liver": true}', RecordError, "'liver'"),
        ("", InputFileError, "line 1"),
    ],
)
def test_a_bad_label_table_names_file_and_place(tmp_path, text, error, words):
    path = tmp_path / "labels.json"
    path.write_text(text)
    with pytest.raises(error, match=words) as caught:
        read_label_table(path)
    assert str(path) in caught.value.message and caught.value.hint


def test_a_label_table_that_is_absent_binary_or_huge(tmp_path):
    with pytest.raises(InputFileError, match="cannot be read"):
        read_label_table(tmp_path / "absent.json")
    path = tmp_path / "labels.json"
    path.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(InputFileError, match="UTF-8"):
        read_label_table(path)
    path.write_bytes(b"[" * 100_000)
    with pytest.raises(InputFileError, match=r"nested|line"):
        read_label_table(path)
    with path.open("wb") as file:
        file.truncate(9 << 20)
    with pytest.raises(InputFileError, match="bytes long"):
        read_label_table(path)
