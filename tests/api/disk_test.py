# SPDX-License-Identifier: Apache-2.0
"""disk_test.py - the prefix cache on disk: restarts of a server, API keys, `mote cache`, errors, the sandbox."""
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile

from api_rig import PATIENCE, Server, case, equal, main, post, request

MODEL = "mote-tiny-Q4_K_M.gguf"
SANDBOX = []
RULES = " ".join(f"Rule {i}: the emblem of place {i} is a stone." for i in range(40))


def messages(*turns):
    return [{"role": "system", "content": RULES},
            *({"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(turns))]


def chat(server, turns, key=None):
    headers = {"Authorization": "Bearer " + key} if key else None
    reply = post(server, "/v1/chat/completions", {"messages": messages(*turns), "temperature": 0, "max_tokens": 24,
                                                  "enable_thinking": False}, headers=headers)
    return reply["choices"][0]["message"]["content"], reply["mote"]["cache"]


def disk_server(directory, *flags, **more):
    return Server("--cache-disk", "64MB", *SANDBOX, *flags, model=MODEL, env={"MOTE_CACHE": directory}, **more)


def mote(directory, *arguments):
    env = {**os.environ, "MOTE_CACHE": directory}
    return subprocess.run([os.environ["MOTE"], *arguments], env=env, capture_output=True, text=True, timeout=PATIENCE)


def records(directory):
    prefix = os.path.join(directory, "prefix")
    return {name: os.stat(os.path.join(prefix, name)) for name in os.listdir(prefix) if name[-2:] in (".p", ".h", ".s")}


def record(directory, name):
    with open(os.path.join(directory, "prefix", name), "rb") as f:
        return f.read()


# Bytes of every record that is not encrypted. They are long: four given bytes occur by chance in encrypted megabytes.
PLAIN_WORDS = [b"MOTEKVR", b"mote-tiny"]


def plain_words(data):
    return [word for word in PLAIN_WORDS if word in data]


@case
def conversations_survive_restarts():
    with tempfile.TemporaryDirectory() as directory:
        turns = ["What is the emblem of Venvia?"]
        cold = None
        for restart in range(4):
            with disk_server(directory) as server:
                answer, cache = chat(server, turns)
                if restart == 0:
                    equal((cache["from"], cache["reused"]), ("none", 0))
                    cold = cache["prompt"]
                else:
                    equal(cache["from"], "disk")
                    # what is new in this turn, and the tokens after the last state
                    assert cache["prefilled"] <= cache["prompt"] - cold + 96, cache
                    equal(server.metric("mote_disk_cache_restores_total"), 1)
                    equal(server.metric('mote_prefix_cache_hit_tokens_total{tier="disk"}'), cache["reused"])
                    cold = cache["prompt"]
                again, cache = chat(server, turns)
                equal((again, cache["from"]), (answer, "ram"))
                turns += [answer, f"And the emblem of place {restart}?"]
        with Server(model=MODEL) as server:  # every answer equals that of a server without a disk cache
            for i in range(1, len(turns), 2):
                equal(chat(server, turns[:i])[0], turns[i])
        for name, info in records(directory).items():
            equal(stat.S_IMODE(info.st_mode), 0o600)
            equal(len(name), 34)


@case
def an_equal_prompt_prefills_nothing():
    """After a restart, and from memory, with log-probabilities."""
    body = {"messages": messages("What is the emblem of Venvia?"), "temperature": 0, "max_tokens": 24, "logprobs": True,
            "top_logprobs": 4, "enable_thinking": False}
    for more in range(3):  # a prompt that ends at a multiple of 32 tokens has no end
        with tempfile.TemporaryDirectory() as directory:
            seen = []
            for _ in range(2):
                with disk_server(directory) as server:
                    for _ in range(2):
                        reply = post(server, "/v1/chat/completions", body)
                        seen.append((reply["mote"]["cache"]["from"], reply["mote"]["cache"]["prefilled"],
                                     reply["choices"][0]))
                    cached = reply["usage"]["prompt_tokens_details"]["cached_tokens"]
                    prompt = reply["usage"]["prompt_tokens"]
            if prompt % 32 == 0:
                body["messages"][-1]["content"] += " Tell me."
                continue
            equal([s[:2] for s in seen], [("none", prompt), ("ram", 0), ("disk", 0), ("ram", 0)])
            equal(cached, prompt)
            for s in seen:
                equal(s[2], seen[0][2])
            return
    raise AssertionError("no prompt with an end")


@case
def the_first_difference_is_known_from_disk():
    with tempfile.TemporaryDirectory() as directory:
        with disk_server(directory) as server:
            chat(server, [RULES + " What is the emblem of Venvia?" + RULES])
        with disk_server(directory) as server:
            _, cache = chat(server, [RULES + " Who wrote the laws of Venvia?" + RULES])
            miss = cache["miss"]
            equal((cache["from"], cache["compared"], miss["message"], miss["kind"]), ("disk", 0, 1, "message"))
            assert miss["had"].lstrip().startswith("What is the emblem"), miss
            assert miss["got"].lstrip().startswith("Who wrote"), miss
            assert cache["reused"] <= miss["usable"] <= miss["token"] and miss["tokens"] > 64, cache


@case
def a_killed_server_loses_little():
    with tempfile.TemporaryDirectory() as directory:
        turns = ["What is the emblem of Venvia?"]
        for _ in range(3):
            with disk_server(directory) as server:
                answer, _ = chat(server, turns)
                server.process.send_signal(signal.SIGKILL)
                server.process.wait()
                server.process.returncode = 0
        equal(mote(directory, "cache", "verify").returncode, 0)
        with disk_server(directory) as server:
            equal(chat(server, turns)[0], answer)


@case
def keys_share_nothing():
    with tempfile.TemporaryDirectory() as directory:
        keys = os.path.join(directory, "keys")
        with open(keys, "w", encoding="ascii") as f:
            f.write("first-key infer,metrics,admin\nsecond-key infer\n")
        turns = ["What is the emblem of Venvia?"]
        for restart in range(2):
            with disk_server(directory, "--api-key-file", keys, key="first-key") as server:
                answer, cache = chat(server, turns, "first-key")
                equal(cache["from"], "disk" if restart else "none")
                if restart:
                    got, cache = chat(server, turns, "second-key")
                    equal((got, cache["from"], cache["reused"]), (answer, "none", 0))


@case
def a_hit_writes_nothing():
    with tempfile.TemporaryDirectory() as directory:
        turns = ["What is the emblem of Venvia?"]
        for restart in range(3):
            with disk_server(directory) as server:
                chat(server, turns)
            now = {name: (info.st_mtime_ns, info.st_size) for name, info in records(directory).items()}
            assert now
            equal({found for name in now for found in plain_words(record(directory, name))}, set(PLAIN_WORDS))
            if restart:
                equal(now, before)
            before = now


@case
def encrypted_conversations_survive_restarts():
    with tempfile.TemporaryDirectory() as directory:
        keys = [os.path.join(directory, name) for name in ("key", "other")]
        for key in keys:
            equal(mote(directory, "cache", "key", key).returncode, 0)
        turns = ["What is the emblem of Venvia?"]
        cold = 0
        for restart in range(3):
            with disk_server(directory, "--cache-key", keys[0]) as server:
                answer, cache = chat(server, turns)
                equal(cache["from"], "disk" if restart else "none")
                assert "not encrypted" not in server.said(), server.said()
                if restart:  # the tokens of the answers came from the encrypted file
                    assert cache["prefilled"] <= cache["prompt"] - cold + 96, cache
                cold = cache["prompt"]
                turns += [answer, f"And the emblem of place {restart}?"]
        names = set(records(directory))
        for name in [*names, "answers"]:
            equal((name, plain_words(record(directory, name))), (name, []))
        answers = record(directory, "answers")
        assert len(answers) > 300 and answers[8:12] == b"ANSX", answers[:16]
        for flags in [[], ["--cache-key", keys[1]]]:  # without its key nothing is found and nothing is removed
            with disk_server(directory, *flags) as server:
                got, cache = chat(server, turns[:5])
                equal((got, cache["from"], cache["reused"]), (turns[5], "none", 0))
                equal(server.metric("mote_disk_cache_damaged_records_total"), 0)
            assert names <= set(records(directory))
        with disk_server(directory, "--cache-key", keys[0]) as server:
            got, cache = chat(server, turns[:5])
            equal((got, cache["from"]), (turns[5], "disk"))
            assert "records of the disk cache are not encrypted" in server.said(), server.said()
        os.chmod(keys[0], 0o640)
        refused = mote(directory, "serve", "--cache-disk", "64MB", "--cache-key", keys[0])
        assert refused.returncode == 2 and "chmod 600" in refused.stderr, refused


@case
def commands():
    with tempfile.TemporaryDirectory() as directory:
        equal(json.loads(mote(directory, "cache", "ls", "--json").stdout), [])
        with disk_server(directory) as server:
            chat(server, [RULES + " What is the emblem of Venvia?"])
        states = json.loads(mote(directory, "cache", "ls", "--json").stdout)
        assert len(states) > 1 and all(s["tokens"] % 32 == 0 and s["bytes"] > 0 for s in states), states
        shown = mote(directory, "cache", "ls").stdout
        assert states[0]["id"] in shown and shown.startswith("ID"), shown
        stats = json.loads(mote(directory, "cache", "stats", "--json").stdout)
        equal(stats["states"], len(states))
        equal(stats["written_records"], stats["pages"] + stats["states"])
        equal(mote(directory, "cache", "verify").returncode, 0)
        name = next(name for name in records(directory) if name.endswith(".s"))
        with open(os.path.join(directory, "prefix", name), "r+b") as f:
            f.seek(5000)
            f.write(b"damage")
        equal(mote(directory, "cache", "verify").returncode, 1)
        equal(mote(directory, "cache", "verify").returncode, 0)
        left = json.loads(mote(directory, "cache", "ls", "--json").stdout)
        equal(len(left), len(states) - 1)
        equal(mote(directory, "cache", "rm").returncode, 2)
        equal(mote(directory, "cache", "rm", "nothing").returncode, 1)
        equal(mote(directory, "cache", "rm", left[0]["id"]).returncode, 0)
        equal(mote(directory, "cache", "rm", "--all").returncode, 0)
        equal(records(directory), {})
        equal(mote(directory, "cache", "other").returncode, 2)


@case
def no_directory_is_no_error():
    with tempfile.NamedTemporaryFile() as file:
        with disk_server(file.name) as server:
            equal(server.said().count("disk cache off: "), 1)
            answer, _ = chat(server, ["What is the emblem of Venvia?"])
            equal(chat(server, ["What is the emblem of Venvia?"])[0], answer)
    with tempfile.TemporaryDirectory() as directory:
        with disk_server(directory) as server:
            equal(request(server, "GET", "/health")[0], 200)
            assert "disk cache off" not in server.said(), server.said()


if __name__ == "__main__":
    with Server(model=MODEL) as plain:
        state = plain.get("/health")
    if state["seccomp"] and not state["landlock"]:  # the disk cache needs both or none
        SANDBOX = ["--sandbox", "off"]
    sys.exit(main())
