"""What the toy model is taught: sides, patches and answers, before any training."""

import json
import sys

import numpy as np
import pytest
from project_file import ROOT

sys.path.insert(0, str(ROOT / "scripts"))

from demo_model.bodies import ASKED, ORGANS, bodies, lesion_areas_mm2
from demo_model.items import answer, mirrored_sides
from demo_model.painting import Painter
from demo_model.pictures import GREY_PER_HU, PIXEL_MM, SIZE, cut
from demo_model.pool import GRID, MIDLINE_MM, SEEN_MM2, UNSURE, patch_labels, pool_of, sides
from demo_model.tool_turns import NO_MASK, UNITS, tool_turn
from demo_model.wordings import NO_LESION

from napari_ctvqa.core.records import AnswerFormat, Question, Reference
from napari_ctvqa.demo import files
from napari_ctvqa.io.case_files import find_case
from napari_ctvqa.io.reader import read_case
from napari_ctvqa.models.chat_image import ChatImage

LIVER, LEFT, RIGHT, SPLEEN = range(len(ORGANS))


def seen(**organs):
    row = np.zeros(len(ORGANS), np.int8)
    for name, side in organs.items():
        row[ORGANS.index(name)] = side
    return row


NONE = seen()


def test_a_display_column_to_the_right_is_the_patient_s_left():
    lesions = np.zeros((SIZE, SIZE), np.uint8)
    lesions[60:70, 110:120] = LEFT + 1
    lesions[60:70, 20:30] = LIVER + 1
    lesions[60:70, 68:76] = SPLEEN + 1
    assert sides(lesions).tolist() == [-1, 1, 0, 2]


def test_mirrored_pictures_flip_sides_and_name_kidneys_by_side():
    found = mirrored_sides(seen(liver=-1, kidney_left=1, spleen=2))
    assert found.tolist() == seen(liver=1, kidney_right=-1, spleen=2).tolist()
    assert mirrored_sides(found).tolist() == seen(liver=-1, kidney_left=1, spleen=2).tolist()


@pytest.mark.parametrize(
    ("rows", "task", "subject", "right"),
    [
        ([NONE, NONE], "presence", "any", "No."),
        ([NONE, seen(spleen=1)], "presence", "any", "Yes."),
        ([NONE, seen(spleen=1)], "presence", "liver", "No."),
        ([NONE, seen(spleen=1)], "slice", "any", "SLICE 2"),
        ([NONE, seen(spleen=1)], "side", "any", "Left."),
        ([seen(liver=-1), NONE], "side", "any", "Right."),
        ([seen(kidney_right=-1), NONE], "organ", "any", "Right kidney."),
        ([NONE], "organ", "any", NO_LESION),
        ([seen(liver=-1), seen(spleen=1)], "side", "any", None),
        ([seen(liver=-1), seen(spleen=1)], "organ", "any", None),
        ([seen(liver=-1), seen(liver=-1)], "slice", "any", None),
        ([seen(liver=-1), seen(spleen=1)], "slice", "spleen", "SLICE 2"),
        ([seen(spleen=2)], "side", "any", None),
    ],
)
def test_only_a_question_with_one_answer_is_asked(rows, task, subject, right):
    assert answer(rows, task, subject) == right


def test_a_patch_shows_a_lesion_where_it_takes_a_good_part_of_it():
    lesions = np.zeros((SIZE, SIZE), np.uint8)
    lesions[18:27, 36:47] = SPLEEN + 1  # one whole patch of 9 and a fifth of the next
    labels = patch_labels(lesions)
    assert labels.shape == (GRID, GRID)
    assert labels[2, 4] == SPLEEN + 1
    assert labels[2, 5] == UNSURE
    assert np.count_nonzero(labels) == 2


def test_a_lesion_smaller_than_a_patch_has_one_all_the_same():
    lesions = np.zeros((SIZE, SIZE), np.uint8)
    lesions[19:21, 37:39] = 1
    assert patch_labels(lesions)[2, 4] == 1


