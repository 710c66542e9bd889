"""How quickly questions and predictions load, and how quickly a filter answers.

    python timings/lists.py [FOLDER]

Exits 1 when a promise is not kept. FOLDER is CT-SpatialVQA's folder (default: ``ct_spatialvqa``
under NAPARI_CTVQA_REAL_DATA). The peer is ``json.loads`` of the bytes of the same files in one run.
The filter is timed on 476,000 made-up questions, the size of DeepTumorVQA: made from templates as
its are (45,000 different texts), which is what the promise is about, and for comparison with no two
texts alike.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pandas as pd

from napari_ctvqa.core.ordering import ordered
from napari_ctvqa.core.questions import QuestionSet
from napari_ctvqa.core.records import Outcome, Question, Reference, Score
from napari_ctvqa.core.where import parse_where, prepare
from napari_ctvqa.runners.opening import open_path

REPEATS = 7
MOST_RATIO = 3
MOST_FILTER_S = 0.1
MANY = 476_000
FILTERS = (
    "stage:measurement",
    'subtype:"subtype 17"',
    "case:BDMAP_00000123",
    "volume",
    "no such word",
    "stage:recognition -subtype:7 liver volume",
    "outcome:wrong",
    "model:peer -outcome:right spleen",
)


def seconds(work: Callable[[], object]) -> float:
    """Return the wall time of one call."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def parse(files: Iterable[Path]) -> list[object]:
    """The peer: read the bytes and call json.loads, line by line for JSON lines; keep the data."""
    data: list[object] = []
    for file in files:
        content = file.read_bytes()
        if file.suffix == ".jsonl":
            data.append([json.loads(line) for line in content.splitlines()])
        else:
            data.append(json.loads(content))
    return data


def load(folder: Path) -> tuple[int, list[Path]]:
    """Ours: open the folder, read every prediction file; every question and answer once."""
    opened = open_path(folder)
    assert opened.questions is not None
    results = opened.found_results()
    for path in results:
        run = opened.read_results(path)
        assert len(run.predictions) == len(opened.questions)
    return len(opened.questions), list(results)


def files_read(folder: Path) -> list[Path]:
    """Return the files that loading reads: questions, categories, predictions."""
    names = (
        "dataset/ct_spatialvqa/spatial_qa_filtered_full.json",
        "benchmarking/eval_scripts/spatial_categories/"
        "spatial_qa_filtered_full_with_categories.json",
    )
    predictions = sorted((folder / "benchmarking/reports/predictions").glob("*.jsonl"))
    return [*(folder / name for name in names), *predictions]


def time_loading(folder: Path) -> bool:
    """Print the times of both; return whether the promise is kept."""
    files = files_read(folder)
    load(folder)
    parse(files)
    ours, peer = [], []
    for _ in range(REPEATS):
        peer.append(seconds(lambda: parse(files)))
        ours.append(seconds(lambda: load(folder)))
    count, results = load(folder)
    size = sum(file.stat().st_size for file in files) / 1e6
    print(
        f"{count} questions and {len(results)} prediction files, {size:.1f} MB, best of {REPEATS}"
    )
    print(f"  json.loads of the same bytes  {min(peer) * 1e3:7.1f} ms")
    print(f"  open_path + read_results      {min(ours) * 1e3:7.1f} ms")
    ratio = min(ours) / min(peer)
    print(f"  ratio                         {ratio:7.2f}   (to reach: <= {MOST_RATIO})")
    return ratio <= MOST_RATIO


def many_questions(*, templates: bool) -> QuestionSet:
    """Return 476,000 questions in the shape of DeepTumorVQA's; else no two texts are alike."""
    stages = ("recognition", "measurement", "visual reasoning", "medical reasoning")
    organs = ("liver", "spleen", "left kidney", "right kidney", "pancreas", "colon")
    texts = [
        f"What is the volume of the {organs[i % 6]} on scan {i % 5000 if templates else i}, "
        f"seen beside the {organs[(i // 6) % 6]}?"
        for i in range(MANY)
    ]
    frame = pd.DataFrame(
        {
            "id": pd.Series([f"q_{i:06d}" for i in range(MANY)], dtype=object),
            "case": pd.Categorical([f"BDMAP_{i % 9262:08d}" for i in range(MANY)]),
            "stage": pd.Categorical([stages[i % 4] for i in range(MANY)]),
            "subtype": pd.Categorical([f"subtype {i % 42}" for i in range(MANY)]),
            "text": pd.Series(texts, dtype=object),
        }
    )

    def build(row: int) -> Question:
        return Question(str(row), "", texts[row], Reference(""))

    return QuestionSet("made up", Path("made up"), frame, build)


def time_filters(*, templates: bool) -> bool:
    """Print the time of each filter; return whether the promise is kept."""
    questions = many_questions(templates=templates)
    first = seconds(lambda: prepare(questions))
    texts = questions.frame["text"].nunique()
    print(f"{MANY} made-up questions with {texts} texts; once at opening: {first * 1e3:.0f} ms")
    right = Score(Outcome.RIGHT, "A", Outcome.RIGHT, "A")
    wrong = Score(Outcome.WRONG, "B", Outcome.WRONG, "B")
    ids = questions.frame["id"].tolist()
    scores = {
        name: {key: right if (i + n) % 3 else wrong for i, key in enumerate(ids[:48_000])}
        for n, name in enumerate(("ours", "peer"))
    }
    worst = 0.0
    for text in FILTERS:
        where = parse_where(text)
        where.rows(questions, scores)
        took = min(seconds(lambda w=where: w.rows(questions, scores)) for _ in range(REPEATS))
        worst = max(worst, took)
        print(f"  {text:45s} {took * 1e3:6.1f} ms  {len(where.rows(questions, scores)):7d} rows")
    rows = parse_where("").rows(questions)
    ordered(rows, questions, "subtype")
    took = seconds(lambda: ordered(rows, questions, "subtype"))
    print(f"  {'sort by subtype':45s} {took * 1e3:6.1f} ms")
    print(f"  slowest filter {worst * 1e3:.1f} ms   (to reach: < {MOST_FILTER_S * 1e3:.0f} ms)")
    return worst < MOST_FILTER_S


def main() -> int:
    root = os.environ.get("NAPARI_CTVQA_REAL_DATA", "")
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(root) / "ct_spatialvqa"
    if folder.is_dir():
        kept = time_loading(folder)
    else:
        print(f"{folder} is not here: give CT-SpatialVQA's folder, or set NAPARI_CTVQA_REAL_DATA")
        kept = True
    kept = time_filters(templates=True) and kept
    time_filters(templates=False)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
