# SPDX-License-Identifier: Apache-2.0
"""sandbox_test.py - what a server can do after its start: `mote serve --sandbox on|require|off`.

PROBE is a preloaded library that tries forbidden system calls inside the server (sandbox_probe.c). A second program
(this file with arguments) hides Landlock from a server with a filter of its own.
"""
import errno
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

from api_rig import FACT, FACT_ANSWER, PATIENCE, Server, case, equal, main, post, request

HERE = os.path.dirname(os.path.abspath(__file__))
MODEL = "mote-tiny-Q4_K_M.gguf"
FILE = os.path.join(os.environ.get("DATA", ""), MODEL)
FORBIDDEN = ("fork", "execve", "open_write", "socket", "mmap_exec", "kill", "ptrace")


def chat(server):
    reply = post(server, "/v1/chat/completions", {"model": "x", "messages": [{"role": "user", "content": FACT}],
                                                  "temperature": 0, "enable_thinking": False})
    return reply["choices"][0]["message"]["content"]


def until(check):
    end = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


class Probed(Server):
    """A server with the preloaded probe."""

    def __init__(self, *flags, program=(), env=None):
        self.directory = tempfile.TemporaryDirectory()
        self.out = os.path.join(self.directory.name, "probe")
        super().__init__(*flags, model=MODEL, program=[*program, "env", f"LD_PRELOAD={os.environ['PROBE']}",
                                                       f"PROBE_OUT={self.out}", f"PROBE_MODEL={FILE}",
                                                       os.environ["MOTE"]], env=env)

    def probe(self, number):
        """Returns the errno of every attempt."""
        os.truncate(self.out, 0)
        os.kill(self.process.pid, number)

        def lines():
            with open(self.out, encoding="ascii") as f:
                return f.read().split("\n")
        until(lambda: "end" in lines())
        return {line.split()[0]: int(line.split()[1]) for line in lines() if " " in line}


@case
def attempts_fail_in_the_sandbox():
    with Probed() as server:
        health = server.get("/health")
        equal(health["seccomp"], True)
        landlock = health["landlock"]
        equal(health["sandbox"], "on" if landlock else "partial")
        assert f"sandbox {health['sandbox']}: seccomp" in server.said(), server.said()
        for number in (signal.SIGUSR1, signal.SIGUSR2):  # the second one: a thread older than the sandbox
            got = server.probe(number)
            equal({name: got[name] for name in FORBIDDEN}, {name: errno.EPERM for name in FORBIDDEN})
            equal(got["open_model"], 0)
            if landlock and number == signal.SIGUSR1:
                equal(got["open_read"], errno.EACCES)
        assert not os.path.exists(server.out + ".written")
        equal(chat(server), FACT_ANSWER)


@case
def only_the_directory_of_files_is_written_to():
    """The tests of batches show that the directory of --files can be written to; nothing else can."""
    if not LANDLOCK:
        return
    with tempfile.TemporaryDirectory() as directory, Probed("--files", directory + "/files") as server:
        got = server.probe(signal.SIGUSR1)
        wanted = {name: errno.EPERM for name in FORBIDDEN}
        wanted["open_write"] = errno.EACCES
        equal({name: got[name] for name in FORBIDDEN}, wanted)
        equal(got["open_read"], errno.EACCES)
        assert not os.path.exists(server.out + ".written")


@case
def only_the_disk_cache_can_be_written():
    with tempfile.TemporaryDirectory() as directory:
        with Probed("--cache-disk", "64MB", env={"MOTE_CACHE": directory}) as server:
            landlock = server.get("/health")["landlock"]
            equal("disk cache off: the sandbox needs Landlock" in server.said(), not landlock)
            got = server.probe(signal.SIGUSR1)
            equal(got["open_write"], errno.EACCES if landlock else errno.EPERM)
            equal({got[name] for name in FORBIDDEN if name != "open_write"}, {errno.EPERM})
            equal(chat(server), FACT_ANSWER)
            post(server, "/v1/completions", {"prompt": FACT * 20, "max_tokens": 1})
        equal(len(os.listdir(os.path.join(directory, "prefix"))) > 1, bool(landlock))


@case
def attempts_succeed_without_it():
    with Probed("--sandbox", "off") as server:
        equal(server.get("/health")["sandbox"], "off")
        assert "sandbox off (--sandbox off)" in server.said(), server.said()
        got = server.probe(signal.SIGUSR1)
        equal(got, {name: 0 for name in got})
        assert set(FORBIDDEN) < set(got)


@case
def later_work_is_allowed():
    """Reload of a model, of changed keys, and the details of a model file."""
    with tempfile.TemporaryDirectory() as directory:
        keys = os.path.join(directory, "keys")
        with open(keys, "w", encoding="ascii") as f:
            f.write("first-key infer,metrics,admin\n")
        with Server("--api-key-file", keys, "--sandbox", "require" if LANDLOCK else "on", key="first-key",
                    model=MODEL) as server:
            equal(chat(server), FACT_ANSWER)
            post(server, "/v1/unload", {"model": server.model})
            equal(chat(server), FACT_ANSWER)
            equal(server.get("/api/tags")["models"][0]["details"]["quantization_level"], "Q4_K_M")
            with open(keys + ".new", "w", encoding="ascii") as f:
                f.write("second-key infer,metrics,admin\n")
            os.rename(keys + ".new", keys)
            server.key = "second-key"
            until(lambda: request(server, "GET", "/v1/models")[0] == 200)


@case
def missing_landlock_is_reported():
    hidden = [sys.executable, os.path.abspath(__file__), "hide"]
    with Server(model=MODEL, program=[*hidden, os.environ["MOTE"]]) as server:
        health = server.get("/health")
        equal((health["sandbox"], health["seccomp"], health["landlock"]), ("partial", True, None))
        assert health["sandbox_reason"].startswith("no Landlock: "), health
        assert "sandbox partial: seccomp (no Landlock: " in server.said(), server.said()
        equal(chat(server), FACT_ANSWER)
    done = subprocess.run([*hidden, os.environ["MOTE"], "serve", FILE, "--listen", "127.0.0.1:0", "--sandbox", "require",
                           "--mmproj", "none"], capture_output=True, text=True, timeout=PATIENCE)
    equal(done.returncode, 1)
    assert "--sandbox require: no Landlock: " in done.stderr, done.stderr


def hide_landlock(arguments):
    """Becomes a program for which the kernel has no Landlock."""
    sys.path.insert(0, os.path.join(HERE, "..", "deploy"))
    import unit_calls
    lists = unit_calls.Filter(unit_calls.ALLOW)
    lists.add(unit_calls.ERRNO | errno.ENOSYS, "landlock_create_ruleset")
    lists.load()
    os.execvp(arguments[0], arguments)


if __name__ == "__main__" and len(sys.argv) > 1:
    hide_landlock(sys.argv[2:])
if __name__ == "__main__":
    with Server(model=MODEL) as plain:
        state = plain.get("/health")
    print(json.dumps(state))
    if not state["seccomp"]:
        print("there is no seccomp in this build or kernel")
        sys.exit(77)
    LANDLOCK = state["landlock"]
    sys.exit(main())
