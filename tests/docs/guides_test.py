# SPDX-License-Identifier: Apache-2.0
"""guides_test.py [PAGE...] - the commands of the guides in docs/ print what the pages show.

Runs every ```console block of a page in one shell: a line with `$ ` is a command, the lines below it are its output.
The hub is the test double (tests/hub): its files have the names of the known models and the bytes of mote-tiny. Home
directory, mount points, hub and port are replaced by those of the test, and back in the output. Blanks, sizes and short
hashes are not compared. `...` in the output stands for any text, a line `...` for any lines.

Environment: MOTE is the program, DATA the directory of test models.
"""
import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/hub"))
from double import TOKEN, Double  # noqa: E402

MOTE, DATA = os.path.abspath(os.environ["MOTE"]), os.path.abspath(os.environ["DATA"])
PAGES = ("tutorial", "clients", "coming-from", "fine-tuning", "networks", "private-models", "service", "storage")
PATIENCE = 300
MARK = "\x01"
# A command that ends with & is a server: the next command waits until it says that it listens, or has ended.
SERVER = """
exec 9>&1
{command} >{out} 2>&1 9>&- &
until grep -qs 'listening on' {out} || ! kill -0 $!; do sleep 0.05; done
cat {out}
"""


def blocks_of(page):
    """[(command, output)] of a page."""
    found = []
    for block in re.findall(r"^ *```console\n(.*?)^ *```", page.read_text(encoding="utf-8"), re.S | re.M):
        block = textwrap.dedent(block)
        found += re.findall(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", block, re.M)
    return found


class Guide:
    """One page: an empty home directory, a hub and a port."""

    def __init__(self, hub, work):
        self.hub, self.work = hub, work
        self.home = os.path.join(work, "home")
        os.mkdir(self.home)
        with socket.create_server(("127.0.0.1", 0)) as s:
            self.port = str(s.getsockname()[1])
        # What a page says, and what it is here.
        self.names = [("/media/", work + "/media/"), ("/etc/ssl/office.pem", hub.authority.file),
                      ("build/release/data", DATA), ("https://huggingface.co", hub.url("hub")),
                      ("certificate of huggingface.co:", "certificate of 127.0.0.1:"), ("11435", self.port)]
        self.env = hub.env(self.home, HF_HOME=None, HF_TOKEN=None, MOTE_HOST="127.0.0.1:" + self.port,
                           XDG_RUNTIME_DIR=work, PATH=os.path.dirname(MOTE) + ":" + os.environ["PATH"], LC_ALL="C.UTF-8")

    def here(self, text):
        for page, real in self.names:
            text = text.replace(page, real)
        return text

    def as_shown(self, text):
        for page, real in self.names:
            text = text.replace(real, page)
        return text.replace(self.home, "~")

    def run(self, commands):
        """Runs the commands in one shell. Returns what each one printed."""
        script = ""
        for i, command in enumerate(commands):
            command = self.here(command)
            if command.endswith(" &"):
                command = SERVER.format(command=command[:-2], out=f"{self.work}/out{i}", port=self.port)
            script += f"printf '{MARK}'\n{command}\n"
        script += f"printf '{MARK}'\nkill $(jobs -p) 2>/dev/null\nwait\n"
        done = subprocess.run(["bash", "-c", script], env=self.env, cwd=self.home, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE)
        return [self.as_shown(text) for text in done.stdout.split(MARK)[1:-1]]


def plain(text):
    text = re.sub(r"\b\d+(\.\d+)? (B|kB|MB|GB)\b", "SIZE", text)
    text = re.sub(r"\b[0-9a-f]{12}\b", "HASH", text)
    return "\n".join(" ".join(line.split()) for line in text.strip().splitlines())


def matches(shown, printed):
    lines = plain(shown).split("\n") if shown.strip() else []
    pattern = "".join("(?:.*\n)*" if line == "..." else ".*".join(map(re.escape, line.split("..."))) + "\n" for line in lines)
    return re.fullmatch(pattern, plain(printed) + "\n" if printed.strip() else "") is not None


# ---- what a page presumes ----

def ollama_store(guide):
    """A store of Ollama with the model of the page."""
    with open(os.path.join(DATA, "mote-tiny-Q4_K_M.gguf"), "rb") as f:
        data = f.read()
    digest = hashlib.sha256(data).hexdigest()
    models = Path(guide.home, ".ollama/models")
    manifest = models / "manifests/registry.ollama.ai/library/qwen3.5/4b"
    for directory in (models / "blobs", manifest.parent):
        directory.mkdir(parents=True)
    (models / f"blobs/sha256-{digest}").write_bytes(data)
    manifest.write_text(json.dumps({
        "schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
        "layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:" + digest, "size": len(data)}],
    }), encoding="utf-8")


def installed(guide):
    subprocess.run([MOTE, "pull", "-q", "qwen3.5:4b"], env=guide.env, check=True, stdout=subprocess.DEVNULL)


def trained(guide):
    """mote-tiny, and the adapter of the page as PEFT has written it."""
    shutil.copy(os.path.join(DATA, "mote-tiny-BF16.gguf"), os.path.join(guide.home, "mote-tiny.gguf"))
    shutil.copytree(os.path.join(DATA, "golden/lora/nib"), os.path.join(guide.home, "nib"))


BEFORE = {"coming-from": ollama_store, "clients": installed, "fine-tuning": trained}


def fill(hub):
    files = {name: os.path.join(DATA, name) for name in ("mote-tiny-Q4_K_M.gguf", "mote-tiny-Q8_0.gguf",
                                                         "mmproj-mote-tiny-BF16.gguf")}
    q4, q8, mmproj = files.values()
    hub.add("unsloth/Qwen3.5-4B-GGUF",
            {"Qwen3.5-4B-Q4_K_M.gguf": q4, "Qwen3.5-4B-Q8_0.gguf": q8, "mmproj-F16.gguf": mmproj})
    hub.add("ann/private-GGUF", {"private-Q4_K_M.gguf": q4}, access="private")
    hub.add("ann/gated-GGUF", {"gated-Q4_K_M.gguf": q4}, access="gated")


def check(hub, name):
    """Returns the number of commands of a page that print something else."""
    commands = blocks_of(ROOT / f"docs/{name}.md")
    assert commands, f"docs/{name}.md has no block ```console"
    with tempfile.TemporaryDirectory(prefix="mote-guide-") as work:
        guide = Guide(hub, work)
        BEFORE.get(name, lambda _: None)(guide)
        outputs = guide.run([command for command, _ in commands])
    assert len(outputs) == len(commands), (name, outputs)
    wrong = 0
    for (command, shown), printed in zip(commands, outputs):
        if not matches(shown, printed):
            wrong += 1
            print(f"docs/{name}.md: $ {command}\n--- the page shows\n{shown}--- the program prints\n{printed}")
    return wrong


def main(names):
    if shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin") is None or shutil.which("curl") is None:
        print("nginx or curl is not installed")
        return 77
    assert TOKEN in (ROOT / "docs/private-models.md").read_text(encoding="utf-8")
    with Double() as hub:
        fill(hub)
        return 1 if sum(check(hub, name) for name in names) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or PAGES))
