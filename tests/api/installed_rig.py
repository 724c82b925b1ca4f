# SPDX-License-Identifier: Apache-2.0
"""installed_rig.py - shared by the tests of `mote serve` without a model: a home directory with installed models.

The installed models are copies of one small file under several names, so that every name must give the same answer."""
import json
import os
import shutil
import tempfile
import time

from api_rig import FACT, PATIENCE, Server, post

FILE = "mote-tiny-Q4_K_M.gguf"
SMALL = ("--parallel", "2", "--kv-tokens", "1024")
NO_DIRECTORIES = {k: "" for k in ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME", "XDG_DATA_HOME",
                                  "XDG_CONFIG_HOME", "OLLAMA_MODELS", "LLAMA_CACHE")}


class Home:
    """A home directory with a directory of models."""

    def __init__(self, names):
        self.directory = tempfile.TemporaryDirectory(prefix="mote-home-")
        self.models = os.path.join(self.directory.name, "models")
        os.mkdir(self.models)
        for name in names:
            self.install(name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.directory.cleanup()

    def path(self, name):
        return os.path.join(self.models, name + ".gguf")

    def install(self, name, source=FILE):
        """Appears under its name at once, as after a download."""
        part = os.path.join(self.directory.name, "part")
        shutil.copyfile(os.path.join(os.environ["DATA"], source), part)
        os.rename(part, self.path(name))

    def serve(self, *flags, **more):
        env = {**NO_DIRECTORIES, "HOME": self.directory.name, "MOTE_MODELS": self.models, **more.pop("env", {})}
        return Server(*flags, model=None, env=env, **more)


def chat(model, **more):
    return {"model": model, "messages": [{"role": "user", "content": FACT}], "temperature": 0, "max_tokens": 16,
            "logprobs": True, "enable_thinking": False, **more}


def said(server, model):
    """Returns the text and the log-probabilities."""
    choice = post(server, "/v1/chat/completions", chat(model))["choices"][0]
    return choice["message"]["content"], json.dumps(choice["logprobs"])


def mapped(server):
    """Returns the names of the model files that the server has mapped."""
    with open(f"/proc/{server.process.pid}/maps", encoding="utf-8") as f:
        return sorted({os.path.basename(line.split()[-1])[:-5] for line in f if line.rstrip().endswith(".gguf")})


def loaded(server):
    return sorted(m["name"] for m in server.get("/api/ps")["models"])


def wait_until(what, condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def megabytes(n):
    return f"{n // 1000000}MB"


def plan_of_one():
    """Planned bytes of one model with SMALL."""
    home = Home(["only"])
    with home.serve(*SMALL, "--memory", "4GB") as server:
        said(server, "only")
        return int(server.metric("mote_models_memory_bytes"))
