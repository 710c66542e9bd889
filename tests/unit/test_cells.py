import csv
import io

import pytest

from napari_ctvqa.core.cells import safe_cell, tab_separated
from napari_ctvqa.io.check_table import csv_text


@pytest.mark.parametrize(
    "text",
    ["=1+1", "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", " =1", '=HYPERLINK("x")'],
)
def test_what_a_spreadsheet_would_calculate_gets_an_apostrophe(text):
    assert safe_cell(text) == f"'{text}"


@pytest.mark.parametrize(
    "text", ["-12.5", "-12.5 HU", "+3", "-1,024 HU", "4.0 cm³", "a=b", "", "No"]
)
def test_numbers_and_other_texts_stay(text):
    assert safe_cell(text) == text


def test_a_table_for_the_clipboard_keeps_its_shape():
    assert tab_separated([["a", "b"], ["x\ty", "1\n2"]]) == "a\tb\nx y\t1 2"


def test_a_csv_reads_back_with_lists_objects_and_line_breaks():
    record = {"a": ["x", "y"], "b": {"rule": "agrees"}, "c": 'q"\n,', "d": None, "e": "\ud800"}
    text = csv_text([record], list(record))
    (row,) = csv.DictReader(io.StringIO(text))
    assert row == {"a": "x; y", "b": '{"rule": "agrees"}', "c": 'q"\n,', "d": "", "e": "\ud800"}
