"""Which option the beginning of an answer says, and how probable each of them is."""

import itertools
import math
import random

import pytest

from napari_ctvqa.runners import worker_odds
from napari_ctvqa.runners.worker_odds import (
    NOT_AT_ONCE,
    Beginnings,
    Child,
    place,
    spread,
)

LETTERS = {letter: (letter,) for letter in "ABCD"}
FOUR = {"A": ("A", "None"), "B": ("B", "Left"), "C": ("C", "Left kidney"), "D": ("D", "5.5")}
FEW = {"A": ("A", "None"), "B": ("B", "Left"), "C": ("C", "Left kidney"), "D": ("D", "5")}


def said(text, written=None, *, ended=True):
    return Beginnings(written or FOUR).read(text, ended=ended)


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        *((text, "A") for text in ("A", " A", "A.", "(A)", "**A**", "\nA\n", '"A"', "a.", "A: x")),
        *((text, "A") for text in ("A\nbecause", "A - None", "A) None", "[A]", "_A.", "A; B")),
        *((text, "A") for text in ("None", "none.", " NONE\n", "None, as it is")),
        *((text, "B") for text in ("B", "Left", "left.", "Left\n kidney", "'Left'")),
        *((text, "C") for text in ("Left kidney", "left  kidney.", "Left kidney, not the right")),
        *((text, "D") for text in ("5.5", "5.5.", "(5.5)", "5.5 ")),
    ],
)
def test_an_option_is_said(text, letter):
    assert said(text) == ("said", letter)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "E", "Abdomen", "A cyst is seen", "AB", "A_B", "A's", "A-scan", "Nonexistent"),
        *("Left side", "Left-sided", "Left kid", "Lefty", "5.53", "5.5-6", "5.5/2", "5", "55.5"),
        *("I think A", "The answer is A", "no", "A\ufffd"),
    ],
)
def test_no_option_is_said(text):
    assert said(text)[0] == "not"


@pytest.mark.parametrize(
    ("text", "state"),
    [("", "open"), (" (", "open"), ("A", "open"), ("A ", "open"), ("Le", "open"), ("Left ", "open"),
     ("Left.", "said"), ("Left k", "open"), ("5.5", "open"), ("5.5.", "open"), ("5.5)", "said"),
     ("A'", "open"), ("A' ", "said"), ("E", "not"), ("Ab", "not")],
)  # fmt: skip
def test_more_must_be_known_where_the_text_may_go_on(text, state):
    assert said(text, ended=False)[0] == state


def test_a_text_of_two_options_says_neither_but_a_letter_is_its_option_s():
    written = {"A": ("A", "B"), "B": ("B", "same"), "C": ("C", "same"), "D": ("D", "other")}
    assert said("B", written) == ("said", "B")
    assert said("same", written)[0] == "not"
    assert said("other", written) == ("said", "D")


# A model made of a table: what a sequence of tokens is worth is known exactly -----------------

TOKENS = ["A", " B", "(", ")", ".", "bdomen", "Le", "ft", " kidney", "5", "None", "**", "<end>"]
END = TOKENS.index("<end>")


class Table:
    """Next-token probabilities drawn at random for every path; after three tokens all ends."""

    def __init__(self, seed, depth=3):
        self.seed, self.depth, self.asked = seed, depth, []

    def row(self, path):
        if len(path) >= self.depth:
            return [float(i == END) for i in range(len(TOKENS))]
        draw = random.Random(f"{self.seed} {path}")
        weights = [draw.random() ** 2 + 0.01 for _ in TOKENS]
        return [weight / sum(weights) for weight in weights]

    def __call__(self, path):
        self.asked.append(path)
        return [Child(i, TOKENS[i], p, i == END) for i, p in enumerate(self.row(path))]


def every_answer(table, path=(), share=1.0, most=3):
    """Yield the text of every whole answer of few tokens with its probability."""
    for token, p in enumerate(table.row(path)):
        if token == END:
            yield "".join(TOKENS[i] for i in path), share * p
        elif len(path) < most:
            yield from every_answer(table, (*path, token), share * p, most)


@pytest.fixture
def all_followed(monkeypatch):
    monkeypatch.setattr(worker_odds, "LEAST", 0.0)
    monkeypatch.setattr(worker_odds, "MOST_LOOKS", 10**9)


@pytest.mark.parametrize("seed", range(4))
def test_masses_are_those_of_all_answers_counted_one_by_one(seed, all_followed):
    """The sum over every whole answer, by the text alone; no other tokenisation escapes it."""
    table = Table(seed)
    beginnings = Beginnings(FEW)
    counted = dict.fromkeys(FEW, 0.0)
    for text, share in every_answer(table):
        state, letter = beginnings.read(text, ended=True)
        if state == "said":
            counted[letter] += share
    made = spread(beginnings, table)
    assert {k: made.masses.get(k, 0.0) for k in FEW} == pytest.approx(counted, abs=1e-9)
    assert made.unfollowed == pytest.approx(0, abs=1e-9)
    assert all(mass > 0 for mass in counted.values())


