"""CT-SpatialVQA: every file of its layout, the jury by position and by content."""

import csv
import json

import pytest

from napari_ctvqa.benchmarks import _spatial_jury as juries
from napari_ctvqa.benchmarks._spatial_questions import case_of_path
from napari_ctvqa.benchmarks._spatial_scores import clean
from napari_ctvqa.benchmarks._text_metrics import text_metrics
from napari_ctvqa.benchmarks.ct_spatialvqa import BENCHMARK
from napari_ctvqa.core.errors import CtvqaError, InputFileError, NotFoundError
from napari_ctvqa.core.records import AnswerFormat, Outcome
from napari_ctvqa.runners.opening import open_path

ONE, TWO = "valid_1_a_1.nii.gz", "valid_2_b_3.nii.gz"
PAIRS = {
    ONE: [("Where is the nodule?", "In the left lung."), ("Is the aorta normal?", "It is normal.")],
    TWO: [("Is the aorta normal?", "It is normal."), ("Which side?", "The right side.")],
}
FREEFORM = AnswerFormat.FREEFORM


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return path


def lines(records):
    return "".join(json.dumps(r) + "\n" for r in records)


def nested(pairs=PAIRS, **extra):
    return {
        case: {"qa_pairs": [{"question": q, "answer": a, **extra} for q, a in members]}
        for case, members in pairs.items()
    }


def volume(case, suffix=".nii.gz"):
    stem = case.removesuffix(".nii.gz")
    patient, scan = stem.rsplit("_", 2)[0], stem.rsplit("_", 1)[0]
    return f"/PATH/preprocess/x_npy/{patient}/{scan}/{stem}{suffix}"


def flat(case_id=True, suffix=".npy", **extra):
    return [
        {**({"case_id": case} if case_id else {}), "image_path": volume(case, suffix),
         "question": q, "answer": a, **extra}
        for case, members in PAIRS.items() for q, a in members
    ]  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "ct_spatialvqa"
    write(root / "dataset/ct_spatialvqa/spatial_qa_filtered_full.json", nested())
    write(
        root / "benchmarking/eval_scripts/spatial_categories"
        "/spatial_qa_filtered_full_with_categories.json",
        nested(category=["Medial-Lateral Orientation", "Adjacency & Containment"]),
    )
    return root


def test_ids_are_case_and_index(folder):
    questions = BENCHMARK.questions(folder)
    assert questions.frame["id"].tolist() == [f"{ONE}::0", f"{ONE}::1", f"{TWO}::0", f"{TWO}::1"]
    assert questions.by_id(f"{TWO}::1").reference.text == "The right side."


def test_categories_are_merged_under_one_spelling(folder):
    question = BENCHMARK.questions(folder)[0]
    labels = ("Medial-Lateral Orientation (Centricity)", "Adjacency & Containment")
    assert question.categories == labels
    assert question.subtype == "; ".join(labels)


def test_categories_follow_the_content_not_the_position(folder):
    file = folder / "benchmarking/eval_scripts/spatial_categories"
    file = file / "spatial_qa_filtered_full_with_categories.json"
    data = json.loads(file.read_text())
    data[ONE]["qa_pairs"].reverse()
    data[ONE]["qa_pairs"][0]["category"] = ["of the second"]
    file.write_text(json.dumps(data))
    questions = BENCHMARK.questions(folder)
    assert questions.by_id(f"{ONE}::1").categories == ("of the second",)
    assert "of the second" not in questions.by_id(f"{ONE}::0").categories


def test_a_broken_category_file_costs_the_categories_only(folder):
    write(
        folder / "benchmarking/eval_scripts/spatial_categories"
        "/spatial_qa_filtered_full_with_categories.json",
        "{",
    )
    questions = BENCHMARK.questions(folder)
    assert len(questions) == 4
    assert "Categories are not shown" in questions.problems[0]


@pytest.mark.parametrize("name", ["nested", "nifti lines", "model input", "with categories"])
def test_any_single_question_file_opens(tmp_path, name):
    data = {
        "nested": nested(),
        "nifti lines": lines(flat(suffix=".nii.gz")),
        "model input": lines(flat(case_id=False)),
        "with categories": nested(category=["Adjacency & Containment"]),
    }[name]
    path = write(tmp_path / f"x.{'jsonl' if isinstance(data, str) else 'json'}", data)
    assert BENCHMARK.recognises(path)
    ids = BENCHMARK.questions(path).frame["id"].tolist()
    assert ids == [f"{ONE}::0", f"{ONE}::1", f"{TWO}::0", f"{TWO}::1"]


