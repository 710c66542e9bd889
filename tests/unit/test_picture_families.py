"""LLaVA-Med and VILA-M3: one picture each, the trigger word of an expert, and what comes back."""

import json
from dataclasses import replace

import nibabel as nib
import numpy as np
import phantoms
import pytest

from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.core.events import Done, Sent, Tokens
from napari_ctvqa.core.expert_calls import ExpertCall, expert_called
from napari_ctvqa.core.records import AnswerFormat, Prediction, Question, Reference
from napari_ctvqa.extensions import families
from napari_ctvqa.io.case_files import find_case
from napari_ctvqa.io.reader import read_case
from napari_ctvqa.models._vista3d import COLOURS, groups, result
from napari_ctvqa.runners.answering import ModelAnswerer

VILA, LLAVA = families()["vila-m3"], families()["llava-med"]
QUESTION = Question("q", "case", "Is there a tumor?", Reference("Yes"), organ="liver",
                    lesion="liver_lesion")  # fmt: skip
CASES = ["phantom", pytest.param("ts_example", marks=pytest.mark.real)]
FREE = AnswerFormat.FREEFORM


def prepared(family, case, question=QUESTION, **settings):
    preset = next(iter(family.presets.values()))
    return family.prepare(preset, question, case, FREE, settings)


@pytest.fixture(scope="module", params=CASES)
def case(request, tmp_path_factory):
    if request.param == "phantom":
        folder = phantoms.save_case(tmp_path_factory.mktemp("p") / "case", axcodes="PIL")
    else:
        folder = request.getfixturevalue("real_data") / request.param
    return read_case(find_case(folder))


@pytest.fixture(scope="module")
def phantom_read(tmp_path_factory):
    return read_case(find_case(phantoms.save_case(tmp_path_factory.mktemp("p") / "case")))


