"""Published tables against their own sums; one's own run beside them only where it belongs."""

import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from napari_ctvqa.benchmarks.deeptumorvqa import BENCHMARK
from napari_ctvqa.cli import main
from napari_ctvqa.core.audit import audit
from napari_ctvqa.core.leaderboards import (
    Asked,
    RankRange,
    asked_of,
    beside,
    leaderboards,
    ordinal,
    own_words,
)
from napari_ctvqa.core.questions import QuestionSet
from napari_ctvqa.core.records import (
    AnswerFormat,
    Outcome,
    Prediction,
    Run,
    Score,
)

RIGHT, WRONG = Outcome.RIGHT, Outcome.WRONG
STAGES = {
    "recognition": 2023,
    "measurement": 2023,
    "visual reasoning": 4049,
    "medical reasoning": 1905,
}
BOARDS = {board.name: board for board in leaderboards()}
MC, FF, JURY = BOARDS["deeptumorvqa-v2-mc"], BOARDS["deeptumorvqa-v2-freeform"], (
    BOARDS["ct_spatialvqa-jury"]
)  # fmt: skip
DIRECT = Asked("deeptumorvqa", AnswerFormat.MC, "direct")

# ----------------------------------------------------------------------------------------- tables


@pytest.mark.parametrize("board", [MC, FF], ids=lambda board: board.name)
def test_the_overall_of_each_row_is_its_stages_weighted_by_their_questions(board):
    """The source prints both, so a digit carried over wrongly shows; all are rounded to 0.1."""
    assert [c.n for c in board.columns[1:]] == list(STAGES.values())
    for row in board.rows:
        if not row.apart:
            parts = zip(row.values[1:], STAGES.values(), strict=True)
            mean = sum(value * n for value, n in parts) / sum(STAGES.values())
            assert row.values[0] == pytest.approx(mean, abs=0.1 + 1e-9), row.model


def test_the_senior_radiologists_overall_is_the_plain_mean_of_the_stages():
    (row,) = (row for row in MC.rows if row.model == "Senior radiologist")
    assert row.values[0] == pytest.approx(sum(row.values[1:]) / 4)


def test_every_row_is_there_once_in_its_place():
    ways = Counter(row.way for row in MC.rows)
    assert ways == {"direct": 29, "oracle": 4, "predicted": 2, "vision": 3}
    assert (len(FF.rows), len(JURY.rows)) == (24, 8)
    for board in BOARDS.values():
        named = Counter((row.model, row.way) for row in board.rows)
        assert max(named.values()) == 1
        assert all(len(row.values) == len(board.columns) for row in board.rows)
        assert all(0 <= value <= 100 for row in board.rows for value in row.values)
        assert all(row.source for row in board.rows)
        assert board.source and board.date and board.unknown and board.metric
    assert [r.model for r in MC.rows if r.apart] == ["Senior radiologist", "Junior radiologist"]


def test_the_categories_hold_the_questions_that_the_source_counts():
    counted = {column.label: column.n for column in JURY.columns[1:]}
    assert sum(counted.values()) == 6403 + 4498 + 4396 + 2272 + 2 + 1688 + 1263


# ---------------------------------------------------------------------------------------- own run


def question_set(stages=STAGES):
    names = [stage for stage, n in stages.items() for _ in range(n)]
    frame = pd.DataFrame(
        {"id": [f"q{i:05d}" for i in range(len(names))], "case": "c",
         "stage": pd.Categorical(names), "subtype": "", "text": "?"}
    )  # fmt: skip
    return QuestionSet("deeptumorvqa", Path("x"), frame, lambda row: None)


@pytest.fixture(scope="module")
def questions():
    return question_set()


YES, NO = Score(RIGHT, "A", RIGHT, "A"), Score(WRONG, "A", WRONG, "A")


def audited(questions, rights, model="mine", stages=None):
    """Scores with so many right answers a stage, of the stages named."""
    scores, left = {}, dict(rights)
    for key, stage in zip(questions.frame["id"], questions.frame["stage"], strict=True):
        if stages is None or stage in stages:
            scores[key] = YES if left.get(stage, 0) > 0 else NO
            left[stage] = left.get(stage, 0) - 1
    return audit(model, questions, scores)


@pytest.fixture(scope="module")
def whole(questions):
    """3,850 of 10,000: 38.5 %, Wilson 37.55 to 39.46."""
    rights = {"recognition": 1180, "measurement": 590, "visual reasoning": 1555,
              "medical reasoning": 525}  # fmt: skip
    return audited(questions, rights)


