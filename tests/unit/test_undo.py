import pytest

from napari_ctvqa.core.undo import MOST_STEPS, UndoStack, UndoStep


@pytest.fixture
def room():
    """A stack over one number that each step sets."""
    stack, state = UndoStack(), [0]

    def go(value):
        before = state[0]
        state[0] = value
        stack.push(
            UndoStep(
                f"to {value}",
                lambda: state.__setitem__(0, before),
                lambda: state.__setitem__(0, value),
            )
        )

    return stack, state, go


def test_steps_are_taken_back_and_done_again_in_order(room):
    stack, state, go = room
    go(1)
    go(2)
    assert [stack.undo(), state[0], stack.undo(), state[0], stack.undo()] == [
        *("to 2", 1),
        *("to 1", 0),
        "",
    ]
    assert [stack.redo(), state[0], stack.redo(), state[0], stack.redo()] == [
        *("to 1", 1),
        *("to 2", 2),
        "",
    ]


def test_something_new_forgets_what_was_taken_back(room):
    stack, state, go = room
    go(1)
    stack.undo()
    go(5)
    assert (stack.redo(), state[0]) == ("", 5)
    assert (stack.undo(), state[0]) == ("to 5", 0)


def test_a_step_that_fails_is_not_lost():
    stack, works = UndoStack(), []

    def undo():
        if not works:
            raise OSError("disk full")

    stack.push(UndoStep("delete", undo, lambda: None))
    with pytest.raises(OSError, match="disk full"):
        stack.undo()
    works.append(True)
    assert stack.undo() == "delete"


def test_the_oldest_steps_are_forgotten_first(room):
    stack, state, go = room
    for value in range(1, MOST_STEPS + 11):
        go(value)
    while stack.undo():
        pass
    assert state[0] == 10


def test_clear_forgets_everything(room):
    stack, _, go = room
    go(1)
    stack.clear()
    assert (stack.undo(), stack.redo()) == ("", "")
