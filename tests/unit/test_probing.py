"""Probes run: what is asked, kept, resumed and left out; models that look and that do not."""

import json

import numpy as np
import phantoms
import pytest
import small_benchmark
from scripted_models import PRESET, UNREACHABLE, ScriptedFamily, ScriptedWay
from scripted_models import call as tool_call

from napari_ctvqa.cli import main
from napari_ctvqa.core.errors import CtvqaError, InputFileError
from napari_ctvqa.core.records import AnswerFormat, Prediction
from napari_ctvqa.extensions import families
from napari_ctvqa.models.chat_image import ChatImage
from napari_ctvqa.models.rules import MODEL
from napari_ctvqa.runners.answering import ModelAnswerer
from napari_ctvqa.runners.batch import GaveUpError
from napari_ctvqa.runners.choices import KitOfCase
from napari_ctvqa.runners.opening import open_path
from napari_ctvqa.runners.probe_changes import other_slices
from napari_ctvqa.runners.probing import read_probe_answers, run_probes

MC, FREE = AnswerFormat.MC, AnswerFormat.FREEFORM
LIVER_LESION, COLON, VOLUME, COUNT = 0, 1, 4, 6
"""Rows of the small benchmark."""


@pytest.fixture(autouse=True)
def own_config(tmp_path, monkeypatch):
    monkeypatch.setenv("NAPARI_CTVQA_CONFIG_DIR", str(tmp_path / "config"))


@pytest.fixture
def opened(tmp_path):
    return open_path(small_benchmark.write(tmp_path / "bench"))


def probed(opened, answerer, out, probes, rows=(0,), answer_format=MC, **options):
    steps = run_probes(
        opened, answerer, answer_format, out, rows=rows, probes=tuple(probes), **options
    )
    return list(steps)


def by_probe(out, question_id="q000000"):
    return {a.probe: a for a in read_probe_answers(out) if a.question_id == question_id}


def model(*script, family=None, preset=PRESET, **options):
    way = ScriptedWay(*(script or ("A",)))
    return ModelAnswerer("m", "M", family or ScriptedFamily(), preset, way, **options), way


def looks_left(ask):
    """Say A where the bright side is the picture's left: what a model does that looks."""
    pixels = ask.pictures[0].pixels[..., 0].astype(int)
    half = pixels.shape[1] // 2
    return "A" if pixels[:, :half].sum() > pixels[:, half:].sum() else "B"


# ----------------------------------------------------------------------------------- what is asked


def test_a_probe_asks_the_changed_picture_and_the_original_first(opened, tmp_path):
    answerer, way = model()
    probed(opened, answerer, tmp_path / "p.json", ["mirrored", "blank"])
    original, mirrored, blank = way.asks
    first, second, third = (ask.pictures[0] for ask in (original, mirrored, blank))
    assert np.array_equal(first.pixels[:, ::-1], second.pixels)
    assert np.unique(third.pixels).size == 1
    assert len({ask.messages[-1].text for ask in way.asks}) == 1


def test_every_question_is_asked_as_it_is_then_probe_by_probe(opened, tmp_path):
    answerer, way = model()
    last = probed(opened, answerer, tmp_path / "p.json", ["mirrored", "blank"], rows=(0, 4))[-1]
    assert (last.done, last.total, last.failed) == (6, 6, 0)
    assert len(way.asks) == 6 and len(last.found) == 2


def test_what_is_not_reached_is_no_probe(opened, tmp_path):
    """A model that is sent no picture gets the same words again: that shows nothing."""
    out = tmp_path / "p.json"
    answerer, way = model(settings={"max_slices": 0})
    probed(opened, answerer, out, ["mirrored", "window", "box", "reworded"])
    found = by_probe(out)
    assert "stays the same" in found["mirrored"].reason
    assert "No slices are sent" in found["window"].reason
    assert "No slices are sent" in found["box"].reason
    assert found["reworded"].verdict.value == "as it must"
    assert len(way.asks) == 2, "what cannot be made is not asked"


