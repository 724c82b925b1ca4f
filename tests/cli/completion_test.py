# SPDX-License-Identifier: Apache-2.0
"""completion_test.py - the completion scripts in real shells, compared with the command table.

usage: MOTE=program DATA=models completion_test.py bash|zsh|fish

What is expected comes from `mote help --json`, so a new command or flag is tested without a change
here. bash: the function of the script is called as readline calls it, and an interactive bash on a
pseudo-terminal inserts candidates, with and without the package bash-completion. zsh completes in an
interactive shell on a pseudo-terminal. fish has a command for it (complete -C).
"""
import json
import os
import pathlib
import pty
import select
import shutil
import subprocess
import sys
import tempfile
import time

MOTE = os.environ["MOTE"]
TIMEOUT = 600
ALIASES = ["gpt-4o-mini", "my:model"]
INSTALLED = "llama-9"
# Names that a shell must neither evaluate nor insert; each would create the file `evaluated`.
HOSTILE = ["$(touch evaluated)", "`touch evaluated`", "gpt$(touch evaluated)", "gpt`touch evaluated`", "gpt;touch evaluated",
           "evil$(touch evaluated)", "gpt*", "$HOME"]
# As `mote completion --models` if it offered them: the scripts are safe without its help.
PROGRAM = """#!/bin/sh
[ "$1 $2" != "completion --models" ] || cat "%(root)s/hostile"
exec "%(mote)s" "$@"
"""


class Files:
    """A home directory, and a working directory with a model file, a text and a directory."""

    def __init__(self, root):
        self.root = root
        self.work = root / "work"
        (self.work / "sub").mkdir(parents=True)
        (self.work / "tiny.gguf").touch()
        (self.work / "notes.txt").touch()
        (root / "models").mkdir()
        shutil.copy(os.path.join(os.environ["DATA"], "mote-tiny-Q4_K_M.gguf"), root / "models" / (INSTALLED + ".gguf"))
        (root / "bin").mkdir()
        (root / "hostile").write_text("".join(f"{n}\n" for n in HOSTILE if n[:3] != "gpt"))
        (root / "bin" / "mote").write_text(PROGRAM % {"root": root, "mote": MOTE})
        (root / "bin" / "mote").chmod(0o755)
        (self.work / "$(touch evaluated).gguf").touch()
        (root / "config").write_text("[alias]\n" + "".join(f"{a} = x.gguf\n" for a in ALIASES + HOSTILE))
        kept = {k: v for k, v in os.environ.items() if k.startswith(("ASAN_", "UBSAN_", "TSAN_"))}
        self.env = dict(kept, HOME=str(root), PATH=f"{root}/bin:/usr/local/bin:/usr/bin:/bin", TERM="dumb",
                        LC_ALL="C.UTF-8", MOTE_CONFIG=str(root / "config"),
                        MOTE_MODELS=str(root / "models"))
        self.table = json.loads(self.run([MOTE, "help", "--json"]))["commands"]

    def run(self, argv, **more):
        return subprocess.run(argv, env=self.env, cwd=self.work, stdout=subprocess.PIPE, text=True, check=True,
                              timeout=TIMEOUT, **more).stdout

    def evaluated(self):
        found = list(self.root.rglob("evaluated"))
        if found:
            print(f"a name was evaluated: {found}")
        return len(found)

    def script(self, shell):
        path = self.root / f"completion.{shell}"
        path.write_text(self.run([MOTE, "completion", shell]))
        return path


# ---- what is expected ----