def test_a_whole_run_stands_between_the_ranks_that_its_interval_leaves_open(whole):
    own = beside(MC, whole, DIRECT)
    assert own.reasons == () and own.compared
    ends = own.values[0].total.interval
    assert (round(ends.low, 4), round(ends.high, 4)) == (0.3755, 0.3946)
    # Nine rows print more than 39.46 (39.9 is the least); 37.8 to 38.9, seven rows, lie within.
    assert own.values[0].rank == RankRange(10, 17, 28)


def test_ranks_count_the_rows_by_hand(whole):
    peers = [row.values[0] for row in MC.peers("direct", "")]
    assert len(peers) == 27
    above = [value for value in peers if value >= 39.6]
    open_ = [value for value in peers if 37.5 <= value < 39.6]
    rank = beside(MC, whole, DIRECT).values[0].rank
    assert rank == RankRange(len(above) + 1, len(above) + len(open_) + 1, 28)
    among, overall, *_ = own_words(beside(MC, whole, DIRECT))
    assert among == "Ranks are among the 27 published rows asked directly, and this run."
    assert overall == (
        f"overall: 38.5\N{NO-BREAK SPACE}% (37.6–39.5), between {ordinal(rank.best)} and "
        f"{ordinal(rank.worst)} of 28."
    )


def test_an_agent_is_compared_with_the_rows_of_its_kit_only(whole):
    own = beside(MC, whole, replace(DIRECT, mode="agent", kit="vision"))
    assert own.values[0].rank.among == 4


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (replace(DIRECT, format=AnswerFormat.FREEFORM), "multiple choice, the run free form"),
        (replace(DIRECT, mode="agent", kit="live"), "no row for an agent with the kit live"),
        (replace(DIRECT, mode="agent"), "does not say with which kit"),
        (replace(DIRECT, mode=""), "does not say how it was asked"),
        (replace(DIRECT, benchmark="ct_spatialvqa"), "another benchmark"),
        (replace(DIRECT, caveats=("absent masks were taken as none",)), "absent masks"),
    ],
)
def test_what_was_asked_otherwise_is_not_compared_and_says_why(whole, asked, why):
    own = beside(MC, whole, asked)
    assert not own.compared
    assert all(value.rank is None for value in own.values)
    (sentence,) = own_words(own)
    assert sentence.startswith("Not compared: ") and why in sentence


def test_another_set_of_questions_is_not_compared():
    own = beside(MC, audited(question_set({"recognition": 98}), {}), DIRECT)
    assert "these are 98 questions, the table's are the 10,000 of v2" in own.reasons[0]


def test_a_run_over_one_stage_is_compared_in_that_stage_and_has_no_rank_overall(questions):
    own = beside(MC, audited(questions, {"recognition": 1200}, stages=("recognition",)), DIRECT)
    overall, recognition, measurement, *_ = own.values
    assert (overall.rank, overall.reason) == (None, "2,023 of 10,000 questions are scored")
    assert recognition.rank is not None and recognition.rank.among == 28
    assert measurement.reason == "0 of 2,023 questions are scored"
    assert "overall: not compared, 2,023 of 10,000 questions are scored." in own_words(own)


def test_one_missing_answer_takes_the_rank_away(questions, whole):
    scores = dict.fromkeys(whole.total.ids()[1:], YES)
    own = beside(MC, audit("mine", questions, scores), DIRECT)
    assert (own.values[0].rank, own.values[0].reason) == (
        None,
        "9,999 of 10,000 questions are scored",
    )


def test_a_value_better_than_all_has_still_a_range_that_says_so(questions):
    own = beside(MC, audited(questions, STAGES), DIRECT)
    assert own.values[0].rank == RankRange(1, 1, 28)
    assert own.values[0].rank.text == "1st of 28 anywhere in its interval"


# ------------------------------------------------------------------------------- how it was asked


def run_with(model="m", **made):
    return Run(model, {"q": Prediction("q", model, "A")}, path="x.json", made=made)


@pytest.mark.parametrize(
    ("run", "kit", "mode_and_kit"),
    [
        (run_with(config={"mode": "direct"}), "", ("direct", "")),
        (run_with(config={"mode": "direct"}), "oracle", ("direct", "")),
        (run_with(config={"mode": "agent"}, kit="oracle"), "vision", ("agent", "oracle")),
        (run_with(config={"mode": "agent"}), "", ("agent", "")),
        (run_with(config={"mode": "agent"}), "vision", ("agent", "vision")),
        (run_with(kit="predicted"), "", ("agent", "predicted")),
        (run_with(), "", ("", "")),
    ],
)
def test_how_a_run_was_asked_is_read_from_its_file(run, kit, mode_and_kit):
    asked = asked_of(run, "deeptumorvqa", AnswerFormat.MC, kit=kit)
    assert (asked.mode, asked.kit) == mode_and_kit
    assert asked.caveats == ()


