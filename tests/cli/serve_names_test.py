# SPDX-License-Identifier: Apache-2.0
"""serve_names_test.py - names of models that a user gives to `mote serve`: aliases of `mote cp`, as arguments and in
requests, and what `mote env` prints for a server that was started without a model.

usage: MOTE=program DATA=models serve_names_test.py
"""
import contextlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

MOTE, DATA = os.environ["MOTE"], pathlib.Path(os.environ["DATA"])
TIMEOUT = 600
KEY = "a-key"
KEY_HEADER = {"Authorization": "Bearer " + KEY}
failures = 0


def check(what, got, wanted):
    global failures
    if got != wanted:
        failures += 1
        print(f"{what}: {got!r}, not {wanted!r}")


def wait_for(what, get, wanted):
    """The catalog is read at most once per second: asks until the answer is there."""
    got = None
    for _ in range(600):
        got = get()
        if got == wanted:
            return
        subprocess.run(["sleep", "0.1"], check=True)
    check(what, got, wanted)


class Home:
    """A home directory with models in the directory of MOTE_MODELS."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.models = self.root / "models"
        self.models.mkdir()
        kept = {k: v for k, v in os.environ.items() if k.startswith(("ASAN_", "UBSAN_", "TSAN_"))}
        self.env = dict(kept, HOME=str(root), PATH="/usr/bin:/bin", LC_ALL="C.UTF-8", MOTE_MODELS=str(self.models))

    def add(self, name, file="mote-tiny-Q4_K_M.gguf"):
        shutil.copy(DATA / file, self.models / (name + ".gguf"))

    def mote(self, *words):
        done = subprocess.run([MOTE, *words], env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=TIMEOUT, check=False)
        if done.returncode != 0:
            sys.exit(f"mote {words}: {done.returncode}: {done.stderr}")
        return done

    @contextlib.contextmanager
    def serve(self, *words):
        """A server on a free port; yields its address, HOST:PORT."""
        argv = [MOTE, "serve", *words, "--listen", "127.0.0.1:0", "--context", "2048", "--kv-tokens", "4096"]
        with subprocess.Popen(argv, env=self.env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            log = ""
            for line in process.stderr:
                log += line
                found = re.match(r"listening on \w+://(\S+)", line)
                if found:
                    break
            else:
                sys.exit(f"mote serve {words}: {log}")
            try:
                yield found[1]
            finally:
                process.terminate()
                process.stderr.read()


def post(url, body, headers=(), method="POST"):
    """(status, document)"""
    request = urllib.request.Request(url, json.dumps(body).encode(), dict(headers, **{"Content-Type": "application/json"}),
                                     method=method)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def chat(url, model, headers=(), path="/v1/chat/completions"):
    return post(url + path, {"model": model, "max_tokens": 1, "messages": [{"role": "user", "content": "Hi"}]}, headers)


# ---- what mote env prints ----

def printed(home, client, address):
    """(base URL, key, model) of the settings for a client."""
    text = home.mote("env", client, "--host", address).stdout
    if client == "claude":
        values = dict(line.split("=", 1) for word in text.splitlines() for line in shlex.split(word)[1:])
        check("the small model of claude", values["ANTHROPIC_DEFAULT_HAIKU_MODEL"], values["ANTHROPIC_MODEL"])
        return values["ANTHROPIC_BASE_URL"], values["ANTHROPIC_AUTH_TOKEN"], values["ANTHROPIC_MODEL"]
    find = {"codex": (r'base_url = "(.*)"', r'^model = "(.*)"'),
            "opencode": (r'"baseURL": "(.*?)"', r'"model": "mote/(.*)"'),
            "cline": (r"Base URL: (.*)", r"Model ID: (.*)"),
            "continue": (r'apiBase: "(.*)"', r'    model: "(.*)"')}[client]
    url, model = (re.search(r, text, re.M)[1] for r in find)
    return url.removesuffix("/v1"), KEY, model


def clients(home, address, model):
    for client in ("claude", "codex", "opencode", "cline", "continue"):
        url, key, name = printed(home, client, address)
        check(f"the model of mote env {client}", name, model)
        path = "/v1/messages" if client == "claude" else "/v1/chat/completions"
        status, reply = chat(url, name, {"Authorization": "Bearer " + key}, path)
        check(f"a request of {client}", (status, reply.get("model")), (200, model))


def env_of_a_server_without_model():
    with tempfile.TemporaryDirectory() as root:
        home = Home(root)
        home.env["MOTE_API_KEY"] = KEY
        home.add("one")
        os.utime(home.models / "one.gguf", (1, 1))
        command = home.mote("env", "claude", "--json").stdout
        check("the recommended command", json.loads(command)["serve"], "mote serve --context 65536 --kv-tokens 98304")
        with home.serve() as address:
            clients(home, address, "one")
            home.add("two")  # the newest one, as for mote chat
            check("the model of mote env", printed(home, "claude", address)[2], "two")
            wait_for("a new model", lambda: chat("http://" + address, "two", KEY_HEADER)[1].get("model"), "two")
            check("a model of another machine", "MODEL" in home.mote("env", "claude", "--host", "10.0.0.1:1").stdout, False)
            # Ollama's delete names the command.
            status, reply = post("http://" + address + "/api/delete", {"model": "one"}, KEY_HEADER, "DELETE")
            check("delete", (status, "mote rm one" in reply["error"]), (403, True))


# ---- aliases ----

def aliases_in_requests():
    with tempfile.TemporaryDirectory() as root:
        home = Home(root)
        home.add("one")
        home.add("two", "mote-tiny-Q8_0.gguf")
        home.mote("cp", "one", "early")
        home.mote("cp", str(home.models / "two.gguf"), "by-path")
        home.mote("cp", "one:think", "thinker")
        with home.serve() as address:
            def model_of(name):
                status, reply = chat("http://" + address, name)
                return reply.get("model") if status == 200 else status

            check("an alias", model_of("early"), "one")
            check("an alias in capitals", model_of("Early"), "one")
            check("an alias of a path", model_of("by-path"), "two")
            check("an unknown name", model_of("late"), 404)
            home.mote("cp", "two", "late")
            wait_for("an alias made later", lambda: model_of("late"), "two")
            home.mote("cp", "one", "late")
            wait_for("an alias of another model", lambda: model_of("late"), "one")
            home.mote("rm", "late")
            wait_for("a removed alias", lambda: model_of("late"), 404)
            for name, thinks in (("early", False), ("thinker", True), ("thinker:nothink", False), ("early:think", True)):
                body = {"model": name, "max_tokens": 1, "messages": [{"role": "user", "content": "Hi"}]}
                _, reply = post("http://" + address + "/v1/chat/completions", body)
                check(f"thinking of {name}", "/thinking/" in reply["mote"]["preset"], thinks)
            status, reply = post("http://" + address + "/api/show", {"model": "early"})
            check("Ollama's show", status, 200)


def aliases_as_arguments():
    with tempfile.TemporaryDirectory() as root:
        home = Home(root)
        home.add("one")
        home.add("two", "mote-tiny-Q8_0.gguf")
        home.mote("cp", "two", "second", "--max-tokens", "1")
        with home.serve("one", "second") as address:
            for name, model in (("second", "second"), ("one", "one"), ("nothing", "one")):
                status, reply = chat("http://" + address, name)
                check(f"a request for {name}", (status, reply.get("model")), (200, model))


env_of_a_server_without_model()
aliases_in_requests()
aliases_as_arguments()
sys.exit(1 if failures else 0)
