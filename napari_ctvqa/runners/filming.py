"""From a question to its film: case, chains and steps read and computed, without a window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from napari_ctvqa.core.errors import NotFoundError
from napari_ctvqa.core.film_steps import FilmStep, film_steps
from napari_ctvqa.io.reader import read_case
from napari_ctvqa.runners.desk import chains_of

if TYPE_CHECKING:
    from pathlib import Path

    from napari_ctvqa.core.cases import Case
    from napari_ctvqa.core.questions import QuestionSet
    from napari_ctvqa.core.records import Prediction
    from napari_ctvqa.runners.opening import Opened


@dataclass(frozen=True)
class Filmed:
    """A case and the steps of one question's film on it."""

    case: Case
    steps: tuple[FilmStep, ...]


def filmed(
    opened: Opened, questions: QuestionSet, question_id: str, results: Path | None = None
) -> Filmed:
    """Return the film of a question: the reference's chain, beside a model's where one is given.

    Raises
    ------
    CtvqaError
        When question, case or results cannot be read, or the model did not answer this question.
    """
    question = questions.by_id(question_id)
    predictions: dict[str, Prediction] = {}
    if results is not None:
        run = opened.read_results(results)
        if question.id not in run.predictions:
            raise NotFoundError(
                f"{results.name} holds no answer to {question.id}.",
                hint="Name the result file of a model that answered it.",
            )
        predictions = {run.model: run.predictions[question.id]}
    case = read_case(opened.case_files(question.case_id), label_maps=True)
    chains = next(chains_of(question, case, predictions))
    model = next(iter(chains.by_model), "")
    steps = film_steps(
        case, chains.reference, chains.by_model.get(model), chains.comparisons.get(model)
    )
    return Filmed(case, steps)
