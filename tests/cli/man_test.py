# SPDX-License-Identifier: Apache-2.0
"""man_test.py - the man pages of the build: complete, and without warnings of mandoc.

usage: MOTE=program SHARE=directory SOURCE=directory man_test.py

SHARE is what `cmake --install` puts into the share directory. The command table comes from
`mote help --json`, the routes from src/server/api/routes.c.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

share = pathlib.Path(os.environ["SHARE"])
source = pathlib.Path(os.environ["SOURCE"])
table = json.loads(subprocess.run([os.environ["MOTE"], "help", "--json"], capture_output=True, check=True).stdout)["commands"]
failures = []


def text_of(page):
    """The page as man shows it, without line breaks, bold and hyphenation."""
    out = subprocess.run(["mandoc", "-T", "utf8", "-O", "width=1000", page], capture_output=True, check=True).stdout
    return re.sub(r"\s+", " ", re.sub(".\b", "", out.decode()))


def need(page, text, wanted):
    if wanted not in text:
        failures.append(f"{page.name} does not have: {wanted}")


if shutil.which("mandoc") is None:
    print("no mandoc")
    sys.exit(77)
pages = {p.name: p for p in share.glob("man/man*/*")}
expected = {f"mote-{c['name']}.1" for c in table} | {"mote.1", "mote-config.5", "mote-api.7"}
if set(pages) != expected:
    failures.append(f"pages missing: {expected - set(pages)}, unexpected: {set(pages) - expected}")
lint = subprocess.run(["mandoc", "-T", "lint", "-W", "warning"] + sorted(map(str, pages.values())), capture_output=True, text=True)
if lint.returncode != 0 or lint.stdout:
    failures.append(lint.stdout + lint.stderr)

overview, config = text_of(pages["mote.1"]), text_of(pages["mote-config.5"])
for command in table:
    page = pages[f"mote-{command['name']}.1"]
    text = text_of(page)
    need(page, text, command["summary"])
    need(pages["mote.1"], overview, f"{command['name']} {command['summary']}")
    for flag in command["flags"]:
        letter = f"-{flag['letter']}, " if flag["letter"] else ""
        need(page, text, f" {letter}--{flag['name']} {flag['value'] + ' ' if flag['value'] else ''}{flag['help'][:20]}")
        if flag["environment"]:
            need(page, text, f"{flag['environment']} Default of --{flag['name']}")
        if flag["config"]:
            need(pages["mote-config.5"], config, f" {flag['name']} = ")

api = (pages["mote-api.7"]).read_text().replace("\\-", "-")
routes = re.findall(r'^    \{([A-Z |]+),\s*"([^"]+)",', (source / "src/server/api/routes.c").read_text(), re.M)
listed = re.findall(r"^\.It ([A-Z, ]+) (\S+)$", api, re.M)
if sorted((m.replace(" | ", ", "), p) for m, p in routes) != sorted(listed) or len(routes) < 20:
    failures.append(f"mote-api.7 and the route table differ: {set(listed) ^ {(m.replace(' | ', ', '), p) for m, p in routes}}")

for shell, path in (("bash", "bash-completion/completions/mote"), ("zsh", "zsh/site-functions/_mote"),
                    ("fish", "fish/vendor_completions.d/mote.fish")):
    printed = subprocess.run([os.environ["MOTE"], "completion", shell], capture_output=True, check=True).stdout
    if (share / path).read_bytes() != printed:
        failures.append(f"{path} is not what mote completion {shell} prints")
print("\n".join(failures))
print(f"{len(pages)} pages, {len(failures)} failures")
sys.exit(1 if failures else 0)
