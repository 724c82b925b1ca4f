# SPDX-License-Identifier: Apache-2.0
"""around.py - what a test may expect of the build and of the machine it runs on.

Times are held strictly where somebody says that the machine is quiet (MOTE_QUIET=1), and to what can
be held beside others elsewhere; under a sanitizer neither times nor memory are asked at all.
"""
import os

# Set by ctest.
SANITIZED = os.environ.get("MOTE_SANITIZED", "0") == "1"
# How much of its work a long test does.
SCALE = float(os.environ.get("MOTE_TEST_SCALE", "100")) / 100


def scaled(n, least):
    """So many of n as MOTE_TEST_SCALE asks for."""
    return max(least, int(n * SCALE))


def is_quiet():
    """Times mean something here and now: somebody says so, and nothing contradicts him. A shared machine
    can stop a program for longer than the goals allow, whatever its own load."""
    return (os.environ.get("MOTE_QUIET") == "1" and not SANITIZED
            and os.getloadavg()[0] < 2 * os.cpu_count())


def waited(pid):
    """Seconds that the first thread of a process could have run and did not, so far: others had the
    processor, or the machine itself was not given one. None: the system does not tell."""
    try:
        with open(f"/proc/{pid}/task/{pid}/schedstat", encoding="ascii") as f:
            line = int(f.read().split()[1]) * 1e-9
        with open("/proc/stat", encoding="ascii") as f:
            stolen = int(f.readline().split()[8]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return None
    return line + stolen
