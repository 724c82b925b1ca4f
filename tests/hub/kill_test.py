# SPDX-License-Identifier: Apache-2.0
"""kill_test.py - `kill -9` at random moments of a pull; the next run completes it.

    MOTE=... python3 tests/hub/kill_test.py --kills 1000 --mib 200 [--directory /dev/shm]

Each round starts a pull in an empty cache, kills it after a random time, and runs it again. The second run
must succeed, the hash must match, and at most one range per connection may be downloaded twice: of the
bytes that the killed run had written, the second run requests those of at most that many ranges. In every
fifth round only the program is killed and not its helper, which then ends by itself.
"""
import argparse
import glob
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

from double import Double, gguf_bytes, range_of
from hub_rig import MIB, PATIENCE, check_installed, equal, new_home, repo_dir

RANGE = 8 * MIB
FILE = "model-Q4_K_M.gguf"


def data_ranges(path):
    """The numbers of the 8 MiB ranges of a sparse file that have data."""
    found = set()
    fd = os.open(path, os.O_RDONLY)
    try:
        end = 0
        while True:
            begin = os.lseek(fd, end, os.SEEK_DATA)
            end = os.lseek(fd, begin, os.SEEK_HOLE)
            found.update(range(begin // RANGE, (end - 1) // RANGE + 1))
    except OSError:  # no more data
        return found
    finally:
        os.close(fd)


class Kills:
    def __init__(self, hub, repo, jobs, seed):
        self.hub, self.repo, self.jobs = hub, repo, jobs
        self.size = repo.file(FILE).size
        self.random = random.Random(seed)
        self.seconds = 0  # of a pull that is not killed
        self.twice = []  # for each kill: ranges downloaded twice
        self.finished = 0  # rounds in which the pull ended before the kill; they do not count
        self.began = 0  # kills after which there was a part file

    def start(self, home):
        return subprocess.Popen([os.environ["MOTE"], "pull", f"hf:{self.repo.name}:{FILE}", "--jobs", str(self.jobs)],
                                env=self.hub.env(home), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, start_new_session=True)

    def complete(self, home):
        """A run to its end. It must succeed and leave the right file and no part."""
        process = self.start(home)
        err = process.communicate(timeout=PATIENCE)[1].decode(errors="replace")
        assert process.returncode == 0, f"exit code {process.returncode}: {err}"
        check_installed(home, self.repo, FILE)
        equal(os.listdir(os.path.join(repo_dir(home, self.repo), "blobs")), [self.repo.file(FILE).sha256])

    def measure(self):
        times = []
        for _ in range(3):
            with new_home() as home:
                began = time.monotonic()
                self.complete(home)
                times.append(time.monotonic() - began)
        self.seconds = min(times)

    def asked(self):
        """The numbers of the ranges that clients asked for."""
        found = set()
        for request in self.hub.requests("cdn"):
            if request.method == "GET":
                begin, end = range_of(request, self.size) or (0, self.size)
                found.update(range(begin // RANGE, (end - 1) // RANGE + 1))
        return found

    def round(self, whole):
        """One kill. `whole`: the helper is killed as well. False: the pull had ended."""
        with new_home() as home:
            process = self.start(home)
            time.sleep(self.random.uniform(0, self.seconds))
            if whole:
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
            # The end of stderr means that the helper has gone as well.
            process.communicate(timeout=PATIENCE)
            if process.returncode == 0:
                self.finished += 1
                return False
            equal(process.returncode, -signal.SIGKILL)
            parts = glob.glob(os.path.join(repo_dir(home, self.repo), "blobs", "*.mote-part"))
            had = data_ranges(parts[0]) if parts else set()
            self.hub.forget()
            self.complete(home)
            twice = len(had & self.asked())
            assert twice <= self.jobs, f"{twice} ranges are downloaded twice, with {self.jobs} connections"
            self.twice.append(twice)
            self.began += bool(parts)
            return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--mib", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", help="where to download to (default: the temporary directory)")
    args = parser.parse_args()
    tempfile.tempdir = args.directory
    with Double() as hub:
        repo = hub.add("owner/Model-GGUF", {FILE: gguf_bytes(args.mib * MIB + 777)})
        kills = Kills(hub, repo, args.jobs, args.seed)
        kills.measure()
        while (n := len(kills.twice)) < args.kills:
            if kills.round(whole=n % 5 != 4) and n % 50 == 49:
                print(f"{n + 1} kills, at most {max(kills.twice)} ranges twice", flush=True)
    print(f"{args.kills} kills of a pull of {args.mib} MiB in {kills.seconds:.2f} s with {args.jobs} connections: "
          f"every next run completed; ranges downloaded twice: at most {max(kills.twice)}, "
          f"on average {sum(kills.twice) / len(kills.twice):.2f}; {kills.began} kills left a part file; "
          f"{kills.finished} pulls that ended before the kill are not counted")
    return 0


if __name__ == "__main__":
    sys.exit(main())