def test_slices_windows_planes_and_marks_of_a_chat_model(opened, tmp_path):
    out = tmp_path / "p.json"
    family = ChatImage()
    preset = family.presets["qwen3-vl"]
    answerer, way = model(family=family, preset=preset, settings={"max_slices": 4})
    probes = ["window", "slices", "coronal", "axial", "overlay", "coarser", "finer", "shuffled"]
    probed(opened, answerer, out, probes)
    found = by_probe(out)
    assert found["axial"].reason == "Its slices are axial already."
    sent = dict(zip(["original", *(p for p in probes if p != "axial")], way.asks, strict=True))
    rows = json.loads(out.read_text())["results"]
    notes = {row["probe"]: row.get("changed") for row in rows}
    assert notes["slices"] == "slices 2, 5, 9, 10 (from 0)"
    (low, high), (other_low, other_high) = (
        sent[name].pictures[0].windows[0] for name in ("original", "window")
    )
    assert (other_high - other_low) == 1.5 * (high - low)
    assert other_high + other_low == high + low
    assert sent["coronal"].pictures[0].index_from_pixel[1, :2].tolist() == [0, 0]
    reds = [(p.pixels[..., 0] != p.pixels[..., 1]).any() for p in sent["overlay"].pictures]
    assert any(reds) and not all(reds)
    assert "B: Yes" in sent["shuffled"].messages[-1].text
    assert "coarser" not in notes or "voxels of 4.5" in notes["coarser"]


@pytest.mark.parametrize(
    ("slices", "count", "others"),
    [
        ([0, 4, 8], 12, [2, 6, 10]),
        ([1, 5, 9], 12, [3, 7, 11]),
        ([2, 5, 9], 10, [0, 3, 7]),
        ([0, 4, 8], 9, [2, 6, 7]),
        ([8, 4, 0], 12, [10, 6, 2]),
        ([3], 5, [4]),
        ([4], 5, [3]),
    ],
)
def test_other_slices(slices, count, others):
    assert other_slices(slices, count) == others


@pytest.mark.parametrize("plane", ["axial", "sagittal"])
def test_a_changed_case_is_shown_on_the_slices_of_the_original(opened, tmp_path, plane):
    """Also where masks chose them, which are empty once the lesion is out."""
    family = ChatImage()
    settings = {"plane": plane, "sampling_of_slices": "structures", "max_slices": 3}
    answerer, way = model(family=family, preset=family.presets["qwen3-vl"], settings=settings)
    out = tmp_path / "p.json"
    probed(opened, answerer, out, ["lesion_removed", "mirrored", "coarser"])
    assert all(not answer.reason for answer in by_probe(out).values())
    original, removed, mirrored, coarser = (
        [p.index_zyx(0, 0)[0 if plane == "axial" else 2] for p in ask.pictures] for ask in way.asks
    )
    assert original == removed and len(original) == 3
    # Asked of the changed case, they lie in it: mirrored about its middle, on larger voxels.
    mirrored = mirrored if plane == "axial" else [23 - index for index in mirrored]
    coarser = [1.5 * index + 0.25 for index in coarser]
    assert mirrored == (original if plane == "axial" else original[::-1])
    assert np.abs(np.subtract(coarser, original)).max() <= 0.75
    assert original == sorted(original)


def test_all_slices_leave_no_others():
    with pytest.raises(CtvqaError, match="not as many other slices"):
        other_slices([0, 1, 2, 3], 4)


def test_a_setting_that_a_family_does_not_know_is_no_failure(opened, tmp_path):
    class Strict(ScriptedFamily):
        def prepare(self, preset, question, case, answer_format, settings):
            if "windows_hu" in settings:
                raise CtvqaError("No setting is called 'windows_hu'.")
            made = super().prepare(preset, question, case, answer_format, settings)
            slices = [{"display_slice": 0}]
            recipe = {
                "plane": "axial",
                "slices": slices,
                "slices_in_plane": 12,
                "windows_hu": [[0, 1]],
            }
            return type(made)(made.ask, made.notes, recipe)

    out = tmp_path / "p.json"
    answerer, _ = model(family=Strict())
    last = probed(opened, answerer, out, ["window"])[-1]
    assert last.failed == 0 and "windows_hu" in by_probe(out)["window"].reason


# ----------------------------------------------------------------------------------- agents' tools


def test_a_changed_case_that_a_family_does_not_take_is_no_failure(opened, tmp_path):
    class Particular(ScriptedFamily):
        def prepare(self, preset, question, case, answer_format, settings):
            if np.ptp(case.volume.display_zyx) == 0:
                raise CtvqaError("A volume of one value cannot be scaled.")
            return super().prepare(preset, question, case, answer_format, settings)

    answerer, _ = model(family=Particular())
    last = probed(opened, answerer, tmp_path / "p.json", ["blank"])[-1]
    assert last.failed == 0
    assert "cannot be scaled" in by_probe(tmp_path / "p.json")["blank"].reason


