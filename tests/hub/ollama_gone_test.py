# SPDX-License-Identifier: Apache-2.0
"""ollama_gone_test.py - Ollama removes a blob that mote uses in place, as it does when it starts or pulls again.

The server that has the model mapped finishes its response. The next command says that the file is gone and
which command brings it back.
"""
import hashlib
import http.client
import json
import os
import shutil
import sys

from hub_rig import PATIENCE, equal, new_home, run
from rig import Server

SOURCE = os.path.join(os.environ["DATA"], "mote-tiny-Q4_K_M.gguf")
MESSAGE = [{"role": "user", "content": "Count from 1 to 50."}]


class Store:
    """A directory as Ollama writes it, with one model."""

    def __init__(self, home, name="tiny"):
        self.root = os.path.join(home, "ollama")
        with open(SOURCE, "rb") as f:
            digest = hashlib.file_digest(f, "sha256").hexdigest()
        self.blob = os.path.join(self.root, "blobs", "sha256-" + digest)
        manifest = os.path.join(self.root, "manifests", "registry.ollama.ai", "library", name, "latest")
        for path in (self.blob, manifest):
            os.makedirs(os.path.dirname(path))
        layer = {"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:" + digest,
                 "size": os.path.getsize(SOURCE)}
        with open(manifest, "w", encoding="utf-8") as f:
            json.dump({"schemaVersion": 2, "layers": [layer]}, f)
        self.pull()

    def pull(self):
        shutil.copyfile(SOURCE, self.blob + "-partial")
        os.rename(self.blob + "-partial", self.blob)


def answer(server, between=None):
    """The text of a streamed answer. `between` is called after its first piece."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    body = {"model": "tiny", "messages": MESSAGE, "temperature": 0, "max_tokens": 60, "stream": True,
            "enable_thinking": False}
    headers = {"Content-Type": "application/json", "Authorization": "Bearer " + (server.key or "")}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
    reply = connection.getresponse()
    equal(reply.status, 200)
    text = ""
    for line in reply:
        if not line.startswith(b"data: {"):
            continue
        piece = json.loads(line[6:])["choices"]
        text += piece[0]["delta"].get("content") or "" if piece else ""
        if text and between is not None:
            between()
            between = None
    connection.close()
    assert between is None and text, text
    return text


def main():
    with new_home() as home:
        store = Store(home)
        empty = {name: "" for name in ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME",
                                       "XDG_DATA_HOME", "XDG_CONFIG_HOME", "MOTE_MODELS", "LLAMA_CACHE")}
        env = {**empty, "HOME": home, "OLLAMA_MODELS": store.root}
        with Server("--parallel", "1", "--kv-tokens", "1024", model=None, env=env) as server:
            expected = answer(server)
            equal(answer(server, between=lambda: os.unlink(store.blob)), expected)
            command = [os.environ["MOTE"], "run", "tiny", "Hello", "-n", "1"]
            code, out, err = run(command, {**os.environ, **env})
            equal((code, out), (6, ""))
            assert "tiny cannot be used: Ollama has removed its file; try: ollama pull tiny" in err, err
            code, out, err = run([os.environ["MOTE"], "list"], {**os.environ, **env})
            equal(code, 0)
            assert "Ollama has removed its file" in out, out
            # Pulled again: another inode, the same name.
            store.pull()
            equal(run(command, {**os.environ, **env})[0], 0)
            equal(answer(server, between=store.pull), expected)
    return 0


if __name__ == "__main__":
    sys.exit(main())
