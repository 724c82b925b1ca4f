# SPDX-License-Identifier: Apache-2.0
"""unit_calls.py - a vision server works under the restrictions of deploy/systemd/mote.service, and its decoders keep
their sandbox.

Test machines seldom run systemd. This file builds libseccomp filters from the unit (SystemCallFilter with the groups
of systemd-analyze, RestrictAddressFamilies, MemoryDenyWriteExecute), applies them to itself, and then executes the
server with a passed socket, or the probe (PROBE) that tries to escape from the decoder sandbox. As a program:
unit_calls.py UNIT PROGRAM ARGUMENTS...
"""
import ctypes
import errno
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
UNIT = os.path.join(HERE, "..", "..", "deploy", "systemd", "mote.service")
SETTINGS = os.path.join(HERE, "..", "..", "deploy", "systemd", "service.conf")
ALLOW, ERRNO = 0x7fff0000, 0x00050000
NOT_EQUAL, MASKED_EQUAL = 1, 7
PROT_WRITE, PROT_EXEC, PR_SET_NO_NEW_PRIVS = 2, 4, 38
# System calls that the sandbox of the decoders needs.
TOO_LITTLE = "SystemCallFilter=~seccomp prctl landlock_restrict_self\n"


class Compare(ctypes.Structure):
    _fields_ = [("argument", ctypes.c_uint), ("how", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


# ---- the unit ----

def settings(path):
    """Yields every "name=value" of a unit, in order."""
    with open(path, encoding="utf-8") as f:
        return [line.strip().split("=", 1) for line in f if re.match(r"[A-Z]\w+=", line)]


def groups():
    """Returns the system call groups of systemd."""
    text = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager"], check=True, capture_output=True,
                          text=True).stdout
    found, name = {}, None
    for line in text.splitlines():
        if line.startswith("@"):
            name = line.strip()
            found[name] = []
        elif name and line.startswith("    ") and not line.strip().startswith("#"):
            found[name].append(line.strip())
    return found


def calls_of(word, known):
    return {c for w in known[word] for c in calls_of(w, known)} if word.startswith("@") else {word}


def allowed(path):
    """Returns the system calls that the unit allows: the first list, minus and plus later lists, plus defaults."""
    known = groups()
    left = calls_of("@default", known)
    for name, value in settings(path):
        if name == "SystemCallFilter":
            calls = {c for word in value.lstrip("~").split() for c in calls_of(word, known)}
            left = left - calls if value.startswith("~") else left | calls
    return left


# ---- filters ----

class Filter:
    def __init__(self, otherwise):
        self.lib = ctypes.CDLL("libseccomp.so.2", use_errno=True)
        self.lib.seccomp_init.restype = ctypes.c_void_p
        self.context = ctypes.c_void_p(self.lib.seccomp_init(ctypes.c_uint32(otherwise)))

    def add(self, action, call, *compares):
        number = self.lib.seccomp_syscall_resolve_name(call.encode())
        array = (Compare * max(1, len(compares)))(*compares)
        if number >= 0:  # unknown calls belong to other architectures
            done = self.lib.seccomp_rule_add_array(self.context, ctypes.c_uint32(action), number, len(compares), array)
            assert done == 0, (call, done)

    def load(self):
        assert self.lib.seccomp_load(self.context) == 0, "the filter cannot be loaded"


def restrict(path):
    """Applies the restrictions of the unit to this process."""
    says = dict(settings(path))
    assert says["SystemCallErrorNumber"] == "EPERM" and says["RestrictAddressFamilies"] == "AF_UNIX", says
    assert says["MemoryDenyWriteExecute"] == says["NoNewPrivileges"] == "yes", says
    lists, memory = Filter(ERRNO | errno.EPERM), Filter(ALLOW)
    for call in allowed(path):
        lists.add(ALLOW, call)
    memory.add(ERRNO | errno.EPERM, "mmap", Compare(2, MASKED_EQUAL, PROT_WRITE | PROT_EXEC, PROT_WRITE | PROT_EXEC))
    memory.add(ERRNO | errno.EPERM, "mprotect", Compare(2, MASKED_EQUAL, PROT_EXEC, PROT_EXEC))
    memory.add(ERRNO | errno.EAFNOSUPPORT, "socket", Compare(0, NOT_EQUAL, socket.AF_UNIX, 0))
    assert ctypes.CDLL(None, use_errno=True).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    memory.load()
    lists.load()  # last: it forbids loading another filter


def pass_socket(arguments):
    """Turns the listen address into a socket passed as descriptor 3 (socket activation)."""
    at = arguments.index("--listen") + 1
    host, port = arguments[at].split(":")
    fd = socket.create_server((host, int(port))).detach()
    if fd != 3:
        os.dup2(fd, 3)
        os.close(fd)
    os.set_inheritable(3, True)
    os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
    return [*arguments[:at], "systemd", *arguments[at + 1:]]


def become(path, program, *arguments):
    words = pass_socket(list(arguments)) if "--listen" in arguments else arguments
    restrict(path)
    os.execv(program, [program, *words])


# ---- tests ----

def restricted(path, program):
    return [sys.executable, os.path.abspath(__file__), path, program]


def probe(path):
    """Returns (exit code, sandbox state) of the probe, with or without a unit."""
    command = [os.environ["PROBE"]] if path is None else restricted(path, os.environ["PROBE"])
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    print(done.stdout.strip().replace("\n", "; "), done.stderr.strip())
    return done.returncode, done.stdout.split("\n")[0].removeprefix("sandbox: ")


def decoders_keep_their_sandbox():
    free = probe(None)
    if free[1] == "off":
        print("there are no filters here")
        return
    rig.equal(probe(UNIT), free)
    with tempfile.NamedTemporaryFile("w", suffix=".service") as f, open(UNIT, encoding="utf-8") as unit:
        f.write(unit.read() + TOO_LITTLE)
        f.flush()
        assert probe(f.name) != free, "a unit without the calls that decoders lock themselves up with goes unnoticed"


def server_works():
    with rig.Server(sees=True, program=restricted(UNIT, os.environ["MOTE"])) as server:
        def ask(content):
            reply = server.get("/v1/chat/completions", {"model": "x", "temperature": 0, "reasoning_effort": "none",
                                                        "messages": [{"role": "user", "content": content}]})
            return reply["choices"][0]["message"]["content"]
        rig.equal(ask(rig.FACT), rig.FACT_ANSWER)
        for files, question, answer in rig.shown():
            parts = [{"type": "image_url", "image_url": {"url": rig.in_letters(f)}} for f in files]
            rig.equal(ask(parts + [{"type": "text", "text": question}]), answer)


def environment():
    """Returns the variables of the unit."""
    return dict(word.split("=", 1) for name, value in settings(UNIT) if name == "Environment" for word in value.split())


def install(work):
    """Installs mote-tiny as qwen3.5:4b in the cache of the service, here below `work`. Returns its variables."""
    variables = environment()
    assert variables["HF_HUB_CACHE"] == "/var/lib/mote/hub", variables
    for name, path in variables.items():
        variables[name] = work + path
        os.makedirs(os.path.dirname(work + path) if name == "MOTE_CONFIG" else work + path, exist_ok=True)
    shutil.copy(SETTINGS, variables["MOTE_CONFIG"])
    source = os.path.join(work, "from")
    os.mkdir(source)
    shutil.copy(os.path.join(os.environ["DATA"], "mote-tiny-BF16.gguf"), os.path.join(source, "Qwen3.5-4B-Q4_K_M.gguf"))
    subprocess.run([os.environ["MOTE"], "pull", "-q", "qwen3.5:4b", "--from", source], check=True, capture_output=True,
                   env={**os.environ, "HOME": work, "HF_HUB_CACHE": variables["HF_HUB_CACHE"]})
    return variables


def installed_models_work():
    """The server of the unit, with its variables and settings in another directory."""
    program, *flags = dict(settings(UNIT))["ExecStart"].split()
    rig.equal([program, *flags], ["/usr/local/bin/mote", "serve", "--listen", "systemd", "--log", "json"])
    with tempfile.TemporaryDirectory() as work:
        env = {**install(work), "HOME": "/"}
        with rig.Server(model=None, sees=True, env=env, program=restricted(UNIT, os.environ["MOTE"])) as server:
            reply = server.get("/v1/chat/completions", {"model": "qwen3.5:4b", "temperature": 0, "reasoning_effort": "none",
                                                        "messages": [{"role": "user", "content": rig.FACT}]})
    rig.equal(reply["choices"][0]["message"]["content"], rig.FACT_ANSWER)


if __name__ == "__main__" and len(sys.argv) > 2:
    become(*sys.argv[1:])
sys.path.insert(0, os.path.join(HERE, "..", "sdk"))
import rig  # noqa: E402

if __name__ == "__main__":
    if shutil.which("systemd-analyze") is None or not os.path.exists(
            os.path.join(os.environ["DATA"], "mote-tiny-BF16.gguf")):
        sys.exit(77)
    try:
        Filter(ALLOW)
    except OSError:
        print("there is no libseccomp")
        sys.exit(77)
    decoders_keep_their_sandbox()
    server_works()
    if os.path.exists(os.path.join(os.path.dirname(os.environ["MOTE"]), "mote-pull")):
        installed_models_work()
