# SPDX-License-Identifier: Apache-2.0
"""first_run_test.py - one command in an empty home directory: download, verify, answer. Then the same offline.

mote-tiny is a row of the user's table of models that points to the test double. Prints a table of the steps.
"""
import os
import pty
import socket
import subprocess
import sys
import tempfile
import threading
import time

from double import Double
from hub_rig import PATIENCE, check_installed, equal, new_home, run, until
from listener import Listener

DATA = os.environ["DATA"]
WEIGHTS, MMPROJ = "mote-tiny-Q4_K_M.gguf", "mmproj-mote-tiny-BF16.gguf"
MODELS = """
[mote-tiny]
repo = owner/mote-tiny-GGUF
file = mote-tiny-{quant}.gguf
quants = Q4_K_M
mmproj = mmproj-mote-tiny-BF16.gguf
"""


# A family with one size.
FAMILY = """
[mote-family:1m]
repo = owner/mote-tiny-GGUF
file = mote-tiny-{quant}.gguf
quants = Q4_K_M
parameters = 1000000
layers = 4
attention-layers = 1
embedding = 256
feed-forward = 512
heads = 2
kv-heads = 1
value-heads = 16
vocabulary = 4096
tied = yes
context = 4096
"""


def command(*flags):
    return [os.environ["MOTE"], "run", "mote-tiny", "Hello", "--temp", "0", "--threads", "1", *flags]


def timed_run(words, env):
    """Runs a program and returns (exit code, stdout, stderr, times of the start, the first byte and the end)."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as err:
        times = [time.time()]
        process = subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err)
        out = process.stdout.read(1)
        times.append(time.time())
        out += process.stdout.read()
        code = process.wait(timeout=PATIENCE)
        times.append(time.time())
        err.seek(0)
        return code, out.decode(), err.read(), times


def table(hub, times):
    """Prints what the time went to, from the requests that the hub and the CDN saw."""
    began, answer, end = times
    api = min(r.time for r in hub.requests("hub"))
    content = [r for r in hub.requests("cdn") if r.method == "GET"]
    until(lambda: sum(row["listener"] == "cdn" for row in hub.nginx.access()) >= len(content), "no log of nginx")
    last = max(row["end"] for row in hub.nginx.access() if row["listener"] == "cdn")
    first = min(r.time for r in content)
    size = sum(os.path.getsize(os.path.join(DATA, name)) for name in (WEIGHTS, MMPROJ))
    for what, seconds in (("start, to the first request", api - began),
                          ("listing and redirect", first - api),
                          (f"download of {size / 1e6:.1f} MB", last - first),
                          ("verify, publish, load, prefill, first token", answer - last),
                          ("rest of the answer", end - answer),
                          ("all", end - began)):
        print(f"  {what:44} {seconds:7.3f} s")


def pull_family(hub):
    """`mote pull` without a size chooses one and says so in a line."""
    with new_home() as home, tempfile.TemporaryDirectory() as config:
        os.mkdir(os.path.join(config, "mote"))
        with open(os.path.join(config, "mote", "models"), "w", encoding="ascii") as f:
            f.write(FAMILY)
        code, out, err = run([os.environ["MOTE"], "pull", "mote-family"], hub.env(home, XDG_CONFIG_HOME=config))
        equal(code, 0)
        assert out.strip().endswith("/" + WEIGHTS), out
        said = [line for line in err.splitlines() if line.startswith("mote-family: mote-family:1m Q4_K_M, the only size")]
        equal(len(said), 1)


class Terminal:
    """A program on a terminal of its own. `text` is what it has printed."""

    def __init__(self, words, env):
        self.began = time.monotonic()
        self.child, self.terminal = pty.fork()
        if self.child == 0:
            os.execvpe(words[0], words, env)
        self.text = ""

    def read(self):
        """Reads more; False at the end."""
        try:
            data = os.read(self.terminal, 4096)
        except OSError:
            return False
        self.text += data.decode(errors="replace")
        return bool(data)

    def until(self, words):
        while words not in self.text:
            assert self.read(), self.text
        return time.monotonic() - self.began

    def end(self):
        while self.read():
            pass
        seconds = time.monotonic() - self.began
        code = os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])
        os.close(self.terminal)
        return code, seconds


def ask(hub, env):
    """The question has the size. Without a hub that answers it is an error, soon."""
    t = Terminal(command(), env)
    t.until("[Y/n]")
    assert "Pull mote-tiny (" in t.text, t.text
    os.write(t.terminal, b"n\n")
    equal(t.end()[0], 3)

    held = threading.Event()
    silent = Listener("silent", lambda request: held.wait(600), tls=hub.certificate)
    full = socket.socket()  # accepts no connection: its queue is full
    full.bind(("127.0.0.1", 0))
    full.listen(0)
    waiting = [socket.socket() for _ in range(4)]
    for s in waiting:
        s.setblocking(False)
        s.connect_ex(full.getsockname())
    try:
        for port in (silent.port, full.getsockname()[1]):
            t = Terminal(command(), {**env, "HF_ENDPOINT": f"https://127.0.0.1:{port}"})
            noticed = t.until("requesting the size of mote-tiny")
            code, seconds = t.end()
            equal(code, 5)
            assert noticed >= 0.9 and "[Y/n]" not in t.text and "mote pull mote-tiny" in t.text, t.text
            # 5 s, and the processor may be busy: far below one timeout of 10 s for each of six tries.
            assert 4 < seconds < 30, (seconds, t.text)
    finally:
        held.set()
        silent.close()
        for s in [full, *waiting]:
            s.close()


def main():
    with Double() as hub, new_home() as home, tempfile.TemporaryDirectory() as config:
        repo = hub.add("owner/mote-tiny-GGUF", {name: os.path.join(DATA, name) for name in (WEIGHTS, MMPROJ)})
        os.mkdir(os.path.join(config, "mote"))
        with open(os.path.join(config, "mote", "models"), "w", encoding="ascii") as f:
            f.write(MODELS)
        env = hub.env(home, HF_HOME=None, XDG_CONFIG_HOME=config)

        # Without a terminal nothing is downloaded unless --pull is given.
        code, out, err = run(command(), env)
        equal((code, out, hub.requests()), (3, "", []))
        assert "mote pull mote-tiny" in err, err

        ask(hub, env)
        hub.forget()
        code, out, err, times = timed_run(command("--pull"), env)
        assert code == 0 and out.strip(), (code, out, err)
        print("mote run mote-tiny Hello --pull, in an empty home directory:")
        table(hub, times)
        cache = os.path.join(home, ".cache", "huggingface")
        os.symlink(cache, os.path.join(home, "hf"))
        check_installed(home, repo, WEIGHTS, MMPROJ)

        hub.forget()
        offline = {**env, "HF_HUB_OFFLINE": "1", "MOTE_NO_NETWORK": "1"}
        for flags in ((), ("--pull",)):
            code, again, err, times = timed_run(command(*flags), offline)
            equal((code, again), (0, out))
        print(f"offline: first token after {times[1] - times[0]:.3f} s, all {times[2] - times[0]:.3f} s")
        equal(hub.requests(), [])
        pull_family(hub)
    return 0


if __name__ == "__main__":
    sys.exit(main())