def test_tool_turns_repeat_what_the_tool_returned():
    rng = np.random.default_rng(4)
    for _ in range(300):
        turn = tool_turn(rng)
        call = json.loads(turn.call.removeprefix("<tool_call>").removesuffix("</tool_call>"))
        result = json.loads(turn.result)
        assert call == {"name": turn.name, "arguments": dict(turn.arguments)}
        if "error" in result:
            assert turn.answer == NO_MASK
        elif turn.name == "segment_organ":
            assert turn.answer == ("Yes." if result["voxel_count"] else "No.")
        else:
            number, unit = turn.answer.split(" ")
            assert json.loads(number) == result["value"]
            assert unit == UNITS[turn.arguments["measurement_type"]]


@pytest.mark.slow
def test_generated_bodies_show_their_lesions_where_the_parameters_say():
    """Side and height of a lesion on display slices against its parameters: x to the left."""
    (body,) = bodies(700_000, 1, 3, ASKED)
    areas = lesion_areas_mm2(body)
    pool = pool_of([body], np.random.default_rng(0))
    by_z = {int(z): row for z, row in zip(pool.z, pool.seen, strict=True)}
    assert body.lesions
    for number, lesion in enumerate(body.lesions):
        z = len(body.hu_zyx) - 1 - lesion.centre_slice
        assert areas[z, number] > SEEN_MM2
        assert abs(int(areas[:, number].argmax()) - z) <= 1
        if z not in by_z:
            continue
        x = lesion.centre_mm[0]
        side = by_z[z][ORGANS.index(lesion.organ)]
        if abs(x) > MIDLINE_MM + 3:
            assert side == (1 if x > 0 else -1)
        inside = body.hu_zyx[z][body.lesions_zyx[z] == number + 1].mean()
        organ = body.means_hu[ORGANS.index(lesion.organ)]
        assert organ - inside > 30


@pytest.mark.slow
def test_painted_lesions_are_dark_lie_in_their_organ_and_change_nothing_else():
    (body,) = bodies(700_000, 1, 1, ASKED)
    pool = pool_of([body], np.random.default_rng(0))
    painter = Painter(pool, np.random.default_rng(1))
    for row in painter.rows[::6]:
        made = painter.painted(int(row), 1)
        (number,) = set(np.unique(made.lesions)) - {0}
        inside, organs = made.lesions > 0, cut(body.organs_zyx[pool.z[row]])
        darker = pool.grey[row][inside].mean() - made.grey[inside].mean()
        assert darker > 15 * GREY_PER_HU, "a lesion is dark, even at its bright rim"
        height = (
            np.nonzero(inside)[0].mean() * PIXEL_MM[0],
            np.nonzero(inside)[1].mean() * PIXEL_MM[1],
        )
        at = tuple(round(mm / 1.5) for mm in height)
        near = organs[at[0] - 8 : at[0] + 9, at[1] - 8 : at[1] + 9]
        assert (near == number).any()
        changed = np.abs(made.grey - pool.grey[row]) > 0
        assert changed.sum() < 4 * inside.sum() + 200


@pytest.mark.slow
def test_a_pool_s_pictures_are_what_the_program_sends(tmp_path):
    """The training's own way from HU to a picture against a file, the reader and the preset."""
    (body,) = bodies(700_000, 1, 1, ASKED)
    pool = pool_of([body], np.random.default_rng(0))
    (tmp_path / "case" / "segmentations").mkdir(parents=True)
    files.write_ct(tmp_path / "case" / "ct.nii.gz", body.hu_zyx[::-1])
    case = read_case(find_case(tmp_path / "case"))
    family, zs = ChatImage(), [int(z) for z in pool.z[10:100:20]]
    question = Question("q", "case", "Is there a lesion?", Reference(""))
    ready = family.prepare(
        family.presets["toy"], question, case, AnswerFormat.FREEFORM, {"slices": zs}
    )
    for z, picture in zip(zs, ready.ask.pictures, strict=True):
        (row,) = np.flatnonzero(pool.z == z)
        np.testing.assert_array_equal(picture.pixels[..., 1], pool.grey[row])