def test_bad_cases_and_pairs_are_named(tmp_path):
    data = {**nested(), "x": {}, "y": {"qa_pairs": ["text", {"answer": "a"}]}}
    questions = BENCHMARK.questions(write(tmp_path / "q.json", data))
    assert len(questions) == 4
    assert [p.split(": ", 1)[1] for p in questions.problems] == [
        "case x lacks the key qa_pairs (a list).",
        "y::0 is no object.",
        "y::0 lacks the key question.",
    ]


@pytest.mark.parametrize(
    ("path", "case"),
    [
        ("/a/b/valid_1_a_1.npy", ONE),
        ("valid_1_a_1.npz", ONE),
        ("x\\valid_1_a_1.nii.gz", ONE),
        ("valid_1_a_1", ONE),
        ("", ""),
    ],
)
def test_case_is_recovered_from_the_image_path(path, case):
    assert case_of_path(path) == case


@pytest.mark.parametrize(
    ("text", "read"),
    [("No.###</s>", "No."), (" No", "No"), ("Yes</s>", "Yes"), ("a # b", "a # b"), ("", "")],
)
def test_clean_up_is_for_reading_only(text, read):
    assert clean(text) == read


# ---------------------------------------------------------------------------------- predictions

LAYOUTS = {
    "m3d": flat(case_id=False, prediction=" No.###</s>"),
    "merlin": flat(prediction=" No.###</s>"),
    "ctchat": [{k: v for k, v in r.items() if k != "answer"}
               for r in flat(case_id=False, suffix=".npz", prediction=" No.###</s>")],
    "medgemma": [{k: v for k, v in r.items() if k != "image_path"}
                 for r in flat(prediction=" No.###</s>", prediction_raw="x", num_slices_used=8)],
}  # fmt: skip


@pytest.mark.parametrize("model", LAYOUTS)
def test_predictions_of_every_layout_are_aligned_and_kept_verbatim(folder, model):
    path = write(
        folder / f"benchmarking/reports/predictions/{model}_predictions_full.jsonl",
        lines(LAYOUTS[model]),
    )
    questions = BENCHMARK.questions(folder)
    assert list(BENCHMARK.found_results(folder)) == [path]
    run = BENCHMARK.results(path, questions)
    assert run.model == model
    assert list(run.predictions) == questions.frame["id"].tolist()
    assert run.predictions[f"{ONE}::0"].raw_text == " No.###</s>"
    assert run.notes == ()


def test_predictions_are_placed_by_content_in_any_order(folder):
    records = flat(case_id=False)
    for index, record in enumerate(records):
        record["prediction"] = str(index)
    path = write(folder / "p.jsonl", lines(reversed(records)))
    run = BENCHMARK.results(path, BENCHMARK.questions(folder))
    assert {k: p.raw_text for k, p in run.predictions.items()} == {
        f"{ONE}::0": "0", f"{ONE}::1": "1", f"{TWO}::0": "2", f"{TWO}::1": "3",
    }  # fmt: skip


def test_predictions_without_case_and_path_take_the_next_that_fits(folder):
    records = [{"question": q, "answer": a, "prediction": f"{case} {q}"}
               for case, members in PAIRS.items() for q, a in members]  # fmt: skip
    path = write(folder / "p.jsonl", lines(records[1:]))
    run = BENCHMARK.results(path, BENCHMARK.questions(folder))
    assert run.predictions[f"{ONE}::1"].raw_text.startswith(ONE)
    assert run.predictions[f"{TWO}::0"].raw_text.startswith(TWO)


def test_predictions_in_one_json_list_are_read(folder):
    path = write(folder / "p.json", flat(prediction="No"))
    assert len(BENCHMARK.results(path, BENCHMARK.questions(folder)).predictions) == 4


def test_foreign_predictions_are_named(folder):
    record = {"case_id": ONE, "question": "Other?", "answer": "x", "prediction": "y"}
    path = write(folder / "p.jsonl", lines([record, *flat(prediction="No")]))
    run = BENCHMARK.results(path, BENCHMARK.questions(folder))
    assert "1 predictions belong to no question" in run.notes[0]
    assert "line 1" in run.notes[0]


