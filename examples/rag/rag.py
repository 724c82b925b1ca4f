#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rag.py - questions about a directory of text files, answered with citations.

    rag.py index DIRECTORY     read new and changed files (*.txt, *.md)
    rag.py ask QUESTION        answer from the most relevant passages

The index is one SQLite file with the passages, their embeddings and a full-text index.
Environment: OPENAI_BASE_URL, OPENAI_API_KEY, MODEL, and INDEX, the SQLite file.
"""
import array
import hashlib
import json
import operator
import os
import pathlib
import re
import sqlite3
import sys

import openai

MODEL = os.environ.get("MODEL", "qwen3.5:4b")
PASSAGE_CHARACTERS = 1000
PASSAGES = 4  # in a prompt
client = openai.OpenAI(base_url=os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:11435/v1"),
                       api_key=os.environ.get("OPENAI_API_KEY", "none"))


def open_index():
    db = sqlite3.connect(os.environ.get("INDEX", "index.sqlite"))
    db.executescript("""
        CREATE TABLE IF NOT EXISTS files(name TEXT PRIMARY KEY, hash TEXT);
        CREATE TABLE IF NOT EXISTS passages(id INTEGER PRIMARY KEY, file TEXT, first INTEGER, last INTEGER,
                                            text TEXT, vector BLOB);
        CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(text);
    """)
    return db


def passages_of(text):
    """Yields (first line, last line, text): paragraphs, joined up to PASSAGE_CHARACTERS."""
    lines, start, end, size = text.split("\n"), None, 0, 0
    for number, line in enumerate(lines, 1):
        is_full = size > PASSAGE_CHARACTERS or (size > PASSAGE_CHARACTERS // 2 and not line.strip())
        if is_full:
            yield start, end, "\n".join(lines[start - 1:end])
            start, size = None, 0
        if line.strip():
            start, end, size = start or number, number, size + len(line)
    if start is not None:
        yield start, end, "\n".join(lines[start - 1:end])


def embed(texts):
    """Vectors of length 1, as bytes of floats. The mean over all tokens suits a chat model."""
    vectors = []
    for i in range(0, len(texts), 64):
        reply = client.embeddings.create(model=MODEL, input=texts[i:i + 64], encoding_format="float",
                                         extra_body={"pooling": "mean"})
        vectors += [array.array("f", item.embedding).tobytes() for item in reply.data]
    return vectors


def remove_file(db, name):
    for (passage,) in db.execute("SELECT id FROM passages WHERE file = ?", (name,)).fetchall():
        db.execute("DELETE FROM passages WHERE id = ?", (passage,))
        db.execute("DELETE FROM words WHERE rowid = ?", (passage,))
    db.execute("DELETE FROM files WHERE name = ?", (name,))


def index(db, directory):
    paths = {str(path): path for path in sorted(pathlib.Path(directory).rglob("*")) if path.suffix in (".txt", ".md")}
    known = dict(db.execute("SELECT name, hash FROM files"))
    with db:
        for name in known.keys() - paths.keys():
            remove_file(db, name)
    changed = 0
    for name, path in paths.items():
        data = path.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        if known.get(name) == digest:
            continue
        passages = list(passages_of(data.decode("utf-8", errors="replace")))
        vectors = embed([text for _, _, text in passages])
        with db:  # one transaction per file: an interrupted run continues with the next one
            remove_file(db, name)
            for (first, last, text), vector in zip(passages, vectors):
                row = db.execute("INSERT INTO passages(file, first, last, text, vector) VALUES (?, ?, ?, ?, ?)",
                                 (name, first, last, text, vector))
                db.execute("INSERT INTO words(rowid, text) VALUES (?, ?)", (row.lastrowid, text))
            db.execute("INSERT INTO files VALUES (?, ?)", (name, digest))
        changed += 1
    count = db.execute("SELECT count(*) FROM passages").fetchone()[0]
    print(f"{len(paths)} files, {changed} new or changed, {count} passages")


def find(db, question):
    """Ids of passages, best first: the ranks by embedding and by words, combined (reciprocal rank fusion)."""
    wanted = array.array("f", embed([question])[0])
    near = {row: sum(map(operator.mul, wanted, array.array("f", vector)))
            for row, vector in db.execute("SELECT id, vector FROM passages")}
    words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question))
    matching = [row for (row,) in db.execute("SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT 50",
                                             (words,))] if words else []
    scores = {}
    for ranking in (sorted(near, key=near.get, reverse=True)[:50], matching):
        for rank, row in enumerate(ranking):
            scores[row] = scores.get(row, 0) + 1 / (60 + rank)
    return sorted(scores, key=scores.get, reverse=True)[:PASSAGES]


def ask(db, question):
    found = [db.execute("SELECT file, first, last, text FROM passages WHERE id = ?", (row,)).fetchone()
             for row in find(db, question)]
    if not found:
        sys.exit("the index is empty: rag.py index DIRECTORY")
    text = "\n\n".join(f"[{i}] {passage[3]}" for i, passage in enumerate(found, 1))
    # The schema allows only numbers of passages that are in the prompt.
    schema = {"type": "object", "additionalProperties": False, "required": ["sources", "answer"], "properties": {
        "sources": {"type": "array", "items": {"enum": list(range(1, len(found) + 1))}, "minItems": 1,
                    "uniqueItems": True},
        "answer": {"type": "string", "maxLength": 600}}}
    reply = client.chat.completions.create(
        model=MODEL, temperature=0, reasoning_effort="none",
        response_format={"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}},
        messages=[{"role": "system", "content": "Answer from the passages. If they do not say it, say so. `sources` are "
                                                "the numbers of the passages that the answer relies on."},
                  {"role": "user", "content": f"{text}\n\n{question}"}])
    result = json.loads(reply.choices[0].message.content)
    print(result["answer"])
    for number in result["sources"]:
        name, first, last, _ = found[number - 1]
        print(f"[{number}] {name}:{first}-{last}")


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in ("index", "ask"):
        sys.exit(__doc__)
    db = open_index()
    if sys.argv[1] == "index":
        index(db, sys.argv[2])
    else:
        ask(db, " ".join(sys.argv[2:]))


if __name__ == "__main__":
    main()