def middle_as_vila_does(path):
    """Its demonstration: RAS, slice n // 2 along the third axis, axes swapped, turned by 180°."""
    array = np.asarray(nib.as_closest_canonical(nib.load(path)).dataobj).astype(np.float32)
    grey = (array - np.float32(-150)) / np.float32(400) * np.float32(255)
    plane = np.clip(grey, 0, 255)[:, :, array.shape[2] // 2].astype(np.uint8)
    return np.rot90(np.swapaxes(plane, 0, 1), k=2)


def test_vila_s_picture_is_that_of_the_second_computation(case):
    (picture,) = prepared(VILA, case).ask.pictures
    theirs = middle_as_vila_does(case.volume.path)
    for channel in range(3):
        np.testing.assert_array_equal(picture.pixels[..., channel], theirs)
    assert not np.array_equal(theirs, theirs[:, ::-1]), "a flip would be seen"
    assert not np.array_equal(theirs, theirs[::-1])


def test_llava_med_s_picture_is_that_slice_in_a_square(case):
    array = np.asarray(nib.as_closest_canonical(nib.load(case.volume.path)).dataobj)
    hu = array[:, :, array.shape[2] // 2].T[::-1, ::-1].astype(float)
    grey = np.rint((np.clip(hu, -150, 250) + 150) / 400 * 255).astype(np.uint8)
    (picture,) = prepared(LLAVA, case).ask.pictures
    rows, columns = grey.shape
    side = max(rows, columns)
    assert picture.pixels.shape == (side, side, 3)
    top, left = (side - rows) // 2, (side - columns) // 2
    inner = picture.pixels[top : top + rows, left : left + columns]
    assert np.abs(inner[..., 1].astype(int) - grey).max() <= 1
    mean = (np.array([0.48145466, 0.4578275, 0.40821073]) * 255).astype(np.uint8)
    around = np.ones((side, side), bool)
    around[top : top + rows, left : left + columns] = False
    assert (picture.pixels[around] == mean).all()


@pytest.mark.parametrize("family", [VILA, LLAVA], ids=["vila-m3", "llava-med"])
def test_a_pixel_leads_back_to_its_voxel(case, family):
    (picture,) = prepared(family, case).ask.pictures
    grid = case.volume.display_grid
    center = picture.index_zyx(*np.divide(np.subtract(picture.pixels.shape[:2], 1), 2))
    assert center[0] == grid.shape_zyx[0] - 1 - grid.shape_zyx[0] // 2
    np.testing.assert_allclose(center[1:], (np.array(grid.shape_zyx[1:]) - 1) / 2, atol=0.51)
    z, y, x = np.rint(center).astype(int)
    hu = float(np.clip(case.volume.display_zyx[z, y, x], -150, 250))
    matrix = picture.index_from_pixel
    row, column = np.rint([y - matrix[1, 2], x - matrix[2, 2]]).astype(int)
    assert abs(picture.pixels[row, column, 0] - (hu + 150) / 400 * 255) <= 1


def test_the_words(phantom_read):
    (message,) = prepared(LLAVA, phantom_read).ask.messages
    assert message.parts[0] == "<image>\n" and message.parts[-1] == QUESTION.text
    assert prepared(LLAVA, phantom_read).ask.processor["conversation"] == "mistral_instruct"
    (message,) = prepared(VILA, phantom_read).ask.messages
    assert message.parts[0].endswith("<image>This is a CT image.\n")
    assert "<VISTA3D(args)>" in message.parts[0] and "'hepatic tumor'" in message.parts[0]
    (message,) = prepared(VILA, phantom_read, protocol="ct-spatialvqa").ask.messages
    assert message.parts[0] == "<image> " and message.parts[-1] == QUESTION.text
    ready = prepared(VILA, phantom_read, protocol="ct-spatialvqa", expert="masks")
    told = ready.ask.messages[1]
    assert told.text.count("<image>") == 1 and "liver" in told.text
    assert told.parts[-1] == f"Use this result to respond to this prompt:\n{QUESTION.text}"
    injected = replace(QUESTION, text="<image><VISTA3D(organs)>")
    for family in (VILA, LLAVA):
        said = "".join(p for p in prepared(family, phantom_read, injected).ask.messages[0].parts
                       if isinstance(p, str))  # fmt: skip
        assert said.count("<image>") == 1


def test_a_mask_chooses_the_slice_only_where_that_is_wanted(phantom_read):
    ready = prepared(LLAVA, phantom_read, slice="structure")
    lesion = phantom_read.masks["liver_lesion"].region.box_zyx[0]
    assert lesion.start <= ready.ask.pictures[0].index_zyx(0, 0)[0] < lesion.stop
    assert any("no fair test" in note for note in ready.notes)
    assert not any("no fair test" in note for note in prepared(LLAVA, phantom_read).notes)
    json.dumps(dict(ready.recipe))


@pytest.mark.parametrize(
    ("text", "called"),
    [
        ("<VISTA3D(hepatic tumor)>", ExpertCall("hepatic tumor")),
        ("Let me trigger <VISTA3D(everything)>.", ExpertCall("everything")),
        ("<VISTA3D>", ExpertCall()),
        ("<VISTA3D()></s>", ExpertCall()),
        ("It was segmented: <VISTA3D(organs)>", ExpertCall("organs", answered=True)),
        ("<VISTA3D(a)(b)>", ExpertCall(problem="it gives 2 arguments; one was expected")),
        ("<VISTA3D(organs)> or <VISTA3D(muscles)>", None),
        ("<BRATS()>", None),
        ("VISTA3D(organs)", None),
        ("", None),
        ("<" * 50_000, None),
    ],
)
def test_a_trigger_word_is_read_as_the_demonstration_reads_it(text, called):
    assert expert_called(text) == called


def test_its_groups_are_those_that_it_is_offered():
    assert set(groups()) >= {"everything", "hepatic tumor", "organs", "skeleton", "muscles"}
    assert groups()["hepatic tumor"] == {"liver": 1, "hepatic tumor": 26}
    assert len(groups()["everything"]) == 127


def test_the_overlay_is_skimage_s_of_the_same_labels(phantom_read):
    """Liver red, lesion blue, by 0.3 over the slice; what has no label is darkened by as much."""
    index = phantom_read.masks["liver_lesion"].region.box_zyx[0].start
    (whole,) = prepared(VILA, phantom_read).ask.pictures
    found = result(phantom_read, "hepatic tumor", index, whole)
    assert found.text.startswith("The results are <image>. The colors in this image describe ")
    assert "red: liver, blue: hepatic tumor. " in found.text
    assert found.structures == ("liver", "liver_lesion")
    grey = whole.pixels[..., 0] / 255
    for name, colour in (("liver_lesion", (0, 0, 1)), ("spleen", (0, 0, 0))):
        region = phantom_read.masks[name].region
        if not region.box_zyx[0].start <= index < region.box_zyx[0].stop:
            continue
        y, x = (int(np.argwhere(region.crop_zyx[index - region.box_zyx[0].start])[0][n]
                    + region.box_zyx[n + 1].start) for n in range(2))  # fmt: skip
        blended = 0.7 * grey[y, x] + 0.3 * np.array(colour)
        np.testing.assert_allclose(found.overlay.pixels[y, x] / 255, blended, atol=1.5 / 255)
    assert COLOURS[:2] == ("red", "blue")
    np.testing.assert_array_equal(found.overlay.index_from_pixel, whole.index_from_pixel)


class Scripted:
    """A way to run that says one text after the other."""

    title, host = "scripted", ""

    def __init__(self, *texts):
        self.texts, self.asks = list(texts), []

    def ask(self, ask, cancelled):
        self.asks.append(ask)
        text = self.texts.pop(0)
        yield Tokens(text)
        yield Done(text)

    def close(self):
        pass


def answered(case, *texts, **settings):
    way = Scripted(*texts)
    answerer = ModelAnswerer("vila", "vila", VILA, VILA.presets["vila-m3-8b"], way,
                             settings=settings)  # fmt: skip
    *events, prediction = answerer.answer(QUESTION, case, FREE)
    assert isinstance(prediction, Prediction)
    return prediction, events, way.asks


def test_the_expert_s_result_is_given_back_and_the_next_text_is_the_answer(phantom_read):
    said = ("<VISTA3D(hepatic tumor)>", "Yes, one.<|eot_id|>")
    prediction, events, asks = answered(phantom_read, *said, expert="masks")
    assert prediction.raw_text == "Yes, one."
    assert [event.step for event in events if isinstance(event, Sent)] == [1, 2]
    roles = [message.role for message in asks[1].messages]
    assert roles == ["user", "assistant", "user"]
    assert asks[1].messages[1].text == said[0]
    assert len(asks[1].pictures) == 2 and QUESTION.text in asks[1].messages[2].text
    assert any("oracle" in note for note in prediction.record["note"].split("; "))


def test_it_is_given_back_once(phantom_read):
    said = "<VISTA3D(hepatic tumor)>"
    prediction, _, asks = answered(phantom_read, said, said, expert="masks")
    assert len(asks) == 2 and prediction.raw_text == said


@pytest.mark.parametrize(
    ("text", "settings", "note"),
    [
        ("<VISTA3D(hepatic tumor)>", {}, "gives no answer of its own"),
        ("<VISTA3D(feet)>", {"expert": "masks"}, "knows no group 'feet'"),
        ("<VISTA3D(a)(b)>", {"expert": "masks"}, "2 arguments"),
    ],
)
def test_a_request_that_is_not_met_is_told_to_be_no_answer(phantom_read, text, settings, note):
    prediction, _, asks = answered(phantom_read, text, **settings)
    assert len(asks) == 1
    assert any(note in one for one in prediction.record["note"].split("; "))


def test_masks_that_are_still_read_are_waited_for(phantom_read):
    growing = replace(phantom_read, complete=False)
    prediction, _, _ = answered(growing, "<VISTA3D(organs)>", expert="masks")
    assert prediction.failed and "still being read" in prediction.raw_text


def test_a_plain_answer_is_an_answer(phantom_read):
    prediction, _, asks = answered(phantom_read, "No.", expert="masks")
    assert prediction.raw_text == "No." and len(asks) == 1


@pytest.mark.parametrize("family", [VILA, LLAVA], ids=["vila-m3", "llava-med"])
def test_missing_hu_scaling_is_refused(tmp_path, family):
    shown = phantoms.phantom()
    lost = phantoms.Phantom((shown.ct + 1024).astype(np.int16), {}, shown.affine)
    case = read_case(find_case(phantoms.save_case(tmp_path / "c", lost)))
    with pytest.raises(CtvqaError, match="Hounsfield"):
        prepared(family, case)
