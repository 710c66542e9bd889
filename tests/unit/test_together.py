"""Questions in threads: how many at once, what waits, and what ends them."""

import threading
import time

import pytest

from napari_ctvqa.runners.together import Together


def works(count, say):
    for number in range(count):
        yield lambda number=number: say(number)


def once(number):
    yield number, f"answer {number}"


def test_everything_that_is_said_comes_out_once():
    said = [item for item in Together(3, lambda: None).run(works(50, once)) if item is not None]
    assert sorted(said) == [(n, f"answer {n}") for n in range(50)]


def test_no_more_are_asked_than_can_be_kept():
    asked = []

    def say(number):
        asked.append(number)
        yield number, "answer"

    running = Together(2, lambda: None).run(works(50, say))
    next(running)
    deadline = time.monotonic() + 0.5
    while time.monotonic() < deadline and len(asked) <= 5:
        time.sleep(0.01)
    assert len(asked) <= 5, "one was taken, four wait"
    running.close()


def test_an_error_of_one_ends_all_and_is_raised():
    stopped = threading.Event()

    def say(number):
        if number == 3:
            raise ZeroDivisionError
        stopped.wait(20)
        yield number, "late"

    together = Together(4, stopped.set)
    with pytest.raises(ZeroDivisionError):
        list(together.run(works(4, say)))
    assert stopped.is_set()
    assert {item for _, item in together.rest()} == {"late"}


def test_an_error_while_taking_the_next_is_raised_after_what_was_said():
    def some():
        yield from works(2, once)
        raise KeyError("no more")

    said = []
    with pytest.raises(KeyError):
        for item in Together(2, lambda: None).run(some()):
            said.append(item)
    assert {item for item in said if item} <= {(0, "answer 0"), (1, "answer 1")}
