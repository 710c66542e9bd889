"""BLEU and ROUGE between predictions and answers, as CT-SpatialVQA reports them.

sacrebleu's corpus BLEU lower-cased, rouge-score's F with stemming: these settings give the
published numbers. Empty predictions are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

METRICS = ("bleu", "rouge1_f", "rouge2_f", "rougeL_f")


def text_metrics(predictions: Sequence[str], answers: Sequence[str]) -> dict[str, float | int]:
    """Return count, BLEU (0-100) and mean ROUGE-1/2/L F (0-1) over non-empty predictions."""
    pairs = [(p, a) for p, a in zip(predictions, answers, strict=True) if p.strip()]
    result: dict[str, float | int] = {"count": len(pairs)}
    if not pairs:
        return result
    from sacrebleu import corpus_bleu

    said = [p for p, _ in pairs]
    wanted = [a for _, a in pairs]
    result["bleu"] = float(corpus_bleu(said, [wanted], lowercase=True).score)
    result.update(_rouge(pairs))
    return result


def _rouge(pairs: Sequence[tuple[str, str]]) -> dict[str, float]:
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=True)

    # The same short pairs recur thousands of times ("Yes." for the same sentence).
    @cache
    def values(said: str, wanted: str) -> tuple[float, float, float]:
        scores = scorer.score(wanted, said)
        return (
            scores["rouge1"].fmeasure, scores["rouge2"].fmeasure, scores["rougeL"].fmeasure,
        )  # fmt: skip

    totals = [0.0, 0.0, 0.0]
    for said, wanted in pairs:
        for index, value in enumerate(values(said, wanted)):
            totals[index] += value
    names = ("rouge1_f", "rouge2_f", "rougeL_f")
    return {name: total / len(pairs) for name, total in zip(names, totals, strict=True)}
