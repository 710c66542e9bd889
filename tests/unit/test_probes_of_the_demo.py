"""The table of what a probe must do agrees with what the rules make of the changed masks.

The rule agent measures each changed case of the demo anew: an expectation that is wrong for a
subtype shows as an answer that did not do what it must.
"""

import pytest

from napari_ctvqa.core.probe_results import Verdict
from napari_ctvqa.core.probes import CHANGING, Effect
from napari_ctvqa.core.records import AnswerFormat
from napari_ctvqa.demo import ensure_demo
from napari_ctvqa.models.rules import MODEL
from napari_ctvqa.runners.opening import open_path
from napari_ctvqa.runners.probing import read_probe_answers, run_probes

pytestmark = pytest.mark.slow
PROBES = ("mirrored", "lesion_removed", "lesion_copied", "shuffled")


@pytest.mark.parametrize("answer_format", list(AnswerFormat))
def test_the_rules_do_what_the_table_says(tmp_path, monkeypatch, answer_format):
    monkeypatch.setenv("NAPARI_CTVQA_CONFIG_DIR", str(tmp_path / "config"))
    opened, out = open_path(ensure_demo()), tmp_path / "p.json"
    rows = range(len(opened.questions))
    list(run_probes(opened, MODEL, answer_format, out, rows=rows, probes=PROBES))
    known = [
        answer
        for answer in read_probe_answers(out)
        if answer.effect is Effect.SAME or answer.effect in CHANGING
    ]
    fine = (Verdict.AS_MUST, Verdict.NO_BASE, Verdict.NOT_MADE)
    assert [(a.question_id, a.probe, a) for a in known if a.verdict not in fine] == []
    turned = [a for a in known if a.effect in CHANGING and a.verdict is Verdict.AS_MUST]
    assert {a.probe for a in turned} >= {"mirrored", "lesion_removed"}
    assert len(turned) >= 10
