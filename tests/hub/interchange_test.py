# SPDX-License-Identifier: Apache-2.0
"""interchange_test.py - mote and the published huggingface_hub client use one cache.

Each finds what the other one has downloaded, without another download. Both download the same file at once
in ROUNDS rounds (MOTE_HUB_ROUNDS; scripts/hub_long runs 200).
"""
import os
import random
import subprocess
import sys
import threading
import time

import hub_rig as rig
from double import TOKEN, Double, gguf_bytes, range_of
from hub_rig import MIB, PATIENCE, cache_of, case, check_installed, check_tokens, client, equal, hf, new_home, run

ROUNDS = int(os.environ.get("MOTE_HUB_ROUNDS", "4"))
FILE = "model-Q4_K_M.gguf"
FILES = {FILE: gguf_bytes(20 * MIB + 1, 21), "README.md": b"# A model\n"}


def pull(env, repo, *flags):
    code, out, err = run([os.environ["MOTE"], "pull", f"hf:{repo.name}:{FILE}", *flags], env)
    assert code == 0, f"mote pull exits with {code}:\n{out}{err}"
    return out


def content_bytes(hub, repo):
    """The bytes of content that clients have asked for."""
    spans = (range_of(r, repo.file(FILE).size) or (0, repo.file(FILE).size)
             for r in hub.requests("cdn", "raw_cdn", repo=repo.name) if r.method == "GET")
    return sum(end - begin for begin, end in spans)


@case
def the_client_finds_what_mote_pulled(hub, repo):
    with new_home() as home:
        env = hub.env(home)
        pull(env, repo)
        check_installed(home, repo, FILE)
        check_tokens(hub, TOKEN)
        hub.forget()
        path = client(env, f"hub.hf_hub_download('{repo.name}', '{FILE}')")
        equal([f"{r.method} {r.listener}" for r in hub.requests()], ["HEAD hub"])
        equal(rig.sha256_of(path), repo.file(FILE).sha256)
        listed = hf(env, "cache", "ls", "--show-warnings")
        assert repo.name in listed and "warning" not in listed.lower(), listed
        hf(env, "cache", "verify", repo.name)
        hf(env, "cache", "prune", "-y")
        hub.forget()
        offline = {**env, "HF_HUB_OFFLINE": "1"}
        equal(client(offline, f"hub.hf_hub_download('{repo.name}', '{FILE}')"), path)
        equal(hub.requests(), [])


@case
def mote_finds_what_the_client_downloaded(hub, repo):
    with new_home() as home:
        env = hub.env(home)
        client(env, f"hub.hf_hub_download('{repo.name}', '{FILE}')")
        hub.forget()
        pull(env, repo)
        equal(content_bytes(hub, repo), 0)
        check_installed(home, repo, FILE)
        hub.forget()
        code, out, err = run([os.environ["MOTE"], "list", "--json"], {**env, "HF_HUB_OFFLINE": "1"})
        assert code == 0 and repo.name in out, (code, out, err)
        equal(hub.requests(), [])


def copied(env, repo, data, *flags):
    """`mote pull --from DIR` of a directory with one file. Returns what it printed."""
    with new_home() as directory:
        with open(os.path.join(directory, FILE), "wb") as f:
            f.write(data)
        code, out, err = run([os.environ["MOTE"], "pull", f"hf:{repo.name}:{FILE}", "--from", directory, *flags], env)
        assert code == 0, (code, out, err)
        return out.strip(), err


@case
def the_client_finds_what_mote_copied(hub, _):
    """Without a ref the copy gets one, so that the client finds it. A later download replaces the ref."""
    repo = hub.add("owner/copied", FILES)
    with new_home() as home:
        env = hub.env(home)
        out, err = copied({**env, "HF_HUB_OFFLINE": "1"}, repo, FILES[FILE])
        offline = {**env, "HF_HUB_OFFLINE": "1"}
        equal(client(offline, f"hub.hf_hub_download('{repo.name}', '{FILE}')"), out)
        listed = hf(env, "cache", "ls", "--show-warnings")
        assert repo.name in listed and "warning" not in listed.lower(), listed
        hub.forget()
        pull(env, repo)
        equal(content_bytes(hub, repo), 0)
        check_installed(home, repo, FILE)