def test_a_file_without_predictions_says_so(folder):
    path = write(folder / "p.jsonl", lines(flat()))
    with pytest.raises(InputFileError, match="prediction"):
        BENCHMARK.results(path, BENCHMARK.questions(folder))


# ----------------------------------------------------------------------------------------- jury


def votes(records, verdicts, *, drop=(), case_id=False, reasoning=None):
    return [
        {"case_id": r.get("case_id") if case_id else None, "question": r["question"],
         "answer": r["answer"], "prediction": r["prediction"], "is_correct": verdict,
         **({"reasoning": reasoning} if reasoning else {})}
        for i, (r, verdict) in enumerate(zip(records, verdicts, strict=True)) if i not in drop
    ]  # fmt: skip


@pytest.fixture
def judged(folder):
    records = [{**r, "prediction": f"No {i}"} for i, r in enumerate(flat(case_id=False))]
    reports = folder / "benchmarking/reports"
    write(reports / "predictions/m_predictions_full.jsonl", lines(records))
    write(
        reports / "llm_eval/m_gemini2.5_eval_full.json",
        votes(records, [True, False, True, True], drop=(1,), reasoning="PARSE_ERROR: x"),
    )
    write(reports / "llm_eval/m_gpt_eval.json", votes(records, [True, False, True, False]))
    write(reports / "llm_eval/m_qwen_eval.json", votes(records, [True, True, None, False]))
    return folder  # fmt: skip


def metrics_of(folder, **options):
    questions = BENCHMARK.questions(folder)
    run = BENCHMARK.results(BENCHMARK.found_results(folder)[0], questions)
    return BENCHMARK.metrics(questions, run, FREEFORM, **options), questions, run


def test_jury_by_position_and_by_content(judged):
    metrics, _, _ = metrics_of(judged)
    jury = metrics["jury"]
    # By position: (T,T,T), (T,F,T), (T,T,null) -> all right. By content: 3, 2, 1 votes.
    assert jury["official"] == 1.0
    assert jury["n"] == 3
    assert jury["misaligned_rows"] == 1
    assert jury["aligned"] == pytest.approx(2 / 3)
    assert jury["n_aligned"] == 3
    assert jury["recovered_votes"] == {"gemini": 3}


def test_scores_say_both_outcomes_by_question(judged):
    _, questions, run = metrics_of(judged)
    scores = BENCHMARK.scores(questions, run, FREEFORM)
    last = scores[f"{TWO}::1"]
    assert (last.official, last.ours) == (Outcome.RIGHT, Outcome.WRONG)
    assert (last.official_reading, last.our_reading) == ("2 of 3 judges", "1 of 3 judges")
    assert last.disagrees
    dropped = scores[f"{ONE}::1"]
    assert (dropped.official, dropped.ours) == (Outcome.UNSCORED, Outcome.UNSCORED)


def test_category_accuracy_counts_missing_as_wrong(judged):
    metrics, _, _ = metrics_of(judged)
    found = metrics["categories"]["Adjacency & Containment"]
    assert found == {"count": 4, "official": 0.75, "aligned": 0.5}


def test_two_judges_are_no_jury(judged):
    (judged / "benchmarking/reports/llm_eval/m_gemini2.5_eval_full.json").unlink()
    metrics, questions, run = metrics_of(judged)
    jury = metrics["jury"]
    assert jury["official"] is None
    assert jury["aligned"] is None
    assert jury["missing_judges"] == ["gemini"]
    assert "gemini" in jury["reason"]
    scores = BENCHMARK.scores(questions, run, FREEFORM)
    assert {s.official for s in scores.values()} == {Outcome.UNSCORED}
    assert metrics["reading_disagrees"] == []


