"""An engine for the real worker process: does what the question says, without a model.

Reads nothing but the standard library, as the worker does.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path


def say(text, talk):
    talk.event("tokens", text=text)


class Engine:
    def __init__(self, failure):
        self.failure = failure
        self.freed = 0

    def facts(self):
        return {"freed": self.freed}

    def estimate(self, wish):
        return {"needed_bytes": 1, "free_bytes": 2, "device": "cpu", "dtype": "float32"}

    def load(self, wish, talk):
        talk.status("Loading the weights", 0.5)
        what = Path(wish["folder"]).name
        if what == "slow":
            time.sleep(1.5)
        elif what == "hanging":
            time.sleep(3600)
        elif what == "bad":
            raise self.failure("bad_model", "No config.json there.", "Choose a model folder.")
        elif what == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        elif what == "torchless":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
        elif what == "visionless":
            raise ImportError(
                "Qwen3VLVideoProcessor requires the Torchvision library but it was not found in "
                "your environment."
            )
        return {"device": "cpu", "wish": wish}

    def free(self):
        self.freed += 1

    def ask(self, request, talk):
        words = request["messages"][-1]["parts"][0]["text"].split(" ", 1)
        result = getattr(self, words[0])(words[1] if words[1:] else "", request, talk)
        return {"reason": "stop", **(result or {"text": ""})}

    def echo(self, text, request, talk):
        say(text, talk)
        return {"text": text}

    def odds(self, text, request, talk):
        """Tell these odds, a JSON text, beside an answer."""
        return {"text": json.dumps(request["written"]), "odds": json.loads(text)}

    def request(self, text, request, talk):
        return {"text": json.dumps(request)}

    def environment(self, name, request, talk):
        return {"text": os.environ.get(name, "(unset)")}

    def path(self, text, request, talk):
        return {"text": json.dumps(sys.path)}

    def files(self, text, request, talk):
        return {
            "text": json.dumps(sorted(path.name for path in Path(request["pictures"]).iterdir()))
        }

    def words(self, count, request, talk):
        """Speak word by word until done or cancelled."""
        text = ""
        for number in range(int(count)):
            if talk.cancelled.is_set():
                return {"text": text, "reason": "cancelled"}
            say(f"{number} ", talk)
            text += f"{number} "
            time.sleep(0.01)
        return {"text": text}

    def long(self, size, request, talk):
        text = "x" * int(size)
        say(text, talk)
        return {"text": text}

    def abort(self, text, request, talk):
        say("before the end ", talk)
        sys.stderr.write("a library's last words\n")
        os.abort()

    def killed(self, text, request, talk):
        say("before the end ", talk)
        os.kill(os.getpid(), signal.SIGKILL)

    def exit(self, text, request, talk):
        os._exit(3)

    def hang(self, text, request, talk):
        say("before the end ", talk)
        time.sleep(3600)

    def stubborn(self, text, request, talk):
        """Hang, and do not hear a request to end either."""
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        self.hang(text, request, talk)

    def memory(self, text, request, talk):
        say("before the end ", talk)
        raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: not enough memory")

    def card(self, text, request, talk):
        raise RuntimeError("CUDA error: device-side assert triggered")

    def broken(self, text, request, talk):
        raise KeyError("pixel_values")

    def garbage(self, text, request, talk):
        talk._channel._connection.sendall(b"\x00\xff not JSON\n")
        time.sleep(3600)

    def malformed(self, text, request, talk):
        """Say what no engine of ours says."""
        for content in (
            {"event": "status", "fraction": "half"},
            {"event": "status", "text": ["a"], "fraction": float("nan")},
            {"event": "usage", "prompt_tokens": "many", "seconds": {}},
            {"event": "tokens"},
            {"event": 5},
            {},
        ):
            talk._channel.send({"id": talk.id, **content})
        return {"text": 7, "reason": None}

    def printing(self, text, request, talk):
        os.write(1, b"printed by a library\n")
        return {"text": "still fine"}
