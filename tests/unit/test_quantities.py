"""Amounts in other units, and where ranges begin and end."""

import pytest

from napari_ctvqa.core.quantities import choose, quantity_in, value_in
from napari_ctvqa.core.records import Option


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("12.5", "cm³", 12.5),
        ("9000 mm³", "cm³", 9.0),  # a thousand to one
        ("0.5 l", "cm³", 500.0),
        ("12.5 ml", "cm³", 12.5),
        ("31 mm", "cm", 3.1),
        ("3.1 cm", "mm", 31.0),
        ("3 cm³", "cm", None),  # another kind
        ("-12 HU", "HU", -12.0),
        ("2 to 3 cm", "cm", None),  # no one number
    ],
)
def test_an_amount_is_converted_exactly(text, unit, value):
    assert value_in(text, unit) == value


def test_ends_of_a_range_and_of_a_bound_are_converted_too():
    found = quantity_in("20 to 30 mm", "cm")
    assert (found.low, found.high) == (2.0, 3.0)
    assert quantity_in("over 20 mm", "cm").low == 2.0
    assert quantity_in("up to 2 l", "cm³").high == 2000.0


@pytest.mark.parametrize(
    ("value", "letter"), [(4.9, "A"), (5.0, "B"), (9.9, "B"), (10.0, "C"), (10.1, "C")]
)
def test_a_range_holds_its_lower_end(value, letter):
    options = (Option("A", "0-5 cm"), Option("B", "5-10 cm"), Option("C", "over 10 cm"))
    if value == 10.0:
        options = (*options[:2], Option("C", "10 cm or more"))
    assert choose(value, f"{value} cm", "cm", options, 0.1).letter == letter


def test_an_option_far_away_is_not_taken():
    options = (Option("A", "10 cm"), Option("B", "100 cm"))
    assert choose(11.0, "11 cm", "cm", options, 0.1).letter == "A"
    assert "none of the options is near" in choose(20.0, "20 cm", "cm", options, 0.1).problem