def test_published_outcomes_stand_in_for_a_missing_judge_and_say_so(judged):
    (judged / "benchmarking/reports/llm_eval/m_gemini2.5_eval_full.json").unlink()
    write(
        judged / "benchmarking/reports/metrics/correctness_matrix_avg3.csv",
        f"question_id,m\n{ONE}::0,0.66\n{ONE}::1,0.33\n{TWO}::0,\n",
    )
    metrics, questions, run = metrics_of(judged)
    scores = BENCHMARK.scores(questions, run, FREEFORM)
    found = [(s.official, s.official_reading, s.ours) for s in scores.values()]
    assert found[0] == (Outcome.RIGHT, "2 of 3 judges, as published", Outcome.UNSCORED)
    assert found[1] == (Outcome.WRONG, "1 of 3 judges, as published", Outcome.UNSCORED)
    assert {official for official, _, _ in found[2:]} == {Outcome.UNSCORED}
    assert metrics["jury"]["official"] is None
    assert metrics["reading_disagrees"] == []
    category = metrics["categories"]["Adjacency & Containment"]
    assert (category["official"], category["aligned"]) == (0.25, None)
    assert "not recomputed" in category["note"]


def test_the_report_behind_a_question_is_shown_in_its_record(folder):
    write(folder / "QA_generation/validation_reports_output.json",
          {ONE: {"Findings_EN": "A nodule.", "Impressions_EN": ""}})  # fmt: skip
    questions = BENCHMARK.questions(folder)
    shown = questions[0].raw["report (validation_reports_output.json)"]
    assert shown["Findings_EN"] == "A nodule."
    assert not any("report" in key for key in questions[2].raw)


def test_judge_files_can_be_named(judged):
    llm = judged / "benchmarking/reports/llm_eval"
    moved = [f.rename(judged / f.name) for f in sorted(llm.iterdir())]
    metrics, questions, run = metrics_of(judged, judges=moved)
    assert metrics["jury"]["n"] == 3
    assert BENCHMARK.scores(questions, run, FREEFORM, moved)[f"{ONE}::0"].ours is Outcome.RIGHT


def test_judge_files_of_one_judge_twice_are_refused(judged):
    file = judged / "benchmarking/reports/llm_eval/m_gpt_eval.json"
    with pytest.raises(CtvqaError, match="second file of gpt"):
        metrics_of(judged, judges=[file, file])


@pytest.mark.parametrize("data", [{}, [3], [{"question": "q"}], "x"])
def test_broken_judge_files_are_named(judged, data):
    path = write(judged / "benchmarking/reports/llm_eval/m_gpt_eval.json", data)
    with pytest.raises(InputFileError, match=path.name):
        metrics_of(judged)


def test_votes_in_another_order_are_still_placed():
    predictions = [("", "q", "a", "p"), ("", "r", "a", "p"), ("", "q", "a", "p")]
    vote = {"case_id": "", "right": True, "null": False, "marker": ""}
    mixed = [juries.Vote(question=q, answer="a", prediction="p", **vote) for q in "rqq"]
    assert juries.align(predictions, mixed) == [1, 0, 2]


def test_a_vote_on_nothing_is_not_placed():
    vote = juries.Vote("", "other", "a", "p", True, False, "")
    assert juries.align([("", "q", "a", "p")], [vote]) == [None]


def test_votes_that_name_their_case_go_to_that_case():
    predictions = [("x", "q", "a", "p"), ("y", "q", "a", "p")]
    vote = juries.Vote("y", "q", "a", "p", True, False, "")
    assert juries.align(predictions, [vote]) == [1]


@pytest.mark.parametrize(("votes_for", "right"), [(0, False), (1, False), (2, True), (3, True)])
def test_two_of_three_judges_make_it_right(votes_for, right):
    assert juries.is_right(votes_for) is right


def test_text_metrics_leave_empty_predictions_out():
    result = text_metrics(["in the left lung", ""], ["In the left lung", "x"])
    assert result["count"] == 1
    assert result["bleu"] == pytest.approx(100)
    assert result["rougeL_f"] == pytest.approx(1)
    assert text_metrics([""], ["x"]) == {"count": 0}


def test_volumes_are_found_in_ct_rate_layout(folder, tmp_path):
    place = tmp_path / "ct_rate/dataset/valid_fixed/valid_2/valid_2_b"
    ct = write(place / TWO, "")
    assert BENCHMARK.case_files(TWO, folder, [tmp_path / "ct_rate"]).ct == ct
    with pytest.raises(NotFoundError):
        BENCHMARK.case_files(ONE, folder, [tmp_path / "ct_rate"])


# ------------------------------------------------------------------------------------ real files


@pytest.fixture(scope="module")
def real(real_data):
    return open_path(real_data / "ct_spatialvqa")


