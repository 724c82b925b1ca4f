# SPDX-License-Identifier: Apache-2.0
"""around.py - properties of the build and of the machine that tests depend on.

Time limits are strict only on a quiet machine (MOTE_QUIET=1) and loose elsewhere. With a sanitizer tests
check neither time nor memory.
"""
import os

# Set by ctest.
SANITIZED = os.environ.get("MOTE_SANITIZED", "0") == "1"
# The amount of work of long tests.
SCALE = float(os.environ.get("MOTE_TEST_SCALE", "100")) / 100


def scaled(n, least):
    """n scaled by MOTE_TEST_SCALE, at least `least`."""
    return max(least, int(n * SCALE))


def is_quiet():
    """True if strict time limits make sense: MOTE_QUIET=1, no sanitizer, and a load below two per CPU.
    A shared machine can stop a program for longer than the limits, so the load alone is not enough."""
    return (os.environ.get("MOTE_QUIET") == "1" and not SANITIZED
            and os.getloadavg()[0] < 2 * os.cpu_count())


def waited(pid):
    """Seconds that the first thread of a process was runnable but not running: time in the run queue
    plus steal time of the machine. None: not available."""
    try:
        with open(f"/proc/{pid}/task/{pid}/schedstat", encoding="ascii") as f:
            line = int(f.read().split()[1]) * 1e-9
        with open("/proc/stat", encoding="ascii") as f:
            stolen = int(f.readline().split()[8]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return None
    return line + stolen