@case
def a_copy_leaves_the_ref(hub, _):
    """The client had downloaded the repository. After a copy of other bytes it sees the same files as before."""
    repo = hub.add("owner/kept", FILES)
    other = gguf_bytes(100000, 33)
    with new_home() as home:
        env = hub.env(home)
        before = client(env, f"hub.snapshot_download('{repo.name}')")
        out, err = copied(env, repo, other)
        assert f"main of {repo.name} stays at {repo.head}" in err and os.path.dirname(out) in err, err
        offline = {**env, "HF_HUB_OFFLINE": "1"}
        equal(client(offline, f"hub.snapshot_download('{repo.name}')"), before)
        check_installed(home, repo, FILE)
        commit = os.path.basename(os.path.dirname(out))
        assert commit != repo.head, commit
        equal(client(offline, f"hub.hf_hub_download('{repo.name}', '{FILE}', revision='{commit}')"), out)
        with open(out, "rb") as f:
            equal(f.read(), other)
        # The same bytes as in main: nothing to say.
        _, err = copied(env, repo, FILES[FILE])
        assert "stays" not in err, err
        check_installed(home, repo, FILE)


@case
def mote_replaces_what_the_client_got_damaged(hub, _):
    """The client stores a file with a flipped bit under the name of its hash. mote hashes what it finds."""
    repo = hub.add("owner/damaged", FILES, cdn="raw_cdn")

    def flip(request, answer):
        data = bytearray(answer[2])
        data[len(data) // 2] ^= 1
        return answer[0], answer[1], bytes(data)
    repo.hooks["cdn"] = flip
    with new_home() as home:
        env = hub.env(home)
        path = client(env, f"hub.hf_hub_download('{repo.name}', '{FILE}')")
        assert rig.sha256_of(path) != repo.file(FILE).sha256
        del repo.hooks["cdn"]
        pull(env, repo)
        check_installed(home, repo, FILE)


@case
def the_client_waits_for_mote(hub, _):
    """mote holds the lock while it downloads. The client then needs no content."""
    repo = hub.add("owner/waits", FILES, cdn="raw_cdn")
    release, asked = threading.Event(), threading.Event()

    def hold(request, answer):
        asked.set()
        release.wait(PATIENCE)
        return answer
    repo.hooks["cdn"] = hold
    with new_home() as home:
        env = hub.env(home)
        hub.forget()
        mote = subprocess.Popen([os.environ["MOTE"], "pull", f"hf:{repo.name}:{FILE}"], env=env,
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert asked.wait(PATIENCE)
        other = subprocess.Popen([sys.executable, "-c", "import huggingface_hub as hub\n"
                                  f"hub.hf_hub_download('{repo.name}', '{FILE}')"], env=env)
        # The client has read the metadata: its next step is the lock.
        rig.until(lambda: any(r.method == "HEAD" and "hf_hub" in r.headers.get("user-agent", "")
                              for r in hub.requests("hub", repo=repo.name)), "the client sends no HEAD")
        release.set()
        equal((mote.wait(PATIENCE), other.wait(PATIENCE)), (0, 0))
        equal(content_bytes(hub, repo), repo.file(FILE).size)
        check_installed(home, repo, FILE)


@case
def both_at_once(hub, repo):
    """Whoever gets the lock downloads; the other one uses the file. The content crosses the network once."""
    rng = random.Random(ROUNDS)
    by_mote = 0
    for n in range(ROUNDS):
        with new_home() as home:
            env = hub.env(home)
            hub.forget()
            commands = [[os.environ["MOTE"], "pull", f"hf:{repo.name}:{FILE}"],
                        [sys.executable, "-c",
                         f"import huggingface_hub as hub\nhub.hf_hub_download('{repo.name}', '{FILE}')"]]
            # Python starts slowly. In every other round mote waits for its first request, so that either one is first.
            started = [subprocess.Popen(commands[1], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)]
            if n % 2:
                rig.until(lambda: hub.requests("hub"), "the client sends nothing")
            time.sleep(rng.uniform(0, 0.1 if n % 2 else 0.8))
            started.append(subprocess.Popen(commands[0], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
            texts = [p.communicate(timeout=PATIENCE)[0].decode(errors="replace") for p in started]
            assert [p.returncode for p in started] == [0, 0], f"round {n}: {texts}"
            check_installed(home, repo, FILE)
            equal(content_bytes(hub, repo), repo.file(FILE).size)
            by_mote += not any("hf_hub" in r.headers.get("user-agent", "") for r in hub.requests("cdn"))
            left = [name for name in os.listdir(os.path.join(rig.repo_dir(home, repo), "blobs"))
                    if name != repo.file(FILE).sha256]
            equal(left, [])
            check_tokens(hub, TOKEN)
    print(f"{ROUNDS} rounds: mote downloaded in {by_mote}, the client in {ROUNDS - by_mote}")


def start():
    with Double() as hub:
        return rig.main(hub, hub.add("owner/Model-GGUF", FILES))


if __name__ == "__main__":
    sys.exit(start())