def agent(opened, kit, *script, files=False):
    answerer, way = model(*script, mode="agent", kit=kit, kit_of=KitOfCase(opened, kit, (), files))
    return answerer, way


def test_an_agent_s_tools_measure_the_changed_case(opened, tmp_path):
    out = tmp_path / "p.json"
    call = tool_call("segment_organ", target="liver_lesion")
    heard = []

    def conclude(ask):
        heard.append(ask.messages[-1].text)
        return "A"

    answerer, _ = agent(opened, "oracle", call, conclude, call, conclude)
    probed(opened, answerer, out, ["lesion_removed"])
    assert '"voxel_count": 0' not in heard[0] and '"voxel_count": 0' in heard[1]


def test_tools_from_files_do_not_see_a_changed_case(opened, tmp_path):
    cache = opened.path / "benchmark" / "tool_cache" / "oracle.json"
    cache.parent.mkdir(parents=True)
    cache.write_text(json.dumps({"BDMAP_00000001": {"segment": {}, "measure": {}}}))
    out = tmp_path / "p.json"
    answerer, _ = agent(opened, "oracle", "A", files=True)
    probed(opened, answerer, out, ["mirrored"])
    assert "answer from oracle.json" in by_probe(out)["mirrored"].reason


def test_tools_on_predicted_masks_measure_these(opened, tmp_path):
    """The predicted liver has no lesion: the tool's result changes, and nothing else."""
    shown = phantoms.phantom()
    shown.masks["liver_lesion"] = np.zeros_like(shown.masks["liver_lesion"])
    phantoms.save_case(tmp_path / "predicted" / "BDMAP_00000001", shown)
    call = tool_call("segment_organ", target="liver_lesion")
    heard = []

    def conclude(ask):
        heard.append(ask.messages[-1].text)
        return "A"

    way = ScriptedWay(call, conclude, call, conclude)
    kit_of = KitOfCase(opened, "oracle", (tmp_path / "predicted",), False)
    answerer = ModelAnswerer(
        "m", "M", ScriptedFamily(), PRESET, way, mode="agent", kit="oracle", kit_of=kit_of
    )
    probed(opened, answerer, tmp_path / "p.json", ["tools_predicted"])
    found = by_probe(tmp_path / "p.json")["tools_predicted"]
    assert (found.verdict.value, found.effect.value) == ("unchanged", "unknown")
    assert '"voxel_count": 0' not in heard[0] and '"voxel_count": 0' in heard[1]
    first, second = (way.asks[n].messages[-1].text for n in (0, 2))
    assert first == second and answerer.kit == "oracle"


def test_tools_on_predicted_masks_need_an_agent_and_the_masks(opened, tmp_path):
    answerer, _ = model()
    probed(opened, answerer, tmp_path / "a.json", ["tools_predicted"])
    assert "kit oracle" in by_probe(tmp_path / "a.json")["tools_predicted"].reason
    answerer, _ = agent(opened, "oracle", "A")
    probed(opened, answerer, tmp_path / "b.json", ["tools_predicted"])
    assert "no predicted masks" in by_probe(tmp_path / "b.json")["tools_predicted"].reason


# --------------------------------------------------------------------------------- files and kills


def test_what_the_file_holds_is_not_asked_again_and_probes_can_be_added(opened, tmp_path):
    out = tmp_path / "p.json"
    answerer, way = model()
    probed(opened, answerer, out, ["mirrored"], rows=(0, 4))
    assert len(way.asks) == 4
    before = out.read_bytes()
    probed(opened, answerer, out, ["mirrored"], rows=(0, 4))
    assert len(way.asks) == 4 and out.read_bytes() == before
    last = probed(opened, answerer, out, ["mirrored", "blank"], rows=(0, 4))[-1]
    assert len(way.asks) == 6 and [s.probe for s in last.found] == ["mirrored", "blank"]


def test_a_probe_run_that_is_closed_goes_on_where_it_was(opened, tmp_path):
    out = tmp_path / "p.json"
    answerer, _ = model()
    steps = run_probes(opened, answerer, MC, out, rows=range(18), probes=("mirrored", "blank"))
    for step in steps:
        if step.answer is not None:
            break
    steps.close()
    kept = {(row["question_id"], row["probe"]) for row in json.loads(out.read_text())["results"]}
    assert 0 < len(kept) < 54
    again, way = model()
    last = probed(opened, again, out, ["mirrored", "blank"], rows=range(18))[-1]
    assert last.done == last.total == 54 and len(way.asks) == 54 - len(kept)


