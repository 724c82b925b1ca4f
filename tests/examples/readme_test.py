# SPDX-License-Identifier: Apache-2.0
"""readme_test.py EXAMPLE - runs an example as its README says and checks what it printed and wrote.

The lines of all ```sh blocks of the README run in one shell, in a copy of examples/. A line `mote serve` is the first
terminal of the README: it runs in the background, and the next line waits until it listens. The names of models mean
mote-tiny-vision here: it is in the Hugging Face cache of the test under the names of the published files. A command
that fails ends the run.

mote-tiny-vision is tiny: the checks are about structure (tools called, schemas met, citations that exist), not about
answers.

Environment: MOTE is the program, DATA the directory of test models; for c-app also CMAKE and BUILD. tests/sdk/run
starts this script with a Python that has the packages of the READMEs.
"""
import csv
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MOTE, DATA = os.path.abspath(os.environ["MOTE"]), Path(os.environ["DATA"]).resolve()
VISION = DATA / "mote-tiny-vision"
PATIENCE = 600
MARK = "\x01"
# Published files that the READMEs name, by repository.
INSTALLED = {"unsloth/Qwen3.5-4B-GGUF": "Qwen3.5-4B-Q4_K_M.gguf", "unsloth/Qwen3.5-0.8B-GGUF": "Qwen3.5-0.8B-Q8_0.gguf"}
SERVER = """
exec 3>{log}
{command} >&3 2>&1 &
server=$!
until grep -qs 'listening on' {log}; do kill -0 $server || {{ cat {log}; exit 1; }}; sleep 0.05; done
"""
STOP = """
[ -z "$server" ] || { kill $server; wait $server; }
"""