def lines_of(table):
    """[(command line, set of candidates, exact)]; not exact: the shell may offer more."""
    names = {c["name"] for c in table}
    flags = {c["name"]: {"--" + f["name"] for f in c["flags"]} for c in table}
    models = set(ALIASES) | {INSTALLED, "tiny.gguf"}
    rows = [("mote ", names, True), ("mote ru", {n for n in names if n.startswith("ru")}, True),
            ("mote -q se", {n for n in names if n.startswith("se")}, True),
            ("mote --color never se", {n for n in names if n.startswith("se")}, True),
            ("mote --color ", {"auto", "always", "never"}, True), ("mote help ru", {"run"}, True),
            ("mote completion ", {"bash", "zsh", "fish"}, True),
            ("mote run ", models, False), ("mote run tiny.gguf ", set(), True),
            ("mote run gpt", {"gpt-4o-mini"}, True), ("mote run -m ", models, False),
            ("mote run -m gpt-4o-mini ", set(), True), ("mote serve tiny.gguf ", models, False),
            ("mote run --num-ctx 5 gpt", {"gpt-4o-mini"}, True), ("mote run -c 5 gpt", {"gpt-4o-mini"}, True),
            ("mote run --context=5 gpt", {"gpt-4o-mini"}, True), ("mote run -q gpt", {"gpt-4o-mini"}, True),
            ("mote run --file no", {"notes.txt"}, True), ("mote run --file ", {"notes.txt", "tiny.gguf"}, False),
            ("mote run --max-tokens ", set(), True), ("mote run tiny.gguf --kv f3", {"f32"}, True),
            ("mote nothing --kv ", set(), False)]
    for command in table:
        name = command["name"]
        rows.append((f"mote {name} --", flags[name], True))
        if command["alias"]:
            rows.append((f"mote {command['alias']} --", flags[name], True))
        if command["arguments"] and command["arguments"].startswith("MODEL"):
            rows.append((f"mote {name} gpt", {"gpt-4o-mini"}, True))
        for flag in command["flags"]:
            words = (flag["words"] or "").split("|")
            if words != [""]:
                rows.append((f"mote {name} --{flag['name']} ", set(words), True))
    rows.append(("mote run --kv=", {"--kv=" + w for w in ("f16", "f32", "q8_0", "q4_0")}, True))
    return rows


def compare(shell, rows, found):
    failures = 0
    for (line, expected, exact), got in zip(rows, found, strict=True):
        got = {g.rstrip("/") for g in got}
        if "=" in line.split()[-1] and line[-1] != " ":  # zsh offers what follows the =
            prefix = line.split()[-1].split("=")[0] + "="
            got = {g if g.startswith(prefix) else prefix + g for g in got}
        if got != expected if exact else not got >= expected:
            failures += 1
            print(f"{shell}: '{line}': missing {sorted(expected - got)}, unexpected {sorted(got - expected)}")
    print(f"{shell}: {len(rows)} command lines, {failures} wrong")
    return failures


# ---- a shell on a pseudo-terminal ----

class Terminal:
    """Types into a shell. Results come through a file; the echo is read and dropped."""

    def __init__(self, files, argv):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(files.work)
            os.execvpe(argv[0], argv, files.env)
        self.shown = b""

    def type(self, text):
        data = text.encode()
        while data:
            self.drain(0)
            data = data[os.write(self.fd, data[:256]):]

    def drain(self, seconds):
        while select.select([self.fd], [], [], seconds)[0]:
            try:
                self.shown += os.read(self.fd, 65536)
            except OSError:
                return
            seconds = 0

    def wait_for(self, path, n):
        """Waits until the file has n records, each ended by a line "END", and returns them."""
        end = time.monotonic() + TIMEOUT
        while time.monotonic() < end:
            self.drain(0.02)
            text = path.read_text() if path.exists() else ""
            if text.count("END\n") >= n:
                return [r.split("\n")[:-1] for r in text.split("END\n")[:-1]]
        sys.exit(f"no result; the terminal shows {self.shown[-2000:]!r}")

    def close(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)


# ---- the shells ----

def bash_lines(files, rows):
    """Calls the function of the script. Without : and = as separators, candidates are whole words."""
    calls = ["source " + str(files.script("bash")), "COMP_WORDBREAKS=$' \\t\\n'"]
    for line, _, _ in rows:
        calls += [f"COMP_LINE='{line}' COMP_POINT=${{#COMP_LINE}}; _mote mote",
                  "[ ${#COMPREPLY[@]} -eq 0 ] || printf '%s\\n' \"${COMPREPLY[@]}\"; echo END"]
    out = files.run(["bash", "--norc", "--noprofile", "-u"], input="\n".join(calls) + "\n")
    return [r.split("\n")[:-1] for r in out.split("END\n")[:-1]]