def test_a_file_of_another_model_or_of_a_run_is_refused(opened, tmp_path):
    out = tmp_path / "p.json"
    probed(opened, model()[0], out, ["blank"])
    with pytest.raises(InputFileError, match="was made with"):
        probed(opened, MODEL, out, ["blank"])
    run = tmp_path / "run.json"
    assert main(["run", str(opened.path), "--limit", "1", "--out", str(run)]) == 0
    with pytest.raises(InputFileError, match="holds the answers of a run, to which the probes"):
        probed(opened, MODEL, run, ["blank"])
    with pytest.raises(InputFileError, match="holds no probes"):
        read_probe_answers(run)


def test_the_run_beside_it_is_not_touched(opened, tmp_path):
    run = tmp_path / "run.json"
    main(["run", str(opened.path), "--out", str(run)])
    before = run.read_bytes()
    probed(opened, MODEL, tmp_path / "p.json", ["mirrored"], rows=range(9))
    assert run.read_bytes() == before


def test_a_failed_original_has_no_probes_until_it_is_asked_again(opened, tmp_path):
    out = tmp_path / "p.json"
    answerer, way = model(UNREACHABLE)
    last = probed(opened, answerer, out, ["mirrored", "blank"])[-1]
    assert (last.done, last.failed, len(way.asks)) == (3, 3, 1)
    again, way = model()
    last = probed(opened, again, out, ["mirrored", "blank"], retry_errors=True)[-1]
    assert (last.done, last.failed, len(way.asks)) == (3, 0, 3)


def test_it_gives_up_where_nothing_answers(opened, tmp_path):
    answerer, way = model(UNREACHABLE)
    with pytest.raises(GaveUpError, match="3 questions in a row"):
        probed(opened, answerer, tmp_path / "p.json", ["mirrored"], rows=range(9))
    assert len(way.asks) == 3


def test_one_bad_case_does_not_stop_the_rest(opened, tmp_path):
    bad = opened.path / "benchmark" / "ct" / "BDMAP_00000001" / "ct.nii.gz"
    bad.write_bytes(b"no volume")
    answerer, _ = model()
    last = probed(opened, answerer, tmp_path / "p.json", ["blank"], rows=range(18))[-1]
    assert last.done == last.total == 36 and 0 < last.failed < 18
    assert by_probe(tmp_path / "p.json", "q000009")["blank"].verdict.value != "failed"


def test_a_case_that_stays_bad_is_counted_once_when_the_file_is_gone_on_with(opened, tmp_path):
    bad = opened.path / "benchmark" / "ct" / "BDMAP_00000001" / "ct.nii.gz"
    bad.write_bytes(b"no volume")
    for retry in (False, False, True):
        answerer, _ = model()
        last = probed(
            opened, answerer, tmp_path / "p.json", ["blank"], rows=range(3), retry_errors=retry
        )[-1]
        assert (last.done, last.total, last.failed) == (6, 6, 3)


def test_a_stopped_model_leaves_no_half_answer(opened, tmp_path):
    out = tmp_path / "p.json"
    answerer, way = model("A long answer")
    way.after_token = lambda _: len(way.asks) == 2 and answerer.cancel()
    probed(opened, answerer, out, ["mirrored", "blank"])
    rows = json.loads(out.read_text())["results"]
    assert [row["probe"] for row in rows] == ["original"]


# ------------------------------------------------------------------------------ what is recognised


def test_a_model_that_looks_flips_and_one_that_guesses_does_not(opened, tmp_path):
    looks, _ = model(looks_left)
    guesses, _ = model("A")
    for answerer, name in ((looks, "looks"), (guesses, "guesses")):
        probed(opened, answerer, tmp_path / f"{name}.json", ["mirrored"])
    said = {n: by_probe(tmp_path / f"{n}.json")["mirrored"] for n in ("looks", "guesses")}
    assert said["looks"].said != said["looks"].original
    assert said["guesses"].said == said["guesses"].original


def test_the_rule_agent_follows_masks_not_pixels(opened, tmp_path):
    out = tmp_path / "p.json"
    probed(opened, MODEL, out, ["lesion_removed", "blank", "shuffled"], rows=range(9))
    found = by_probe(out)
    assert found["lesion_removed"].verdict.value == "as it must"
    assert found["blank"].verdict.value == "unchanged"
    assert found["shuffled"].verdict.value == "as it must"
    assert (
        by_probe(out, "q000004")["lesion_removed"].reason == "The question is not about a lesion."
    )


