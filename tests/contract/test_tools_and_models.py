"""What every tool and every model or agent keeps to; a new file is picked up without an edit."""

import json
from pathlib import Path

import numpy as np
import pytest

from napari_ctvqa.core.cases import Case, CaseFiles, GeometryReport, Mask, Source, Volume
from napari_ctvqa.core.geometry import Grid
from napari_ctvqa.core.ports import Tool
from napari_ctvqa.core.records import (
    AnswerFormat,
    Option,
    Prediction,
    Question,
    Reference,
    ToolResult,
    Turn,
)
from napari_ctvqa.core.regions import region_of
from napari_ctvqa.extensions import discover, models, tools
from napari_ctvqa.io.result_journal import ResultJournal
from napari_ctvqa.runners.batch import answer_one, result_row

GRID = Grid((6, 7, 8), np.diag([1.0, 1.0, 1.0, 1.0]))


def one_mask_case():
    hu = np.zeros(GRID.shape_zyx, np.int16)
    region = region_of(hu == 0, GRID)
    liver = Mask("liver", "liver", Source.REFERENCE, region, region)
    volume = Volume(hu, GRID, hu, GRID, GeometryReport(), Path("ct.nii.gz"), 0.0, 0.0)
    files = CaseFiles("case", Path("ct.nii.gz"))
    return Case(files, volume, {"liver": liver}, GeometryReport())


CASE = one_mask_case()
QUESTIONS = [
    Question("q", "case", "What is it?", Reference("")),
    Question("q", "case", "", Reference("Yes", "A"), (Option("A", "Yes"), Option("B", "No")),
             subtype="liver lesion existence"),
    Question("q", "case", "Volume?", Reference("x", "Z"), (Option("A", ""),),
             subtype="organ volume measurement", organ="liver"),
    Question("q", "case", "Bigger?", Reference(""), subtype="kidney volume comparison"),
]  # fmt: skip


def test_every_extension_could_be_loaded():
    assert discover("tools", "TOOL").unavailable == {}
    assert discover("models", "MODEL").unavailable == {}


@pytest.mark.parametrize("name", tools())
def test_a_tool_describes_itself(name):
    tool = tools()[name]
    assert isinstance(tool, Tool) and tool.name == name
    assert tool.primitive in ("segment", "measure", "lookup")
    assert tool.description
    schema = tool.parameters
    assert schema["type"] == "object"
    assert set(schema["required"]) <= set(schema["properties"])
    assert "image_id" not in schema["properties"], "the case is never the model's to name"
    json.dumps(schema)


@pytest.mark.parametrize("name", tools())
@pytest.mark.parametrize(
    "value", [None, 5, 2.5, True, [], {}, "", " ", "x" * 10**7, "\x00", "liver"]
)
def test_a_tool_answers_whatever_it_is_given_with_a_result(name, value):
    tool = tools()[name]
    keys = [*tool.parameters["properties"], "unexpected"]
    for arguments in (dict.fromkeys(keys, value), {"unexpected": value}, {}):
        result = tool(CASE, arguments)
        assert isinstance(result, ToolResult)
        assert len(json.dumps(result.content)) < 50_000


@pytest.mark.parametrize("name", models())
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("answer_format", AnswerFormat)
def test_a_model_yields_turns_and_last_one_prediction(name, question, answer_format):
    model = models()[name]
    assert all(isinstance(mask, str) for mask in model.wanted_masks(question))
    *turns, last = model.answer(question, CASE, answer_format)
    assert all(isinstance(turn, Turn) for turn in turns)
    assert isinstance(last, Prediction)
    assert (last.question_id, last.model) == ("q", name)
    assert last.trace.turns == tuple(turns)
    assert last.raw_text


@pytest.mark.parametrize("name", models())
@pytest.mark.parametrize("question", QUESTIONS)
def test_what_a_model_did_can_be_kept(name, question, tmp_path):
    prediction = answer_one(models()[name], question, CASE, AnswerFormat.MC)
    run = {"model": name, "answer_format": "mc", "kit": "", "benchmark": "b"}
    with ResultJournal(tmp_path / "r.json", run) as journal:
        journal.add(result_row(question, prediction))
        journal.finish({}, [])
    kept = json.loads((tmp_path / "r.json").read_text())["results"][0]
    assert kept["raw_output"] == prediction.raw_text
    assert len(kept["trajectory"]) >= 1
