"""What a model saw on another machine: moved whole, or what is left out of it is said."""

import numpy as np
import pytest

from napari_ctvqa.core.asking import Ask, Message, Picture, Prepared
from napari_ctvqa.core.cases import Mask, Source
from napari_ctvqa.core.events import Done, Outlined, Sent
from napari_ctvqa.core.geometry import Grid
from napari_ctvqa.core.regions import region_of
from napari_ctvqa.io.mask_files import MASKS
from napari_ctvqa.io.seen_files import folder_name, has_seen, kept_masks, read_seen, seen_folder
from napari_ctvqa.io.seen_moving import packed, unpacked
from napari_ctvqa.io.seen_writing import SeenFiles

GRID = Grid((12, 20, 24), np.eye(4))


def picture(seed):
    pixels = np.random.default_rng(seed).integers(0, 256, (40, 30, 3), np.uint8)
    return Picture(pixels, f"SLICE {seed}", None, (), "slice")


def keep(files, question_id, *pictures):
    inside = np.random.default_rng(7).random(GRID.shape_zyx) < 0.5
    region = region_of(inside, GRID)
    answer = files.answer(question_id, "m")
    answer.take(Sent(Prepared(Ask((Message("user", (*pictures, "Where?")),)))))
    answer.take(Outlined(Mask("M3D: liver", "liver", Source.PREDICTED, region, region)))
    answer.take(Done("Here."))
    assert files.keep(answer) == ""


@pytest.fixture
def there(tmp_path):
    """What a worker has of two questions that share a picture; a third one has none."""
    files = SeenFiles(tmp_path / "there" / "r.json")
    keep(files, "q1", picture(1), picture(2))
    keep(files, "q2", picture(2), picture(3))
    keep(files, "q3")
    return files.folder


def sizes(moved):
    """Return how many bytes the requests and events, the masks and the pictures are."""
    kinds = (("ask.json", "events.jsonl"), (MASKS,), (".png",))
    return [sum(len(moved[name]) for name in moved if name.endswith(kind)) for kind in kinds]


def files_in(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def shown(results, question_id):
    parts = read_seen(results, question_id).requests[0].prepared.ask.messages[0].parts
    return [part if isinstance(part, str) else part.label for part in parts]


def test_all_that_was_seen_and_outlined_lies_there_as_it_lay_here(there, tmp_path):
    results = tmp_path / "here" / "r.json"
    assert unpacked(packed(there), ["q1", "q2", "q3"], SeenFiles(results)) == {}
    assert files_in(seen_folder(results)) == files_in(there)
    (mask,) = kept_masks(results, "q3", GRID)
    assert mask.name == "M3D: liver"


def test_only_the_questions_that_were_asked_are_put_on_disk(there, tmp_path):
    results = tmp_path / "here" / "r.json"
    assert unpacked(packed(there), ["q2", "q9"], SeenFiles(results)) == {}
    assert [has_seen(results, key) for key in ("q1", "q2", "q3", "q9")] == [0, 1, 0, 0]


def test_pictures_that_are_too_much_are_left_out_and_said_of_their_questions_alone(there, tmp_path):
    words, masks, pictures = sizes(packed(there))
    moved = packed(there, words + masks + pictures * 2 // 5)
    assert sum(content is None for content in moved.values()) == 2
    results = tmp_path / "here" / "r.json"
    notes = unpacked(moved, ["q1", "q2", "q3"], SeenFiles(results))
    assert set(notes) <= {"q1", "q2"} and set(notes.values()) == {"not all pictures could be kept"}
    lacking = {key for key in ("q1", "q2") if any("not kept" in s for s in shown(results, key))}
    assert lacking == set(notes) and shown(results, "q3") == ["Where?"]


def test_masks_that_are_too_much_are_said_and_the_rest_is_kept(there, tmp_path):
    words, _, _ = sizes(packed(there))
    moved = packed(there, words)
    results = tmp_path / "here" / "r.json"
    notes = unpacked(moved, ["q1", "q3"], SeenFiles(results))
    said = "what the model outlined could not be kept (too much for a worker to send: 256 MiB"
    assert notes["q3"].startswith(said) and kept_masks(results, "q3", GRID) == ()
    assert notes["q1"].startswith(said) and notes["q1"].endswith("not all pictures could be kept")
    assert shown(results, "q3") == ["Where?"]


def test_an_answer_of_which_nothing_could_be_sent_says_so(there, tmp_path):
    results = tmp_path / "here" / "r.json"
    notes = unpacked(packed(there, 10), ["q1"], SeenFiles(results))
    assert notes["q1"].startswith("what the model saw could not be kept (too much")
    assert not has_seen(results, "q1")


def test_no_file_is_put_where_it_is_not_expected(there, tmp_path):
    moved = {
        **packed(there),
        "pictures/../../../evil.png": b"x",
        "../evil.json": b"x",
        f"{folder_name('q1')}/evil.sh": b"x",
    }
    results = tmp_path / "here" / "r.json"
    unpacked(moved, ["q1"], SeenFiles(results))
    assert not list(tmp_path.rglob("*evil*"))


def test_without_pictures_none_are_missed(tmp_path):
    files = SeenFiles(tmp_path / "there" / "r.json", pictures=False)
    keep(files, "q1", picture(1))
    results = tmp_path / "here" / "r.json"
    assert unpacked(packed(files.folder), ["q1"], SeenFiles(results, pictures=False)) == {}
    assert "not kept" in shown(results, "q1")[0]
