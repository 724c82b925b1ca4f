# SPDX-License-Identifier: Apache-2.0
"""client_test.py - the published huggingface_hub client works with the test double as with the real hub."""
import os
import sys

import hub_rig as rig
from double import BAD_TOKEN_TEXT, TOKEN, Double, gguf_bytes
from hub_rig import MIB, case, check_installed, check_tokens, client, equal, hf, new_home, repo_dir, run

FILES = {"model-Q4_K_M.gguf": gguf_bytes(11 * MIB, 1), "model-Q8_0.gguf": gguf_bytes(300000, 2),
         "BF16/model-BF16-00001-of-00002.gguf": gguf_bytes(200000, 3),
         "BF16/model-BF16-00002-of-00002.gguf": gguf_bytes(100000, 4),
         "mmproj-F16.gguf": gguf_bytes(50000, 5), "README.md": b"# A model\n", "config.json": b"{}\n"}


def sent(hub):
    """The requests, short: method, listener, route."""
    def route(path):
        for word in ("resolve-cache", "resolve", "tree", "revision", "xet-bridge-us"):
            if f"/{word}/" in path:
                return word
        return path
    return [f"{r.method} {r.listener} {route(r.path)}" for r in hub.requests() if "agent-harnesses" not in r.path]


def failures(env, *downloads):
    """The types and texts of the exceptions of hf_hub_download with these arguments, one per line."""
    code, out, err = run([sys.executable, "-c", f"""
import huggingface_hub as hub
for words in {downloads!r}:
    try:
        hub.hf_hub_download(words[0], words[1], revision=words[2] if len(words) > 2 else None)
        print("no error")
    except Exception as e:
        print(type(e).__name__, " ".join(str(e).split()))
"""], env)
    equal(code, 0)
    return out.splitlines()


@case
def one_large_file(hub, repo):
    with new_home() as home:
        hub.forget()
        path = client(hub.env(home), f"hub.hf_hub_download('{repo.name}', 'model-Q4_K_M.gguf')")
        equal(os.path.realpath(path).rsplit("/", 1)[1], repo.file("model-Q4_K_M.gguf").sha256)
        equal(sent(hub), ["HEAD hub resolve", "GET cdn xet-bridge-us"])
        check_installed(home, repo, "model-Q4_K_M.gguf")
        equal(hub.requests("hub")[0].headers["authorization"], "Bearer " + TOKEN)
        check_tokens(hub, TOKEN)


@case
def one_small_file(hub, repo):
    with new_home() as home:
        hub.forget()
        client(hub.env(home), f"hub.hf_hub_download('{repo.name}', 'README.md')")
        equal(sent(hub), ["HEAD hub resolve", "HEAD hub resolve-cache", "GET hub resolve-cache"])
        check_installed(home, repo, "README.md")


@case
def a_snapshot_in_pages(hub, repo):
    """All files; the listing has two entries per page."""
    paged = hub.add("owner/Paged-GGUF", FILES, page=2)
    with new_home() as home:
        hub.forget()
        client(hub.env(home), f"hub.snapshot_download('{paged.name}')")
        check_installed(home, paged, *FILES)
        equal(sum("tree" in s for s in sent(hub)), 4)
        check_tokens(hub, TOKEN)


@case
def the_command_and_its_cache_tools(hub, repo):
    with new_home() as home:
        env = hub.env(home)
        hf(env, "download", repo.name, "--include", "*Q8_0*", "--include", "mmproj*")
        check_installed(home, repo, "model-Q8_0.gguf", "mmproj-F16.gguf")
        listed = hf(env, "cache", "ls", "--show-warnings")
        assert repo.name in listed and "warning" not in listed.lower(), listed
        assert "2" in hf(env, "cache", "verify", repo.name)
        # Offline it finds the file and sends nothing.
        hub.forget()
        hf({**env, "HF_HUB_OFFLINE": "1"}, "download", repo.name, "model-Q8_0.gguf")
        equal(hub.requests(), [])
        # Again online: one HEAD, no content.
        hf(env, "download", repo.name, "model-Q8_0.gguf")
        equal(sent(hub), ["HEAD hub resolve"])
        hf(env, "cache", "prune", "-y")
        check_installed(home, repo, "model-Q8_0.gguf")


