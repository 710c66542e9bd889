import json

import pytest

from napari_ctvqa._resources import resource_path
from napari_ctvqa.core import names
from napari_ctvqa.core.conclusions import conclude, labels_of
from napari_ctvqa.core.measure import MEASURED, SIZE_FILTERS, UNITS
from napari_ctvqa.core.records import AnswerType
from napari_ctvqa.core.rules import (
    lesion_classes,
    measure_named,
    normal_subtype,
    phrase,
    rule_for,
    supported,
)

SCHEMA = json.loads(resource_path("deeptumorvqa_subtypes.json").read_text())["subtypes"]
"""What the benchmark's own schema says: it knows nothing of our rules."""


def test_the_table_has_all_42_subtypes_in_the_benchmarks_order():
    assert supported() == tuple(row["subtype"] for row in SCHEMA)
    assert len(supported()) == 42


@pytest.mark.parametrize("row", SCHEMA, ids=lambda row: row["subtype"])
def test_answer_type_and_primitives_are_the_benchmarks(row):
    rule = rule_for(row["subtype"])
    expected = [p.replace("knowledge", "lookup") for p in row["primitives"]]
    assert (rule.answer_type.value, list(rule.primitives)) == (row["answer_type"], expected)


def test_every_rule_says_where_it_comes_from_and_whether_it_is_known():
    table = json.loads(resource_path("rules.json").read_text())
    for name, row in table["subtypes"].items():
        parts = [row["conclude"], *row["conclude"].get("variants", {}).values()]
        for part in parts:
            assert part["source"] in table["sources"], name
            assert part["status"] in ("known", "assumed"), name
        variants = row["conclude"].get("variants")
        if variants:
            assert rule_for(name).default.name == row["conclude"]["default"]
            assert all(variant["text"] for variant in variants.values())


def test_every_measure_has_the_unit_that_is_measured():
    for name in MEASURED:
        assert measure_named(name).unit == UNITS[name]


def test_every_name_in_the_table_is_a_structure():
    for subtype in supported():
        target = rule_for(subtype).target
        assert target.startswith("{") or names.is_known(target)
    for organ in ("liver", "kidney", "pancreas", "colon"):
        general, kinds = lesion_classes(organ)
        assert all(
            names.is_lesion(name) and names.parent_of(name) == organ for name in (general, *kinds)
        )


def test_every_label_has_a_phrase_that_means_it():
    from napari_ctvqa.core.answers import label_in

    for subtype in supported():
        rule = rule_for(subtype)
        for label in labels_of(rule):
            assert label_in(phrase(label), rule) == label


def test_size_filters_named_in_the_table_exist():
    counting = rule_for("lesion counting")
    assert {v.parameters["size_filter"] for v in counting.variants} == set(SIZE_FILTERS)


@pytest.mark.parametrize(
    "name", ["Splenomegaly_Grading", "  splenomegaly  grading", "SPLENOMEGALY GRADING"]
)
def test_spelling_of_a_subtype_does_not_matter(name):
    assert rule_for(name) is rule_for("splenomegaly grading")
    assert normal_subtype(name) == "splenomegaly grading"


def test_an_unknown_subtype_has_no_rule():
    assert rule_for("bone age") is None and rule_for("") is None


def test_numbers_are_added_and_rounded_once():
    rule = rule_for("organ volume measurement")
    assert rule.answer_type is AnswerType.NUMERIC
    assert conclude(rule, [100.04, 100.04]).value == 200.1
    assert conclude(rule, [100.04]).value == 100.0


def test_too_few_or_too_many_values_are_refused():
    with pytest.raises(ValueError, match="no value"):
        conclude(rule_for("organ volume measurement"), [])
    with pytest.raises(ValueError, match="two values"):
        conclude(rule_for("kidney volume comparison"), [1.0])
    with pytest.raises(ValueError, match="one value"):
        conclude(rule_for("splenomegaly grading"), [1.0, 2.0])


@pytest.mark.parametrize(
    ("left", "right", "variant", "label"),
    [
        (95.0, 100.0, "within_5_percent", "same"),
        (94.9, 100.0, "within_5_percent", "right"),
        (100.0, 90.0, "within_10_percent", "same"),
        (100.0, 89.9, "within_10_percent", "left"),
        (100.04, 100.0, "equal_at_0.1", "same"),
        (100.06, 100.0, "equal_at_0.1", "left"),
    ],
)
def test_each_variant_of_the_same_kidney_at_its_bound(left, right, variant, label):
    rule = rule_for("kidney volume comparison")
    chosen = next(v for v in rule.variants if v.name == variant)
    assert conclude(rule, [left, right], chosen).label == label