@pytest.mark.real
def test_real_questions_and_predictions_load(real):
    assert len(real.questions) == 9077
    assert real.questions.problems == ()
    runs = [real.read_results(path) for path in real.found_results()]
    assert [(run.model, len(run.predictions), run.notes) for run in runs] == [
        ("m3d", 9077, ()), ("merlin", 9077, ()),
    ]  # fmt: skip
    empty = [p for p in runs[0].predictions.values() if not p.raw_text.strip()]
    assert len(empty) == 32


@pytest.mark.real
def test_real_categories_have_their_counts(real):
    counts = {}
    for question in real.questions:
        for label in question.categories:
            counts[label] = counts.get(label, 0) + 1
    assert counts == {
        "Laterality & Bilateral Symmetry": 6403, "Longitudinal (Vertical) Position": 4498,
        "Adjacency & Containment": 4396, "Medial-Lateral Orientation (Centricity)": 2274,
        "Anterior-Posterior (Depth) Relations": 1688, "Spatial Extent & Boundaries": 1263,
    }  # fmt: skip


def run_and_metrics(real, index):
    run = real.read_results(real.found_results()[index])
    return run, real.benchmark.metrics(real.questions, run, FREEFORM)


@pytest.fixture(scope="module")
def m3d(real):
    return run_and_metrics(real, 0)


@pytest.fixture(scope="module")
def merlin(real):
    return run_and_metrics(real, 1)


@pytest.mark.real
def test_real_m3d_jury_official_and_aligned(m3d):
    jury = m3d[1]["jury"]
    assert jury["official"] == pytest.approx(0.3057086180295349, abs=1e-12)
    assert round(jury["aligned"], 4) == 0.3122
    assert (jury["n"], jury["misaligned_rows"]) == (9074, 6283)


@pytest.mark.real
def test_real_m3d_official_outcomes_are_those_of_the_published_matrix(real, real_data, m3d):
    scores = real.benchmark.scores(real.questions, m3d[0], FREEFORM)
    file = real_data / "ct_spatialvqa/benchmarking/reports/metrics/correctness_matrix_avg3.csv"
    with file.open(newline="") as rows:
        for row in csv.DictReader(rows):
            published = {"": "", "0.00": "0", "0.33": "1", "0.66": "2", "1.00": "3"}[row["m3d"]]
            assert scores[row["question_id"]].official_reading[:1] == published


@pytest.mark.real
def test_real_m3d_categories_are_those_published(real_data, m3d):
    file = real_data / "ct_spatialvqa/benchmarking/reports/metrics/category_performance.csv"
    with file.open(newline="") as rows:
        published = {
            row["category"]: (int(row["count"]), row["m3d"]) for row in csv.DictReader(rows)
        }
    found = m3d[1]["categories"]
    assert {k: (v["count"], f"{100 * v['official']:.2f}") for k, v in found.items()} == published


@pytest.mark.real
@pytest.mark.parametrize("model", ["m3d", "merlin"])
def test_real_text_metrics_are_those_published(request, model):
    _, metrics = request.getfixturevalue(model)
    for name in ("count", "bleu", "rouge1_f", "rouge2_f", "rougeL_f"):
        assert metrics["text"][name] == pytest.approx(metrics["text_stored"][name], abs=1e-9)
    assert "not recomputed" in metrics["text_stored"]["note"]
    assert metrics["text_stored"]["meteor"] > 0


@pytest.mark.real
def test_real_merlin_outcomes_are_the_published_ones(real, real_data, merlin):
    scores = real.benchmark.scores(real.questions, merlin[0], FREEFORM)
    counted = [s for s in scores.values() if s.official is not Outcome.UNSCORED]
    right = sum(s.official is Outcome.RIGHT for s in counted)
    assert len(counted) == 9076
    assert right / 9076 == pytest.approx(merlin[1]["jury"]["published"]["accuracy"], abs=1e-12)
    assert {s.ours for s in scores.values()} == {Outcome.UNSCORED}


@pytest.mark.real
def test_real_merlin_has_no_jury_as_its_gemini_file_is_absent(merlin):
    jury = merlin[1]["jury"]
    assert jury["missing_judges"] == ["gemini"]
    assert (jury["official"], jury["aligned"]) == (None, None)
    assert jury["published"]["count"] == 9076