ROW = {"qid": "q00000", "raw_output": "A"}
CALLED = {**ROW, "trajectory": [{"step": 1, "final_answer": "A"}]}
OURS = {"model": "toy", "answer_format": "mc", "kit": "live", "benchmark": "deeptumorvqa"}


@pytest.mark.parametrize(
    ("text", "mode_and_kit"),
    [
        (json.dumps({"results": [ROW]}), ("direct", "")),
        (json.dumps({"results": [ROW, CALLED]}), ("agent", "")),
        (json.dumps({**OURS, "results": [ROW]}), ("agent", "live")),
        (json.dumps({"run": OURS}) + "\n" + json.dumps(ROW) + "\n", ("agent", "live")),
        (json.dumps({**OURS, "kit": "", "config": {"mode": "direct"}, "results": [ROW]}),
         ("direct", "")),
    ],
)  # fmt: skip
def test_the_reader_of_a_file_knows_how_its_layout_was_made(
    questions, tmp_path, text, mode_and_kit
):
    path = tmp_path / ("x.jsonl" if "\n" in text else "x.json")
    path.write_text(text)
    run = BENCHMARK.results(path, questions)
    asked = asked_of(run, "deeptumorvqa", AnswerFormat.MC)
    assert (asked.mode, asked.kit) == mode_and_kit
    if "model" in text:
        assert (run.model, run.answer_format) == ("toy", AnswerFormat.MC)


def test_runs_that_are_no_baseline_say_so():
    rules = asked_of(run_with("rules", kit="oracle"), "deeptumorvqa", AnswerFormat.MC)
    assert "no baseline" in rules.caveats[0]
    assumed = asked_of(run_with(absent_means_none=True), "deeptumorvqa", AnswerFormat.MC)
    assert "assumed" in assumed.caveats[0]


def test_ordinals():
    assert [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 13, 21, 22, 112)] == [
        "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd", "112th",
    ]  # fmt: skip


# ---------------------------------------------------------------------------------------- command


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.setenv("NAPARI_CTVQA_CONFIG_DIR", str(tmp_path / "config"))


def test_without_a_path_all_tables_are_listed(config, capsys):
    assert main(["leaderboard", "--json"]) == 0
    assert [board["name"] for board in json.loads(capsys.readouterr().out)] == list(BOARDS)
    assert main(["leaderboard", "--benchmark", "ct_spatialvqa"]) == 0
    assert "CT-SpatialVQA, jury" in (out := capsys.readouterr().out) and "Meissa" not in out
    assert main(["leaderboard", "--benchmark", "plain_table"]) == 2


def test_a_run_that_cannot_be_compared_shows_no_value_among_the_published(config, tmp_path, capsys):
    record = {"qid": "q0", "image_id": "B", "question": "?", "answer": "Yes",
              "mc_question": "? A: No B: Yes", "correct_option": "B",
              "question_type": "recognition", "question_subtype": "PDAC existence"}  # fmt: skip
    questions, answers = tmp_path / "test_qa.json", tmp_path / "mine.json"
    questions.write_text(json.dumps({"questions": [record]}))
    answers.write_text(json.dumps({"results": [{"qid": "q0", "raw_output": "B"}]}))
    assert main(["leaderboard", str(questions), str(answers), "--format", "mc"]) == 0
    out = capsys.readouterr().out
    assert "▶" not in out
    assert "Not compared: these are 1 questions" in out


REAL = Path(os.environ.get("NAPARI_CTVQA_REAL_DATA", "")) / "ct_spatialvqa"


@pytest.mark.skipif(not (REAL / "benchmarking").is_dir(), reason="needs the real data")
def test_a_published_run_scored_here_gives_its_published_row(config, capsys):
    answers = REAL / "benchmarking/reports/predictions/m3d_predictions_full.jsonl"
    assert main(["leaderboard", str(REAL), str(answers), "--json"]) == 0
    (board,) = json.loads(capsys.readouterr().out)
    (row,) = (row for row in board["rows"] if row["model"] == "m3d")
    own = board["own"]
    assert own["compared"]
    for title, value in row["values"].items():
        assert own["values"][title]["percent"] == pytest.approx(value, abs=0.0051)
        low, high = own["values"][title]["ranks"]
        assert 1 <= low <= high <= own["values"][title]["among"] == 9
