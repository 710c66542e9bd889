"""The metrics block that a finished result file carries, as the benchmark's scorer writes it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
_ALONE = re.compile(r"\b([ABCD])\b")


def official_letter(raw: str) -> str:
    """Return the option letter as the benchmark's parser takes it, faults included.

    The first character where it is A to D, else the first letter that stands alone; so
    ``Answer: C`` is read as A.
    """
    text = _THOUGHT.sub("", raw).strip().upper()
    if text[:1] in {"A", "B", "C", "D"}:
        return text[0]
    found = _ALONE.search(text)
    return found[1] if found else ""


def mc_metrics(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return overall, per-stage and per-subtype accuracy of multiple-choice answers."""
    rows: dict[str, list[tuple[str, str]]] = defaultdict(list)
    stages: dict[str, str] = {}
    for result in results:
        subtype = result["question_subtype"]
        rows[subtype].append((official_letter(result["raw_output"]), result["correct_option"]))
        stages.setdefault(subtype, result["question_type"])
    by_subtype = {
        subtype: {
            "accuracy": round(sum(read == right for read, right in pairs) / len(pairs), 4),
            "n_total": len(pairs),
            "n_parsed": sum(bool(read) for read, _ in pairs),
        }
        for subtype, pairs in rows.items()
    }
    by_stage = {
        stage: _weighted(by_subtype[s] for s, own in stages.items() if own == stage)
        for stage in dict.fromkeys(stages.values())
    }
    overall = {**_weighted(by_subtype.values()), "n_subtypes": len(by_subtype)}
    return {"overall": overall, "by_super_type": by_stage, "by_subtype": by_subtype}


def _weighted(scores: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of rounded subtype accuracies, weighted by their number of questions."""
    listed = list(scores)
    total = sum(score["n_total"] for score in listed)
    mean = sum(score["accuracy"] * score["n_total"] for score in listed) / total
    return {"accuracy": round(mean, 4), "n_total": total}
