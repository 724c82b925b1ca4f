# SPDX-License-Identifier: Apache-2.0
"""readme_test.py - the commands of README.md work, from "First answer" on.

Every line of a block ```sh runs in a directory with the files that the page names: models, images, texts. The model is
mote-tiny-vision; it is also installed as qwen3.5:4b. `mote serve` runs until the next server or the end of its block.
A command must end with 0. `mote eval --min` may end with 1, because the model is tiny, and `mote doctor`, because it
may find a fault of this machine.
Not run: commands that need a terminal, and two that measure for a minute and have tests of their own.

Environment: MOTE is the program, DATA the directory of test models.
"""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/convert"), str(ROOT / "tools")]
import checkpoint  # noqa: E402

MOTE, DATA = os.path.abspath(os.environ["MOTE"]), Path(os.environ["DATA"]).resolve()
MODEL, MMPROJ = (DATA / "mote-tiny-vision" / name for name in ("mote-tiny-vision-Q4_K_M.gguf",
                                                               "mmproj-mote-tiny-vision-BF16.gguf"))
PATIENCE = 300
NOT_RUN = ("mote run qwen3.5:4b", "mote top", "mote fit", "mote quantize model-BF16.gguf model.gguf balanced")


def blocks_of(page):
    """Lists of commands: the lines of each sh block after the heading, without comments."""
    text = page[page.index("## First answer"):]
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.S | re.M):
        yield [re.sub(r"\s+# .*", "", line) for line in re.sub(r"\\\n", " ", block).splitlines() if line.strip()]


def fill(work):
    """The files that the page names."""
    for name in ("model.gguf", "a.gguf", "b.gguf"):
        shutil.copy(MODEL, work / name)
    shutil.copy(MMPROJ, work / "mmproj-F16.gguf")
    snapshot = work / "home/.cache/huggingface/hub/models--unsloth--Qwen3.5-4B-GGUF/snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    shutil.copy(MODEL, snapshot / "Qwen3.5-4B-Q4_K_M.gguf")
    shutil.copy(MMPROJ, snapshot / "mmproj-F16.gguf")
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs/main").write_text("0" * 40, encoding="ascii")
    checkpoint.make(work / "Qwen3.5-4B", DATA / "mote-tiny-BF16.gguf")
    (work / "build").mkdir()
    (work / "build/release").symlink_to(os.path.dirname(MOTE))
    image = (DATA / "golden/vision/images/scene_320x240.jpg").read_bytes()
    (work / "photo.jpg").write_bytes(image)
    (work / "clip.avi").write_bytes(image * 4)  # the contents decide about the format: MJPEG
    text = (DATA / "golden/quality/heldout.txt").read_text(encoding="utf-8")
    for name in ("letter.txt", "text.txt", "wiki.test.raw", "book.txt"):
        (work / name).write_text(text[:500 if name == "letter.txt" else 6000], encoding="utf-8")
    person = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}}, "required": ["name"]}
    (work / "person.json").write_text(json.dumps(person), encoding="utf-8")
    tool = {"type": "function", "function": {"name": "get_weather", "description": "Get the weather of a city", "parameters":
            {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}}, "required": ["city"]}}}
    (work / "tools.json").write_text(json.dumps([tool]), encoding="utf-8")
    (work / "requests.jsonl").write_text(json.dumps({"messages": [{"role": "user", "content": "Hello!"}]}) + "\n",
                                         encoding="utf-8")
    shutil.copy(ROOT / "tests/cli/eval_tasks.jsonl", work / "tasks.jsonl")


class Server:
    """The server that the other commands of a block talk to."""

    def __init__(self):
        self.process = None

    def start(self, command, work, env):
        self.stop()
        log = work / "server.log"
        with log.open("w") as out:
            self.process = subprocess.Popen(["bash", "-c", "exec " + command], cwd=work, env=env, stdout=out,
                                            stderr=subprocess.STDOUT)
        while "listening on" not in log.read_text(encoding="utf-8"):
            assert self.process.poll() is None, f"{command}\n{log.read_text(encoding='utf-8')}"
            time.sleep(0.05)
        body = json.dumps({"messages": [{"role": "user", "content": "Hello!"}]}).encode()  # for mote why
        urllib.request.urlopen(urllib.request.Request(
            "http://127.0.0.1:" + env["MOTE_HOST"].split(":")[1] + "/v1/chat/completions", data=body,
            headers={"Content-Type": "application/json"}), timeout=PATIENCE).read()

    def stop(self):
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            assert self.process.wait(PATIENCE) == 0, "the server did not end well"
        self.process = None


def run(command, work, env):
    began = time.monotonic()
    done = subprocess.run(["bash", "-c", command], cwd=work, env=env, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE)
    print(f"{time.monotonic() - began:6.1f} s  {done.returncode}  {command}", flush=True)
    allowed = (0, 1) if "--min" in command or command == "mote doctor" else (0,)
    if done.returncode not in allowed:
        print(done.stdout)
        return 1
    return 0


def main():
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    failed, server = 0, Server()
    with tempfile.TemporaryDirectory(prefix="mote-readme-") as directory:
        work = Path(directory)
        fill(work)
        env = {**os.environ, "HOME": str(work / "home"), "XDG_RUNTIME_DIR": directory, "LC_ALL": "C.UTF-8",
               "MOTE_HOST": f"127.0.0.1:{port}", "PATH": os.path.dirname(MOTE) + ":" + os.environ["PATH"]}
        for name in ("HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
            env.pop(name, None)
        for commands in blocks_of((ROOT / "README.md").read_text(encoding="utf-8")):
            for command in (command for command in commands if command not in NOT_RUN):
                if command.startswith("mote serve"):
                    server.start(command, work, env)
                    continue
                for out in re.findall(r"quantize \S+ (\S+)", command):
                    (work / out).unlink(missing_ok=True)  # a file of the commands before
                failed += run(command, work, env)
            server.stop()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