@case
def verify_sees_a_flipped_bit(hub, repo):
    with new_home() as home:
        env = hub.env(home)
        hf(env, "download", repo.name, "model-Q8_0.gguf")
        with open(os.path.join(repo_dir(home, repo), "blobs", repo.file("model-Q8_0.gguf").sha256), "r+b") as f:
            f.seek(1000)
            byte = f.read(1)[0]
            f.seek(1000)
            f.write(bytes([byte ^ 1]))
        code, out, err = run([os.path.join(os.path.dirname(sys.executable), "hf"), "cache", "verify", repo.name], env)
        assert code == 1 and repo.file("model-Q8_0.gguf").sha256 in out + err, (code, out, err)


@case
def a_cut_body_is_resumed_with_a_range(hub, _):
    """The client asks for the rest, beyond its steps of 10 MiB."""
    cuts = []

    def cut_once(request, answer):
        if cuts:
            return answer
        cuts.append(request)
        status, headers, body = answer
        request.head(status, [*headers, ("Content-Length", len(body))])
        request.send(body[:10 * MIB + 500000])
        request.close()
        return None

    repo = hub.add("owner/cut", {"a.gguf": FILES["model-Q4_K_M.gguf"]}, cdn="raw_cdn")
    repo.hooks["cdn"] = cut_once
    with new_home() as home:
        hub.forget()
        client(hub.env(home), f"hub.hf_hub_download('{repo.name}', 'a.gguf')")
        check_installed(home, repo, "a.gguf")
        equal([r.headers.get("range") for r in hub.requests("raw_cdn")], [None, f"bytes={10 * MIB}-"])


@case
def an_expired_url_is_refused(hub, repo):
    """A signed URL that has expired, and one with a token, get 403 from the CDN."""
    with new_home() as home:
        url = hub.signed_url(repo, repo.file("model-Q8_0.gguf"))
        fetch = ["curl", "-sS", "--cacert", hub.authority.file, "-o", os.path.join(home, "out"), "-w", "%{http_code}"]
        equal(run([*fetch, url], os.environ)[1], "200")
        equal(run([*fetch, "-r", "10-19", url], os.environ)[1], "206")
        equal(os.path.getsize(os.path.join(home, "out")), 10)
        equal(run([*fetch, "-r", "300000-", url], os.environ)[1], "416")
        equal(run([*fetch, "-H", "Authorization: Bearer x", url], os.environ)[1], "403")
        repo.generation += 1
        equal(run([*fetch, url], os.environ)[1], "403")


@case
def errors_have_the_types_of_the_client(hub, repo):
    hub.add("owner/gated", {"a.gguf": gguf_bytes(1000)}, access="gated")
    hub.add("owner/private", {"a.gguf": gguf_bytes(1000)}, access="private")
    with new_home() as home:
        env = hub.env(home)
        lines = failures(env, (repo.name, "none.gguf"), (repo.name, "README.md", "none"), ("owner/none", "a.gguf"),
                         ("owner/gated", "a.gguf"), ("owner/private", "a.gguf"))
        equal([line.split()[0] for line in lines], ["RemoteEntryNotFoundError", "RevisionNotFoundError",
                                                    "RepositoryNotFoundError", "GatedRepoError", "no"])
        anonymous = {**env, "HF_TOKEN": "", "HF_HOME": os.path.join(home, "other")}
        line, = failures(anonymous, ("owner/private", "a.gguf"))
        assert line.startswith("RepositoryNotFoundError"), line
        line, = failures({**anonymous, "HF_TOKEN": "hf_" + "b" * 34}, (repo.name, "README.md"))
        assert BAD_TOKEN_TEXT in line, line


def start():
    with Double() as hub:
        repo = hub.add("owner/Model-GGUF", FILES)
        return rig.main(hub, repo)


if __name__ == "__main__":
    sys.exit(start())