def bash_inserts(files, start):
    """readline inserts all candidates (Meta-*), or the common part (Tab); the command prints its arguments."""
    rows = [("mote run --kv \033*", ["run", "--kv", "f16", "f32", "q4_0", "q8_0"]),
            ("mote run --kv=q8\t", ["run", "--kv=q8_0"]),
            ("mote run my:\t", ["run", "my:model"]), ("mote run my\t", ["run", "my:model"]),
            ("mote run gpt\t", ["run", "gpt-4o-mini"]), ("mote run tin\t", ["run", "tiny.gguf"]),
            ("mote vers\t", ["version"]), ("mote run --hide\t", ["run", "--hide-thinking"]),
            ("mote run --file=no\t", ["run", "--file=notes.txt"]),
            ("mote run evil\t", ["run", "evil"]),
            ("mote run \\$\t", ["run", "$(touch evaluated).gguf"])]
    out = files.root / "inserted"
    out.unlink(missing_ok=True)
    shell = Terminal(files, ["bash", "--norc", "--noprofile", "-i"])
    program = f"{files.root}/bin/mote"
    shell.type("bind 'set bell-style none'; bind 'set enable-bracketed-paste off'; "
               f"mote() {{ if [ \"$1\" = completion ]; then {program} \"$@\"; return; fi; "
               f"printf '%s\\n' \"$@\" >>{out}; echo END >>{out}; }}; {start}; echo END >>{out}\n")
    shell.wait_for(out, 1)
    failures = 0
    for i, (keys, expected) in enumerate(rows):
        shell.type(keys + "\n")
        got = shell.wait_for(out, i + 2)[-1]
        if got != expected:
            failures += 1
            print(f"bash: {keys!r} gives {got}, not {expected}")
    shell.type("exit\n")
    shell.close()
    return failures


def test_bash(files):
    rows = lines_of(files.table)
    failures = compare("bash", rows, bash_lines(files, rows))
    failures += bash_inserts(files, "source " + str(files.root / "completion.bash"))
    package = pathlib.Path("/usr/share/bash-completion/bash_completion")
    if package.exists():  # it loads the script by its name at the first Tab
        directory = files.root / ".local/share/bash-completion/completions"
        directory.mkdir(parents=True)
        shutil.copy(files.root / "completion.bash", directory / "mote")
        failures += bash_inserts(files, f"source {package}")
    return failures


ZSH = r"""
autoload -Uz compinit && compinit -D -u
zstyle ':completion:*' verbose no
source %(script)s
# Every match goes through compadd.
compadd() {
    local -a hits
    if [[ ${@[1,(i)(-|--)]} != *-(O|A|D)\ * ]]; then
        builtin compadd -O hits "$@"
        mote_test_found+=($hits)
    fi
    builtin compadd "$@"
}
dump() {
    mote_test_found=()
    _main_complete
    compstate[insert]='' compstate[list]=''
    print -rl -- ${(u)mote_test_found} END >>%(out)s
}
typeset -ga mote_test_found
zle -C dump list-choices dump
bindkey '^X^D' dump
# Before zsh edits the line, the terminal would take Ctrl-U and Ctrl-D for itself.
zle-line-init() { print END >>%(out)s }
zle -N zle-line-init
"""


def test_zsh(files):
    rows = lines_of(files.table)
    out = files.root / "found"
    init = files.root / "init.zsh"
    init.write_text(ZSH % {"script": files.script("zsh"), "out": out})
    shell = Terminal(files, ["zsh", "-f", "-i"])
    shell.type(f"source {init}\n")
    shell.wait_for(out, 1)
    found = []
    for i, (line, _, _) in enumerate(rows):
        shell.type(f"\x15{line}\x18\x04")  # clear the line, type, complete
        found.append(shell.wait_for(out, i + 2)[-1])
    shell.type("\x15exit\n")
    shell.close()
    return compare("zsh", rows, [[g for g in f if g] for f in found])


def test_fish(files):
    rows = lines_of(files.table)
    script = [f"source {files.script('fish')}"]
    for line, _, _ in rows:
        script += [f"complete -C '{line}'", "echo END"]
    out = files.run(["fish", "--no-config"], input="\n".join(script) + "\n")
    found = [[l.split("\t")[0] for l in r.split("\n") if l] for r in out.split("END\n")[:-1]]
    return compare("fish", rows, found)


def main():
    shell = sys.argv[1]
    if shutil.which(shell) is None:
        print(f"no {shell}")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as root:
        files = Files(pathlib.Path(root))
        offered = files.run([MOTE, "completion", "--models"]).split("\n")[:-1]
        failures = sorted(offered) != sorted(ALIASES + [INSTALLED])
        if failures:
            print(f"mote completion --models offers {offered}")
        failures += {"bash": test_bash, "zsh": test_zsh, "fish": test_fish}[shell](files)
        failures += files.evaluated()
    sys.exit(1 if failures else 0)


main()
