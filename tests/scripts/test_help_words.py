# SPDX-License-Identifier: Apache-2.0
"""The help of every command passes check_words: test_help_words.py MOTE

The commands are those of the overview that `mote help` prints: two blanks, a name, a text.
"""
import re
import subprocess
import sys
from pathlib import Path

CHECK = Path(__file__).resolve().parents[2] / "scripts/check_words"
COMMAND = re.compile(r"^  ([a-z]+)  +\S", re.MULTILINE)


def help_of(mote, *command):
    return subprocess.run([mote, "help", *command], capture_output=True, text=True, check=True).stdout


def main():
    mote, failed = sys.argv[1], False
    overview = help_of(mote)
    commands = COMMAND.findall(overview)
    if not {"run", "serve", "help"} <= set(commands):
        sys.exit(f"no commands in the overview:\n{overview}")
    for name, text in [("", overview), *((name, help_of(mote, name)) for name in commands)]:
        run = subprocess.run([sys.executable, "-B", str(CHECK), "--stdin"], input=text, capture_output=True,
                             text=True, check=False)
        if run.returncode != 0:
            failed = True
            print(run.stdout.replace("stdin:", f"mote help {name}:"), run.stderr, sep="", end="")
    return 1 if failed else 0


sys.exit(main())
