# SPDX-License-Identifier: Apache-2.0
"""messages_test.py - `mote tokenize --messages` with every recorded conversation of every chat template.

One call per line gives the text and the ids. Settings that have a flag are passed as flags, the others in
the body.
"""
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from template_lines import is_engine_error, read_lines, spells_control  # noqa: E402

MODEL = os.path.join(os.environ["DATA"], "mote-tiny-Q4_K_M.gguf")
THINK = {True: ["--think", "on"], False: ["--think", "off"]}


def call(line, directory, number):
    """Returns (exit code, stdout, stderr) for a line."""
    kwargs = dict(line["kwargs"])
    flags = ["--json", "--text", "--template", "official", "--chat-template", line["style"]]
    if not kwargs.pop("add_generation_prompt", False):
        flags.append("--no-generation-prompt")
    if isinstance(kwargs.get("enable_thinking"), bool):
        flags += THINK[kwargs.pop("enable_thinking")]
    if line["tools"] is not None:
        path = os.path.join(directory, f"tools{number}.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(line["tools"], f)
        flags += ["--tools", path]
    body = {"messages": line["messages"], "chat_template_kwargs": kwargs} if kwargs else line["messages"]
    done = subprocess.run([os.environ["MOTE"], "tokenize", MODEL, "--messages", "-", *flags],
                          input=json.dumps(body).encode(), capture_output=True, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def fault_of(line, code, out, err):
    if line["error"]:
        said = is_engine_error(line) or line["error"] in err
        return None if code == 2 and said else f"exit code {code}, error {err!r}, not {line['error']!r}"
    if code != 0:
        return f"exit code {code}: {err}"
    got = json.loads(out)
    if got["text"] != line["rendered"]:
        return f"renders as {got['text']!r}, not {line['rendered']!r}"
    if "ids" in line and (got["ids"] == line["ids"]) == spells_control(line):
        return "the ids are not as expected"
    return None


def main():
    lines = read_lines(os.environ["DATA"])
    with tempfile.TemporaryDirectory() as directory, concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = pool.map(lambda pair: call(pair[1], directory, pair[0]), enumerate(lines))
        faults = [f"{line['name']} with {line['style']}: {fault}" for line, result in zip(lines, results)
                  if (fault := fault_of(line, *result))]
    print(f"{len(lines)} conversations, {len(faults)} faults")
    print("\n".join(faults[:20]))
    return 1 if faults else 0


sys.exit(main())
