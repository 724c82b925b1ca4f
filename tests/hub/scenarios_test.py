# SPDX-License-Identifier: Apache-2.0
"""scenarios_test.py [--part hub|status|net|disk|place|calls|large] [NAME...] - `mote pull` with hubs, networks and disks that misbehave.

Names select the rows with a name that contains one of them. --table prints number, name, exit code, seconds
and message of every row.
"""
import argparse
import concurrent.futures
import re
import sys
import time
import traceback

import scenario_call_rows
import scenario_disk_rows
import scenario_large_rows
import scenario_net_rows
import scenario_place_rows
import scenario_rows
import scenario_status_rows
from double import Double
from hub_rig import new_home
from scenarios import ROWS, Scenario, Skip

PARTS = {"hub": scenario_rows, "status": scenario_status_rows, "net": scenario_net_rows, "disk": scenario_disk_rows,
         "place": scenario_place_rows, "calls": scenario_call_rows, "large": scenario_large_rows}
TOGETHER = 12  # rows wait more than they compute


def message(result):
    """The message of a row, for the table."""
    if result.code == 0:
        return ""
    return re.sub(r"127\.0\.0\.1:\d+", "HOST", (result.err.strip().splitlines() or [""])[-1])


def run_row(hub, row):
    began = time.monotonic()
    with new_home() as home:
        try:
            result = Scenario(hub, home, row).run()
        except Skip as e:
            return row, "skip", str(e), 0
        except Exception:
            return row, "FAIL", traceback.format_exc(), time.monotonic() - began
    return row, result.code, message(result), time.monotonic() - began


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--part", choices=PARTS)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    rows = [r for r in ROWS if (args.part is None or r.function.__module__ == PARTS[args.part].__name__)
            and (not args.names or any(n in r.name for n in args.names))]
    failed = skipped = 0
    with Double() as hub, concurrent.futures.ThreadPoolExecutor(TOGETHER) as pool:
        for row, code, text, seconds in pool.map(lambda r: run_row(hub, r), rows):
            failed += code == "FAIL"
            skipped += code == "skip"
            if args.table or code in ("FAIL", "skip"):
                print(f"{row.number:2} {row.name:42} {code!s:4} {seconds:5.1f} s  {text}", flush=True)
    numbers = len({r.number for r in rows})
    print(f"{len(rows) - failed - skipped} of {len(rows)} rows of {numbers} scenarios, {skipped} skipped, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
