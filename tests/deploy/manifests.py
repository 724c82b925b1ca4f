# SPDX-License-Identifier: Apache-2.0
"""manifests.py - flags, limits and metrics named in deploy/ and docs/operations.md exist; manifests are valid."""
import os
import re
import subprocess
import tempfile
import sys

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "sdk"))
import rig  # noqa: E402
from rig import case, equal  # noqa: E402

ROOT = os.path.join(HERE, "..", "..")
# Flags of other programs in the same files.
FOREIGN = {"--chown", "--create", "--no-install-recommends", "--target", "--read-only", "--cap-drop", "--from", "--interval",
           "--timeout", "--now", "--from-file", "--build", "--install", "--prefix", "--strip"}


def text_of(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def help_of(command):
    return subprocess.run([os.environ["MOTE"], "help", command], text=True, capture_output=True,
                          check=True).stdout


@case
def flags_exist():
    commands = ("serve", "ps", "top", "doctor", "pull", "list")
    known = set(re.findall(r"--[a-z][a-z-]+", "".join(help_of(c) for c in commands)))
    for path in ("docs/operations.md", "docs/scaling.md", "deploy/systemd/mote.service",
                 "deploy/kubernetes/mote.yaml", "deploy/Containerfile", "deploy/nginx/mote.conf",
                 "deploy/haproxy/haproxy.cfg", "deploy/prometheus/mote.rules.yml"):
        text = re.sub(r"`scripts/[^`]*`", "", text_of(path))  # scripts have flags of their own
        used = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) - FOREIGN
        assert used <= known, (path, sorted(used - known))


@case
def limits_exist():
    for path in ("docs/operations.md", "deploy/kubernetes/mote.yaml"):
        for name in re.findall(r"(connections-per-ip|total-body-bytes)", text_of(path)):
            done = subprocess.run([os.environ["MOTE"], "serve", "/nowhere", "--limit", name + "=x"],
                                  text=True, capture_output=True)
            assert done.returncode != 0
            assert name in text_of("src/server/core/limits.h"), name


@case
def metrics_are_documented():
    """Checks the metrics that a server prints. A vision model, a memory limit, stored files and models that are loaded on request
    add some."""
    explained = set(re.findall(r"\bmote_[a-z0-9_]+", text_of("docs/operations.md")))
    with tempfile.TemporaryDirectory() as work, \
            rig.Server("--memory", "2", "--files", work + "/files", sees=True) as server:
        printed = set(re.findall(r"^# TYPE (mote_[a-z0-9_]+) ", server.text("/metrics"), re.MULTILINE))
    with tempfile.TemporaryDirectory() as home, \
            rig.Server(model=None, env={"HOME": home, "MOTE_MODELS": os.environ["DATA"]}) as server:
        printed |= set(re.findall(r"^# TYPE (mote_[a-z0-9_]+) ", server.text("/metrics"), re.MULTILINE))
    equal(sorted(printed - explained), [])
    equal(sorted(explained - printed), [])


@case
def kubernetes():
    documents = list(yaml.safe_load_all(text_of("deploy/kubernetes/mote.yaml")))
    equal([d["kind"] for d in documents],
          ["Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"])
    pod = documents[0]["spec"]["template"]
    container = pod["spec"]["containers"][0]
    labels = pod["metadata"]["labels"]
    for d in documents[1:]:
        spec = d["spec"]
        chosen = spec.get("selector") or spec.get("podSelector")
        equal(chosen.get("matchLabels", chosen), labels)
    equal(container["resources"]["requests"], container["resources"]["limits"])
    mounts = {m["name"] for m in container["volumeMounts"]}
    equal(mounts, {v["name"] for v in pod["spec"]["volumes"]})
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    # The container runs `mote`, and its arguments follow the program. The image has one volume.
    image = text_of("deploy/Containerfile")
    equal(yaml.safe_load(re.search(r"ENTRYPOINT (\[.*\])", image)[1]), ["/usr/bin/mote"])
    words = yaml.safe_load(re.search(r"CMD (\[.*\])", image)[1])
    equal([w for w in words if w not in container["args"]], [])
    volume = re.search(r"VOLUME (\S+)", image)[1]
    assert any(m["mountPath"] == volume for m in container["volumeMounts"])
    assert container["args"][1].startswith(volume + "/"), container["args"]
    equal(re.search(r"USER (\d+):", image)[1], str(pod["spec"]["securityContext"]["runAsUser"]))


@case
def prometheus():
    scrape = yaml.safe_load(text_of("deploy/prometheus/scrape.yml"))
    equal(scrape["scrape_configs"][0]["job_name"], "mote")
    rules = yaml.safe_load(text_of("deploy/prometheus/mote.rules.yml"))
    alerts = [r["alert"] for g in rules["groups"] for r in g["rules"] if "alert" in r]
    equal(len(alerts), len(set(alerts)))


sys.exit(rig.main())
