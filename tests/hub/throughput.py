# SPDX-License-Identifier: Apache-2.0
"""throughput.py - `mote pull` against curl: the same file from the same nginx over loopback with TLS.

    MOTE=... python3 tests/hub/throughput.py [--mib 1024] [--tries 5] [--http1]

nginx serves the file from disk without the Python program. Each try downloads with curl (to a file), then
with mote (which hashes), into the same directory. Prints the best of the tries and their ratio. Exit code 1
if mote is slower than 0.9 of curl.
"""
import argparse
import os
import shutil
import sys
import tempfile
import time

from double import Double, gguf_bytes
from hub_rig import MIB, check_installed, run
from scenarios import replaced

GOAL = 0.9


def timed(command, env):
    began = time.monotonic()
    code, out, err = run(command, env)
    seconds = time.monotonic() - began
    assert code == 0, f"{command[0]} exits with {code}: {out}{err}"
    return seconds


def large_file(path, mib):
    """A file with a GGUF head and random content, in pieces."""
    with open(path, "wb") as f:
        f.write(gguf_bytes(MIB, 1))
        for _ in range(1, mib):
            f.write(os.urandom(MIB))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--tries", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--http1", action="store_true")
    parser.add_argument("--directory", help="where to download to (default: the temporary directory)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.directory) as work, Double(http2=not args.http1, workers=2) as hub:
        source = os.path.join(work, "source.gguf")
        large_file(source, args.mib)
        repo = hub.add("owner/Model-GGUF", {"a.gguf": source})
        direct = f"{hub.url('cdn')}/direct/{repo.file('a.gguf').sha256}"
        repo.hooks["resolve"] = lambda request, answer: replaced(answer, location=direct)
        best = {}
        for _ in range(args.tries):
            home = os.path.join(work, "home")
            os.mkdir(home)
            env = hub.env(home)
            seconds = {"curl": timed(["curl", "-sSf", "--cacert", hub.authority.file, "-o",
                                      os.path.join(home, "out"), direct], env)}
            os.unlink(os.path.join(home, "out"))
            seconds["mote"] = timed([os.environ["MOTE"], "pull", f"hf:{repo.name}:a.gguf", "--jobs", str(args.jobs)], env)
            check_installed(home, repo, "a.gguf")
            shutil.rmtree(home)
            print("  ".join(f"{name} {args.mib / s:.0f} MiB/s" for name, s in seconds.items()), flush=True)
            for name, s in seconds.items():
                best[name] = min(s, best.get(name, s))
        ratio = best["curl"] / best["mote"]
        print(f"best of {args.tries}, {args.mib} MiB: curl {args.mib / best['curl']:.0f} MiB/s, "
              f"mote {args.mib / best['mote']:.0f} MiB/s, ratio {ratio:.2f}")
    return 0 if ratio >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
