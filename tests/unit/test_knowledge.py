import re

from napari_ctvqa.core.knowledge import Entry, entries, entry_named, near, score, search
from napari_ctvqa.core.rules import rule_for, supported


def test_there_are_27_facts_each_with_source_and_keywords():
    assert len(entries()) == 27
    assert len({entry.topic for entry in entries()}) == 27
    assert all(entry.text and entry.source and entry.keywords for entry in entries())


def test_keywords_can_match_a_lower_cased_query():
    for entry in entries():
        assert all(keyword == keyword.lower() for keyword in entry.keywords), entry.topic


def test_a_keyword_counts_as_substring_and_again_as_word():
    entry = Entry("t", "", ("spleen", "HU"), "")
    assert score(entry, "SPLEEN size") == 2
    assert score(entry, "spleens") == 1
    assert score(entry, "HU") == 0, "a keyword with capitals never matches"


def test_the_second_best_comes_along_from_half_the_score():
    found = search("kidney volume")
    assert found[0].topic == "kidney volume"
    assert len(search("bosniak")) <= 2
    assert search("cricket") == ()
    best = score(near("kidney volume")[0], "kidney volume")
    assert all(2 * score(e, "kidney volume") >= best for e in near("kidney volume"))


def test_the_queries_of_the_rules_find_the_fact_they_use():
    for subtype in supported():
        rule = rule_for(subtype)
        if rule.query:
            assert rule.knowledge in [entry.topic for entry in near(rule.query)]


def test_the_rules_and_the_facts_give_the_same_thresholds():
    def numbers(text):
        return {float(n) for n in re.findall(r"\d+(?:\.\d+)?", text)}

    detection = rule_for("splenomegaly detection").default.parameters["threshold"]
    assert detection in numbers(entry_named("splenomegaly detection").text)
    bands = rule_for("splenomegaly grading").default.parameters["bands"]
    edges = {b.get("below", b.get("up_to")) for b in bands} - {None}
    assert edges == {314.5, 500.0, 800.0}
    assert edges <= numbers(entry_named("splenomegaly grade").text)
