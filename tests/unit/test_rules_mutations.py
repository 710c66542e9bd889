"""Every change of the rule table that matters is caught: the table's own mutations against probes.

``table_mutations`` makes the mutations from the table; a probe is a question about a small case,
or a conclusion from numbers, argued from what went in. ``scripts/mutations.py`` lists them all.
"""

import copy
from collections import defaultdict

import pytest
import rule_probes
from table_mutations import TABLE, Changed, Mutation, caught, mutations, put

from napari_ctvqa.core.rules import supported

MUTATIONS = list(mutations())
BY_SUBTYPE = defaultdict(list)
for _mutation in MUTATIONS:
    BY_SUBTYPE[_mutation.subtypes[0] if _mutation.within_a_row else "shared"].append(_mutation)

WITH_THRESHOLD = {
    "splenomegaly detection", "splenomegaly grading", "organ enlargement", "lesion outlier",
    "liver lesion clustering", "largest lesion attenuation", "kidney volume comparison",
    "bilateral kidney asymmetry", "inter-segment comparison",
    "multi-organ lesion burden comparison",
    "PDAC vs PNET classification", "fatty liver", "hepatic steatosis grading",
    "lesion type classification", "pancreatic cyst resectability",
    "pancreatic lesion resectability", "pancreatic steatosis", "pancreatic tumor staging",
    "portal hypertension assessment", "pseudocyst determination", "renal mass characterization",
}  # fmt: skip


@pytest.mark.parametrize("subtype", supported())
def test_the_shipped_table_passes_every_probe(subtype):
    assert rule_probes.failing(subtype) == ""


@pytest.mark.parametrize("subtype", [*supported(), "shared"])
def test_a_changed_table_is_caught(subtype):
    survived = [mutation.name for mutation in BY_SUBTYPE[subtype] if not caught(mutation)]
    assert survived == []


@pytest.mark.parametrize("subtype", supported())
def test_a_missing_subtype_is_caught(subtype):
    data = copy.deepcopy(TABLE)
    del data["subtypes"][subtype]
    with Changed(data):
        assert rule_probes.failing(subtype)


@pytest.mark.parametrize("subtype", supported())
def test_there_are_mutations_of_every_kind_that_a_subtype_has(subtype):
    kinds = {mutation.kind for mutation in BY_SUBTYPE[subtype]}
    assert {"target", "answer_type", "how"} <= kinds
    assert ("threshold" in kinds) == (subtype in WITH_THRESHOLD)
    if len(TABLE["subtypes"][subtype]["steps"]) > 1:
        assert {"order", "step"} <= kinds
    if "kidney_left" in str(TABLE["subtypes"][subtype]):
        assert "side" in kinds or subtype == "organ enlargement"


def test_a_mutation_that_no_probe_notices_is_told():
    silent = put(("subtypes", "fatty liver", "conclude", "text"), "other words")
    assert caught(Mutation("words", "fatty liver text", silent, ("fatty liver",))) == ""


def test_the_table_is_as_before_after_a_mutation():
    caught(MUTATIONS[0])
    assert rule_probes.failing(MUTATIONS[0].subtypes[0]) == ""