def test_a_letter_that_stays_with_its_place_is_seen(opened, tmp_path):
    out = tmp_path / "p.json"
    family = ChatImage()
    answerer, _ = model("A", family=family, preset=family.presets["qwen3-vl"])
    probed(opened, answerer, out, ["shuffled"])
    found = by_probe(out)["shuffled"]
    assert found.place_kept is True and found.verdict.value == "changed otherwise"


# ------------------------------------------------------------------------------------- the command


def test_the_command_reports_sentences_and_json(opened, tmp_path, capsys):
    out = tmp_path / "p.json"
    command = ["probe", str(opened.path), "--probe", "lesion_removed,blank", "--out", str(out)]
    where = ["--where", 'subtype:"liver lesion existence"']
    assert main([*command, *where]) == 0
    said = capsys.readouterr().out
    assert "Lesion removed (lesion_removed), 2 asked" in said and "2 of 2 (100 %" in said
    assert main([*command, *where, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["n_processed"] == 6 and data["probes"][0]["turned"]["count"] == 2


def test_the_command_lists_probes_and_refuses_unknown_ones(opened, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["probe", "--list"])
    assert ended.value.code == 0 and "Needs a question about a lesion" in capsys.readouterr().out
    out = tmp_path / "p.json"
    assert main(["probe", str(opened.path), "--probe", "upside_down", "--out", str(out)]) == 1
    assert "upside_down" in capsys.readouterr().err and not out.exists()


def test_free_form_is_probed_too(opened, tmp_path):
    out = tmp_path / "p.json"
    probed(opened, MODEL, out, ["lesion_removed", "shuffled"], rows=(COUNT,), answer_format=FREE)
    found = by_probe(out, "q000006")
    assert (found["lesion_removed"].original, found["lesion_removed"].said) == ("1", "0")
    assert found["shuffled"].reason == "In free form no options are sent."


def test_a_prediction_alone_is_enough(opened, tmp_path):
    class Bare:
        name = title = "bare"

        def wanted_masks(self, question):
            return ()

        def answer(self, question, case, answer_format):
            yield Prediction(question.id, self.name, "A")

    last = probed(opened, Bare(), tmp_path / "p.json", ["mirrored", "window"])[-1]
    assert last.done == 3 and "No slices" in by_probe(tmp_path / "p.json")["window"].reason


# -------------------------------------------------------------------- models of a single picture


def single(name, preset, **settings):
    family = families()[name]
    return model(family=family, preset=family.presets[preset], settings=settings)


@pytest.mark.parametrize(
    ("name", "preset"), [("llava-med", "llava-med"), ("vila-m3", "vila-m3-8b")]
)
def test_a_single_picture_is_marked_and_keeps_its_window(opened, tmp_path, name, preset):
    out = tmp_path / "p.json"
    answerer, way = single(name, preset)
    last = probed(opened, answerer, out, ["mirrored", "window", "slices", "overlay", "box"])[-1]
    found = by_probe(out)
    assert last.failed == 0
    assert found["window"].reason == found["slices"].reason
    assert "takes no others" in found["window"].reason
    original, mirrored, *_ = (ask.pictures[0].pixels for ask in way.asks)
    assert np.array_equal(mirrored, original[:, ::-1])
    for mark in ("overlay", "box"):
        assert not found[mark].reason or "No picture that is sent" in found[mark].reason
    assert any(not found[mark].reason for mark in ("overlay", "box"))


def test_a_slice_that_a_mask_chose_must_stay_the_same(opened, tmp_path):
    """Without the lesion its mask chooses none: the middle slice would be another change."""

    class Choosing(ScriptedFamily):
        def wants_masks(self, settings):
            return True

        def prepare(self, preset, question, case, answer_format, settings):
            lesion = case.masks["liver_lesion"].region
            index = 6 if lesion.empty else lesion.box_zyx[0].start
            made = super().prepare(preset, question, case, answer_format, {"max_slices": index + 1})
            return type(made)(made.ask, (), {"slices": [{"display_slice": index}]})

    out = tmp_path / "p.json"
    answerer, way = model(family=Choosing())
    probed(opened, answerer, out, ["lesion_removed", "mirrored", "blank"])
    found = by_probe(out)
    assert "another slice would be sent" in found["lesion_removed"].reason
    assert not found["mirrored"].reason and not found["blank"].reason
    assert len(way.asks) == 3
