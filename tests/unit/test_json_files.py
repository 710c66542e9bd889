"""Reading JSON, lines and tables that others wrote."""

import json
import sys

import pytest

from napari_ctvqa.core.errors import InputFileError
from napari_ctvqa.io.json_files import (
    head_text,
    is_file,
    read_csv,
    read_json,
    read_json_lines,
    read_text,
)


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_text_is_read_in_any_unicode_encoding(tmp_path, encoding):
    path = write(tmp_path / "x.json", '{"a": "ü cm³"}\r\n'.encode(encoding))
    assert read_json(path) == {"a": "ü cm³"}
    assert head_text(path).strip("\ufeff").startswith('{"a": "ü')


def test_other_encodings_name_the_line(tmp_path):
    path = write(tmp_path / "x.csv", "a,b\n1,2\n3,ü\n".encode("latin-1"))
    with pytest.raises(InputFileError, match="line 3"):
        read_text(path)


def test_broken_json_names_line_and_column(tmp_path):
    path = write(tmp_path / "x.json", '{\n "a": 1,\n "b": oops\n}')
    with pytest.raises(InputFileError) as caught:
        read_json(path)
    assert "line 3, column 7" in caught.value.message
    assert str(path) in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[" * 5000 + "]" * 5000])
def test_deep_nesting_is_a_sentence(tmp_path, text):
    with pytest.raises(InputFileError, match=r"nested too deeply|broken JSON"):
        read_json(write(tmp_path / "x.json", text))


def test_an_endless_number_is_a_sentence(tmp_path):
    path = write(tmp_path / "x.json", "[" + "9" * 10_000 + "]")
    if sys.get_int_max_str_digits():
        with pytest.raises(InputFileError, match="cannot be read"):
            read_json(path)


def test_empty_and_absent_files_are_sentences(tmp_path):
    with pytest.raises(InputFileError, match="is empty"):
        read_json(write(tmp_path / "x.json", "  \n"))
    with pytest.raises(InputFileError, match="no such file"):
        read_json(tmp_path / "gone.json")
    with pytest.raises(InputFileError, match="no such file"):
        read_json(tmp_path)


def test_large_files_are_refused_by_size(tmp_path):
    path = write(tmp_path / "x.json", "1" * 100)
    with pytest.raises(InputFileError, match="more than"):
        read_text(path, max_bytes=99)


def test_names_that_no_file_can_have_are_no_file(tmp_path):
    assert not is_file(tmp_path / ("x" * 5000))
    assert not is_file(tmp_path / "a\x00b")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert not is_file(loop)
    assert head_text(loop) == ""


def test_lines_that_are_no_objects_are_problems(tmp_path):
    path = write(tmp_path / "x.jsonl", '{"a": 1}\n\n[1]\n{"a": \n7\n{"a": 2} x\n{"a": 3}')
    rows = read_json_lines(path)
    assert [(row.line, row.values) for row in rows.rows] == [(1, {"a": 1}), (7, {"a": 3})]
    assert [p.partition(": ")[2].split()[0] for p in rows.problems] == ["line", "broken", "line",
                                                                        "broken"]  # fmt: skip
    for number, problem in zip((3, 4, 5, 6), rows.problems, strict=True):
        assert f"line {number}" in problem


def test_a_file_of_broken_lines_is_an_error(tmp_path):
    with pytest.raises(InputFileError, match="line 1"):
        read_json_lines(write(tmp_path / "x.jsonl", "x\ny\n"))


def test_line_separators_inside_a_text_end_no_line(tmp_path):
    text = json.dumps({"a": "x\u2028y\x85z"}, ensure_ascii=False)
    rows = read_json_lines(write(tmp_path / "x.jsonl", text + "\n" + text))
    assert [row.values["a"] for row in rows.rows] == ["x\u2028y\x85z"] * 2


def test_a_deep_line_costs_itself_only(tmp_path):
    path = write(tmp_path / "x.jsonl", '{"a": 1}\n{"a": ' + "[" * 100_000 + "\n")
    rows = read_json_lines(path)
    assert len(rows.rows) == 1
    assert "line 2" in rows.problems[0]


def test_a_ten_megabyte_line_is_read(tmp_path):
    path = write(tmp_path / "x.jsonl", json.dumps({"a": "x" * 10_000_000}) + '\n{"a": "y"}\n')
    assert [len(row.values["a"]) for row in read_json_lines(path).rows] == [10_000_000, 1]


def test_a_table_keeps_texts_and_lines(tmp_path):
    path = write(tmp_path / "x.csv", 'a,b\n1,"x\ny"\n\n2\n3,z,\n')
    rows = read_csv(path)
    assert [(row.line, row.values) for row in rows.rows] == [
        (2, {"a": "1", "b": "x\ny"}), (5, {"a": "2"}), (6, {"a": "3", "b": "z"}),
    ]  # fmt: skip
    assert rows.problems == ()


def test_a_cell_beyond_the_limit_costs_its_row_only(tmp_path):
    path = write(tmp_path / "x.csv", "a,b\n1," + "x" * 200_000 + "\n2,y\n")
    rows = read_csv(path)
    assert [row.values for row in rows.rows] == [{"a": "2", "b": "y"}]
    assert "line 2" in rows.problems[0]


def test_quotes_everywhere_end_in_time(tmp_path):
    path = write(tmp_path / "x.csv", "a,b\n" + '1,"x"y\n' * 5000)
    problems = read_csv(path).problems
    assert len(problems) <= 202
    assert "reading stops" in problems[-1]


def test_an_empty_table_is_an_error(tmp_path):
    with pytest.raises(InputFileError, match="header line"):
        read_csv(write(tmp_path / "x.csv", "\n\n"))