@pytest.mark.parametrize("seed", range(4))
def test_what_is_not_followed_bounds_what_is_missed(seed, all_followed, monkeypatch):
    exact = spread(Beginnings(FEW), Table(seed))
    monkeypatch.setattr(worker_odds, "MOST_LOOKS", 5)
    rough = spread(Beginnings(FEW), Table(seed))
    assert rough.looks == 5 < exact.looks
    missed = {k: exact.masses[k] - rough.masses.get(k, 0.0) for k in FEW}
    assert all(-1e-9 <= one <= rough.unfollowed + 1e-9 for one in missed.values())
    assert 0 < sum(missed.values()) <= rough.unfollowed + 1e-9


def test_the_likeliest_beginning_is_followed_first_and_the_unlikely_never():
    rows = {
        (): [Child(0, "(", 0.5), Child(1, "A", 0.49995), Child(2, "B", 0.00005)],
        (0,): [Child(1, "A", 0.2), Child(2, "B", 0.8)],
        (0, 1): [Child(3, ")", 1.0)],
        (0, 2): [Child(3, ")", 1.0)],
        (1,): [Child(9, "", 1.0, True)],
    }
    asked = []
    made = spread(Beginnings(LETTERS), lambda path: asked.append(path) or rows[path])
    assert made.masses == pytest.approx({"A": 0.1 + 0.49995, "B": 0.4})
    assert made.unfollowed == pytest.approx(0.00005)
    assert asked == [(), (0,), (1,), (0, 2), (0, 1)]


def test_tokens_that_are_not_told_may_be_of_an_option():
    """A server tells a few tokens: the rest is bounded, never zero."""
    rows = {(): [Child(0, "A", 0.9), Child(1, "Le", 0.04)], (0,): None, (1,): None}
    made = spread(Beginnings(FEW), rows.__getitem__)
    assert made.masses == pytest.approx({"A": 0.9})
    assert made.unfollowed == pytest.approx(0.06 + 0.04)


ORDERS = list(itertools.permutations("ABCD"))


@pytest.mark.parametrize("order", ORDERS[:: len(ORDERS) // 6])
def test_letters_do_not_depend_on_the_order_of_the_options(order):
    table = Table(7)
    first = spread(Beginnings(FEW), table).masses
    shuffled = spread(Beginnings({k: FEW[k] for k in order}), table).masses
    assert shuffled == pytest.approx(first)


def test_texts_carry_their_mass_to_the_letter_that_they_have_now(all_followed):
    """With words alone as forms, moving a word to another letter moves its mass."""
    words = {"A": ("None",), "B": ("Left",), "C": ("Left kidney",), "D": ("5",)}
    moved = {"A": ("5",), "B": ("Left kidney",), "C": ("None",), "D": ("Left",)}
    before, after = (spread(Beginnings(w), Table(3)).masses for w in (words, moved))
    now = {"A": "D", "B": "C", "C": "A", "D": "B"}
    assert after == pytest.approx({letter: before[then] for letter, then in now.items()})
    assert len({round(mass, 9) for mass in before.values()}) == 4


@pytest.mark.parametrize(
    ("text", "lead"),
    [
        ("C", ""), ("(C)", ""), (" **C**", ""), ("The answer is C.", "The answer is"),
        ("Answer: (C)", "Answer:"), ("**Answer:** C", "**Answer:**"), ("\\boxed{C}", "\\boxed{"),
        ("So the correct option is C", "So the correct option is"), ("Option C", "Option"),
        ("<think>A? B?</think>\n\nC", "<think>A? B?</think>"),
        ("<unused94>thought A<unused95>C", "<unused94>thought A<unused95>"),
        ("A or C? Final Answer: C", "A or C? Final Answer:"), ("Left kidney.", ""),
    ],
)  # fmt: skip
def test_where_the_answer_begins(text, lead):
    found = place(text, Beginnings(FOUR))
    assert (text[: found.start], found.problem) == (lead, "")
    assert text[found.option] in "CL"
    assert not text[found.start : found.option].strip(" \n(*")


@pytest.mark.parametrize(
    "text", ["Slice 3 shows a cyst, so C.", "", "A cyst is seen, so C", "I cannot tell", "B's, C"]
)
def test_an_option_further_on_has_no_place(text):
    """What stands before it has decided it: its probability there would say nothing."""
    assert place(text, Beginnings(FOUR)).problem == NOT_AT_ONCE


@pytest.mark.parametrize("text", ["<think>A", "<unused94> C", "<think>A</think>B <think>C"])
def test_a_thought_that_never_ends_is_no_answer(text):
    assert "never ends" in place(text, Beginnings(FOUR)).problem


def test_a_thought_that_the_prompt_opened_must_end():
    assert "never ends" in place("A", Beginnings(FOUR), opened=True).problem
    assert place("hm</think>A", Beginnings(FOUR), opened=True).option == len("hm</think>")


def test_masses_add_up_to_one_at_most():
    made = spread(Beginnings(FOUR), Table(11))
    assert 0 < sum(made.masses.values()) + made.unfollowed <= 1 + 1e-9
    assert math.isfinite(made.unfollowed)
