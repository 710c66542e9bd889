"""Measure the probes on the shipped toy model, and on stand-ins that do not look.

Bodies with one lesion are generated, written as a benchmark, and every question is probed through
the program's own worker: mirrored, lesion removed, options shuffled, blank volume.

    PYTHONPATH=. python scripts/probe_figures.py --bodies 110 --folder /somewhere
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from demo_model.bodies import ASKED, ORGANS, Body, bodies
from demo_model.pool import MIDLINE_MM
from demo_model.wordings import SIDE_ANY, wordings

from napari_ctvqa.core.records import AnswerFormat, Prediction, Question
from napari_ctvqa.demo import files
from napari_ctvqa.runners.choices import Wanted, answerer_for
from napari_ctvqa.runners.opening import open_path
from napari_ctvqa.runners.probing import ProbeProgress, run_probes

if TYPE_CHECKING:
    from napari_ctvqa.core.cases import Case

FIRST_SEED = 7_000_000
"""Far from the bodies of training, of the model's card and of the tests."""
PROBES = ("mirrored", "lesion_removed", "blank", "shuffled")
_SUBJECTS = {"liver": "liver", "kidney_left": "kidneys", "kidney_right": "kidneys",
             "spleen": "spleen"}  # fmt: skip
_LESIONS = {"liver": "liver_lesion", "kidneys": "kidney_lesion", "spleen": "spleen_lesion"}
SETTINGS = {
    "sampling_of_slices": "structures",
    "structures": list(_LESIONS.values()),
    "max_slices": 3,
}
"""Three slices through the lesion: among eight of a whole body most lesions are on none."""


def make_benchmark(root: Path, count: int, first_seed: int = FIRST_SEED) -> Path:
    """Write bodies with one lesion each and questions about them; return the benchmark's folder."""
    rows: list[dict[str, Any]] = []
    for body in bodies(first_seed, count, 1, ASKED):
        case_id = f"BODY_{body.seed}"
        _write_case(root / "benchmark" / "ct" / case_id, body)
        rows += _rows(case_id, body)
    data = {"version": "probes", "num_questions": len(rows), "questions": rows}
    (root / "benchmark" / "test_qa.json").write_text(json.dumps(data), encoding="utf-8")
    return root


def _write_case(folder: Path, body: Body) -> None:
    masks = folder / "segmentations"
    masks.mkdir(parents=True, exist_ok=True)
    files.write_ct(folder / "ct.nii.gz", body.hu_zyx[::-1])
    own = _SUBJECTS[body.lesions[0].organ]
    regions = {name: body.organs_zyx == n for n, name in enumerate(ORGANS, start=1)}
    regions |= {lesion: (body.lesions_zyx > 0) & (own == s) for s, lesion in _LESIONS.items()}
    for name, inside in regions.items():
        mask = SimpleNamespace(box=(slice(None),) * 3, crop=inside[::-1])
        files.write_mask(masks / f"{name}.nii.gz", mask)


def _rows(case_id: str, body: Body) -> Iterator[dict[str, Any]]:
    """Yield the side, whether the lesion's organ has one, and whether another organ has one."""
    (lesion,) = body.lesions
    x_mm = lesion.centre_mm[0]
    if abs(x_mm) >= MIDLINE_MM:
        yield _row(case_id, "side", SIDE_ANY[0], ("Left", "Right"), "Left" if x_mm > 0 else "Right")
    own = _SUBJECTS[lesion.organ]
    others = sorted(set(_LESIONS) - {own})
    for subject in (own, others[body.seed % len(others)]):
        text = wordings("presence", subject)[0]
        answer = "Yes" if subject == own else "No"
        yield _row(case_id, f"presence {subject}", text, ("Yes", "No"), answer)


def _row(case_id: str, name: str, text: str, options: Sequence[str], answer: str) -> dict[str, Any]:
    order = options if _number_of(case_id + name) % 2 else options[::-1]
    letters = dict(zip("AB", order, strict=True))
    listed = " ".join(f"{letter}: {said}" for letter, said in letters.items())
    return {
        "qid": f"{case_id} {name}",
        "image_id": case_id,
        "question": text,
        "mc_question": f"{text} {listed}",
        "answer": answer,
        "correct_option": next(letter for letter, said in letters.items() if said == answer),
        "organ": "",
        "lesion": True,
        "question_type": "recognition",
        "question_subtype": name,
        "spacing": "",
        "shape": "",
        "sex": None,
        "age": None,
        "requires_tools": [],
    }


def _number_of(text: str) -> int:
    """Return a number of a text that is the same in every process."""
    return sum(ord(letter) * (n + 1) for n, letter in enumerate(text))


class Guesser:
    """Answers from the words alone: yes, and left; never looks."""

    name = title = "guesser"

    def wanted_masks(self, question: Question) -> tuple[str, ...]:
        """Return none."""
        del question
        return ()

    def answer(
        self, question: Question, case: Case, answer_format: AnswerFormat
    ) -> Iterator[Prediction]:
        """Yield the letter of the option that says yes or left."""
        del case, answer_format
        wanted = {"Yes", "Left"}
        letter = next(o.letter for o in question.options if o.text in wanted)
        yield Prediction(question.id, self.name, letter)


class FirstOption(Guesser):
    """Always answers A."""

    name = title = "first-option"

    def answer(
        self, question: Question, case: Case, answer_format: AnswerFormat
    ) -> Iterator[Prediction]:
        """Yield A."""
        del case, answer_format
        yield Prediction(question.id, self.name, "A")


def toy(opened: Any, python: str = "") -> Any:
    """Return the shipped model, shown three slices through the lesion."""
    wanted = Wanted("toy", python=python, device="cpu", settings=SETTINGS)
    return answerer_for(wanted, opened)


def probe(folder: Path, answerer: Any, out: Path, probes: Sequence[str] = PROBES) -> ProbeProgress:
    """Probe every question of a benchmark; return the last step, with what was found."""
    opened = open_path(folder)
    assert opened.questions is not None
    rows = range(len(opened.questions))
    steps = run_probes(opened, answerer, AnswerFormat.MC, out, rows=rows, probes=probes)
    return deque(steps, maxlen=1).pop()


def main() -> None:
    """Write the figures of all three to stdout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bodies", type=int, default=110)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--python", default="", help="the Python that has torch")
    args = parser.parse_args()
    folder = args.folder / f"bodies_{args.bodies}"
    if not (folder / "benchmark" / "test_qa.json").exists():
        make_benchmark(folder, args.bodies)
    opened = open_path(folder)
    for answerer in (Guesser(), FirstOption(), toy(opened, args.python)):
        last = probe(folder, answerer, args.folder / f"{answerer.name}_{args.bodies}.json")
        sys.stdout.write(f"\n{answerer.name}: {last.done} of {last.total}, {last.failed} failed\n")
        for found in last.found:
            sys.stdout.write(f"{found.title}\n")
            for sentence in found.sentences:
                sys.stdout.write(f"  {sentence}\n")
            for reason, count in found.not_made.items():
                sys.stdout.write(f"  not made for {count}: {reason}\n")
        for sentence in last.behaviour:
            sys.stdout.write(f"=> {sentence}\n")
        sys.stdout.flush()
    close = getattr(answerer, "close", None)
    if close is not None:
        close()


if __name__ == "__main__":
    main()