def commands_of(page):
    """The lines of the sh blocks; a line that ends with a backslash continues."""
    blocks = re.findall(r"^```sh\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M)
    return [line for block in blocks for line in re.sub(r"\\\n", " ", block).splitlines() if line.strip()]


class Run:
    """An empty home directory with the models, and the commands of one README."""

    def __init__(self, example, work):
        self.work, self.directory = Path(work), Path(work, "examples", example)
        shutil.copytree(ROOT / "examples", self.work / "examples", ignore=shutil.ignore_patterns("venv"))
        self.install_models(self.work / "home/.cache/huggingface/hub")
        with socket.create_server(("127.0.0.1", 0)) as s:
            port = s.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/v1"
        # The virtual environment that a README makes finds the packages of the test in PYTHONPATH.
        packages = sysconfig.get_path("purelib")
        path = [os.path.dirname(sys.executable), os.path.dirname(MOTE), os.environ["PATH"]]
        self.env = {**os.environ, "HOME": str(self.work / "home"), "XDG_RUNTIME_DIR": work, "PATH": ":".join(path),
                    "MOTE_HOST": f"127.0.0.1:{port}", "OPENAI_BASE_URL": self.url, "LOCAL_URL": self.url,
                    "PIP_NO_INDEX": "1", "PYTHONPATH": packages, "LC_ALL": "C.UTF-8"}
        # Compiled once: the packages are large, and every command of a README imports them.
        self.env["PYTHONPYCACHEPREFIX"] = os.path.join(os.environ.get("MOTE_SDK_CACHE") or os.environ["SDK_CACHE"], "pycache")
        for name in ("HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MOTE_API_KEY",
                     "PYTHONDONTWRITEBYTECODE"):
            self.env.pop(name, None)
        self.commands, self.outputs = commands_of(self.directory / "README.md"), []

    @staticmethod
    def install_models(hub):
        for repository, file in INSTALLED.items():
            place = hub / ("models--" + repository.replace("/", "--"))
            snapshot = place / "snapshots" / ("0" * 40)
            snapshot.mkdir(parents=True)
            (place / "refs").mkdir()
            (place / "refs/main").write_text("0" * 40, encoding="ascii")
            shutil.copy(VISION / "mote-tiny-vision-Q4_K_M.gguf", snapshot / file)
            shutil.copy(VISION / "mmproj-mote-tiny-vision-BF16.gguf", snapshot / "mmproj-F16.gguf")

    def execute(self):
        """Runs all commands. Afterwards outputs[i] is what command i printed, errors included."""
        script = "server=\n"
        for i, command in enumerate(self.commands):
            is_server = command.startswith("mote serve")
            text = SERVER.format(command=command, log=self.work / f"server-{i}.log") if is_server else command
            script += f"printf '{MARK}'\n{text}\n"
        script += f"printf '{MARK}'\n{STOP}"
        done = subprocess.run(["bash", "-ec", script], env=self.env, cwd=self.work, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE)
        self.outputs = done.stdout.split(MARK)[1:]
        for command, output in zip(self.commands, self.outputs):
            print(f"$ {command}\n{output}", end="")
        assert done.returncode == 0, f"exit code {done.returncode}\n{self.outputs[-1]}"
        assert len(self.outputs) == len(self.commands) + 1, "a command is missing"

    def output(self, words):
        """The lines that the first command with these words printed."""
        return next(o for c, o in zip(self.commands, self.outputs) if words in c).strip().splitlines()

    def read(self, name):
        return (self.directory / name).read_text(encoding="utf-8")


# ---- what each example must have done ----

def calls_of(lines):
    """[(tool, arguments, result)] that agent.py printed."""
    found = [re.fullmatch(r"(\w+) (\{.*\}) -> (.*)", line) for line in lines]
    return [(m[1], json.loads(m[2]), m[3]) for m in found if m]


def check_agent(run):
    assert len(run.read("agent.py").splitlines()) < 100, "the agent is longer than it says"
    for words, tool in (("to add", "add"), ("Tell Anna", "send_message"), ("Search for", "search")):
        lines = run.output(words)
        names = [name for name, _, _ in calls_of(lines)]
        assert tool in names, (words, lines)
        assert lines[-1] and not calls_of(lines[-1:]), "no answer after the calls"
    for _, arguments, result in calls_of(run.output("to add")):
        assert float(result) == arguments["a"] + arguments["b"], (arguments, result)
    sent = [f"{arguments['to']}: {arguments['text']}" for _, arguments, _ in calls_of(run.output("Tell Anna"))]
    assert run.read("outbox.txt").splitlines() == sent, sent


def check_rag(run):
    files = sorted(p.name for p in (run.directory / "notes").iterdir())
    assert run.output("index notes")[0].startswith(f"{len(files)} files, {len(files)} new or changed, "), run.outputs
    for question in ("pressure", "tap"):
        lines = run.output(question)
        cited = [re.fullmatch(r"\[\d\] (notes/\S+):(\d+)-(\d+)", line) for line in lines]
        cited = [m for m in cited if m]
        assert cited and len(cited) < len(lines), f"an answer and its sources: {lines}"
        for source in cited:
            text = run.read(source[1]).splitlines()
            first, last = int(source[2]), int(source[3])
            assert 1 <= first <= last <= len(text) and text[first - 1].strip() and text[last - 1].strip(), source[0]


def check_rag_again(run):
    """A second run of `index` sees what changed: nothing, one file removed, one added."""
    again = Run("rag", tempfile.mkdtemp(dir=run.work))
    shutil.rmtree(again.directory)
    shutil.copytree(run.directory, again.directory, ignore=shutil.ignore_patterns("venv"))
    serve = "mote serve qwen3.5:4b"
    index = "python3 rag.py index notes"
    again.commands = [serve, "cd examples/rag", index, "rm notes/garden.md", index + "/.",
                      "echo A new note. > notes/new.txt", index + "/./."]
    again.execute()
    got = [again.output(command)[-1].split(", ")[:2] for command in (index, "notes/.", "notes/./.")]
    assert got == [["3 files", "0 new or changed"], ["2 files", "0 new or changed"], ["3 files", "1 new or changed"]], got


def check_documents(run):
    import jsonschema  # pylint: disable=import-outside-toplevel
    schema = json.loads(run.read("invoice.schema.json"))
    answers = [json.loads(line) for line in run.read("answers.jsonl").splitlines()]
    pages = sorted(p.name for p in (run.directory / "pages").iterdir())
    assert len(pages) == 3 and [a["custom_id"] for a in answers] == pages, (pages, answers)
    for answer in answers:
        choice = answer["response"]["body"]["choices"][0]
        assert choice["finish_reason"] == "stop", choice
        jsonschema.validate(json.loads(choice["message"]["content"]), schema)
        assert answer["response"]["body"]["usage"]["prompt_tokens"] > 900, "the page was not in the prompt"
    rows = list(csv.DictReader(run.read("invoices.csv").splitlines()))
    assert [row["page"] for row in rows] == pages and set(rows[0]) == {"page", *schema["properties"]}, rows


def check_home(run):
    import jsonschema  # pylint: disable=import-outside-toplevel
    schema = json.loads(subprocess.run([sys.executable, "-c", "import home, json; print(json.dumps(home.SCHEMA))"],
                                       cwd=run.directory, env=run.env, capture_output=True, check=True).stdout)
    *actions, summary = run.output("home.py")
    sentences = run.read("sentences.txt").splitlines()
    assert len(actions) == len(sentences), run.outputs
    for line, sentence in zip(actions, sentences):
        action, times = re.fullmatch(r"(\{.*\})  (first token \d+ ms, all \d+ ms)  " + re.escape(sentence), line).groups()
        assert list(json.loads(action)) == ["intent", "room", "value"] and times, line
        jsonschema.validate(json.loads(action), schema)
    # The time depends on the machine; that it was measured does not.
    assert re.fullmatch(rf"{len(sentences)} sentences: first token, median \d+ ms, 95th percentile \d+ ms; "
                        r"limit 100 ms: (?:met|exceeded)", summary), summary


def check_fallback(run):
    plain, confident, unreachable = (o.strip().splitlines() for c, o in zip(run.commands, run.outputs) if "fallback.py" in c)
    assert plain[-1] == "(local)" and len(plain) > 1, plain
    measured = re.fullmatch(r"local: confidence (\d\.\d\d)", confident[0])
    assert measured, confident
    assert confident[-1] == ("(local)" if float(measured[1]) >= 0.5 else "(remote)"), confident
    assert unreachable[-1] == "(remote)" and len(unreachable) > 2, unreachable


def check_c_app(run):
    lines = run.output("./two_images ")
    assert any(re.fullmatch(r"\d+ steps for 2 answers", line) for line in lines), lines
    for name in ("circle.png", "star.png"):
        alone = subprocess.run([MOTE, "run", "qwen3.5:0.8b", "--temp", "0", "--think", "off", "-q", "--image",
                                run.directory / name, "What do you see?"], env=run.env, text=True,
                               capture_output=True, check=True)
        assert f"{name}: {alone.stdout.strip()}" in lines, (lines, alone.stdout)


# ---- what a README presumes ----

def install_library(run):
    """The library in a directory that pkg-config and the loader find."""
    prefix = run.work / "installed"
    subprocess.run([os.environ["CMAKE"], "--install", os.environ["BUILD"], "--prefix", prefix], check=True,
                   stdout=subprocess.DEVNULL)
    lib = next(prefix.rglob("libmote.so")).parent
    run.env.update(PKG_CONFIG_PATH=str(lib / "pkgconfig"), LD_LIBRARY_PATH=str(lib))


def start_remote(run):
    """A second server as the remote endpoint."""
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    log = run.work / "remote.log"
    run.env.update(REMOTE_URL=f"http://127.0.0.1:{port}/v1", REMOTE_MODEL="other")
    remote = subprocess.Popen([MOTE, "serve", "qwen3.5:0.8b", "--listen", f"127.0.0.1:{port}"], env=run.env,
                              stdout=log.open("w"), stderr=subprocess.STDOUT)
    while "listening on" not in log.read_text(encoding="utf-8"):
        assert remote.poll() is None, log.read_text(encoding="utf-8")
        time.sleep(0.05)
    return remote


EXAMPLES = {"agent": (None, [check_agent]), "rag": (None, [check_rag, check_rag_again]),
            "documents": (None, [check_documents]), "home": (None, [check_home]),
            "fallback": (start_remote, [check_fallback]), "c-app": (install_library, [check_c_app])}
NEEDED = {"documents": "pdftoppm", "c-app": "pkg-config"}


def main(example):
    if shutil.which(NEEDED.get(example, "bash")) is None:
        print(f"{NEEDED[example]} is not installed")
        return 77
    before, checks = EXAMPLES[example]
    with tempfile.TemporaryDirectory(prefix="mote-example-") as work:
        run = Run(example, work)
        helper = before(run) if before else None
        try:
            run.execute()
            for check in checks:
                check(run)
        finally:
            if helper is not None:
                helper.terminate()
                helper.wait(PATIENCE)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
