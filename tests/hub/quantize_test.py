# SPDX-License-Identifier: Apache-2.0
"""quantize_test.py - `mote pull --quantize`: Safetensors files of a hub become an installed, quantised model."""
import json
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "convert"))
import checkpoint  # noqa: E402
from double import Double  # noqa: E402
from hub_rig import case, equal, main, new_home, run  # noqa: E402

MOTE, DATA = os.environ["MOTE"], Path(os.environ["DATA"])
REPO, MODEL = "owner/Mote-Tiny", "mote-tiny-q4_k_m"


def files_of(directory):
    return {path.name: str(path) for path in Path(directory).iterdir()}


def pull(env, *flags, repo=REPO):
    return run([MOTE, "pull", "hf:" + repo, "--quantize", *flags], env)


def own_files(home):
    root = Path(home) / ".local/share/mote/models"
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


@case
def download_quantise_run():
    """The tensors are those of mote-tiny-Q4_K_M.gguf, and the model has a name. A second run does nothing."""
    with Double() as hub, new_home() as home, tempfile.TemporaryDirectory() as work:
        made = checkpoint.make(Path(work) / "model", DATA / "mote-tiny-BF16.gguf", DATA / "mmproj-mote-tiny-BF16.gguf",
                               shards=3)
        hub.add(REPO, files_of(made) | {"consolidated.safetensors": b"x" * 100, "original/model.bin": b"y" * 100})
        env = hub.env(home)
        code, out, err = pull(env, "Q4_K_M")
        equal((code, "installed as " + MODEL in err), (0, True))
        equal(own_files(home), ["Mote-Tiny/Mote-Tiny-Q4_K_M.gguf", "Mote-Tiny/mmproj-Mote-Tiny.gguf"])
        model = checkpoint.Model(out.strip())
        equal(model.tensors, checkpoint.Model(DATA / "mote-tiny-Q4_K_M.gguf").tensors)
        equal(model.text("general.name"), "Mote-Tiny")
        fetched = {r.path.rsplit("/", 1)[1] for r in hub.requests() if "/resolve/" in r.path}
        equal(fetched & {"consolidated.safetensors", "model.bin"}, set())
        for words in (["run", MODEL, "Hello", "--temp", "0", "--threads", "1", "--max-tokens", "4"], ["show", MODEL]):
            equal(run([MOTE, *words], env)[0], 0)
        hub.forget()
        code, out, _ = pull(env, "q4_k_m", "--json")
        equal((code, json.loads(out)["name"], hub.requests()), (0, MODEL, []))


@case
def another_directory():
    """MOTE_MODELS, and a type that is measured; offline the files of the cache are enough."""
    with Double() as hub, new_home() as home, tempfile.TemporaryDirectory() as work:
        made = checkpoint.make(Path(work) / "model", DATA / "shapes/r3-gqa4-untied.gguf")
        hub.add("owner/shape", files_of(made))
        models = os.path.join(home, "models")
        code, out, err = pull(hub.env(home, MOTE_MODELS=models), "Q8_0", repo="owner/shape")
        equal((code, out), (0, os.path.join(models, "shape/shape-Q8_0.gguf") + "\n"))
        del err


@case
def errors():
    with Double() as hub, new_home() as home:
        hub.add(REPO, {"Tiny-Q4_K_M.gguf": str(DATA / "mote-tiny-Q4_K_M.gguf")})
        env = hub.env(home)
        for words, code, text in ((("pull", "hf:" + REPO, "--quantize", "Q4_K_M"), 3, "has no model*.safetensors"),
                                  (("pull", "hf:" + REPO, "--quantize", "Q9"), 2, "unknown type Q9; one of"),
                                  (("pull", "qwen3.5:4b", "--quantize", "Q8_0"), 2, "needs a repository of Safetensors"),
                                  (("pull", "hf:" + REPO, "--quantize", "Q8_0", "--file", "x"), 2, "excludes")):
            done = run([MOTE, *words], env)
            equal((done[0], text in done[2]), (code, True))
        equal(own_files(home), [])


main()
