#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""invoices.py - images of invoices to a table, with `mote batch` in between.

    invoices.py requests IMAGE... > requests.jsonl     one request per image
    invoices.py table ANSWERS.jsonl > invoices.csv     one row per answer

The columns are the properties of invoice.schema.json. A page without a complete answer is named on
standard error and makes the exit code 1; the other pages are in the table.
"""
import base64
import csv
import json
import pathlib
import sys

TYPES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp"}
SCHEMA = json.loads((pathlib.Path(__file__).parent / "invoice.schema.json").read_text(encoding="utf-8"))
PROMPT = "This is an invoice. Give me the vendor, invoice number, date, currency and total as JSON."


def request_of(path):
    """A line of a batch. The same text precedes every image, so it is prefilled once."""
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    return {"custom_id": path.name, "method": "POST", "url": "/v1/chat/completions", "body": {
        "messages": [{"role": "system", "content": PROMPT},
                     {"role": "user", "content": [
                         {"type": "image_url", "image_url": {"url": f"data:{TYPES[path.suffix.lower()]};base64,{data}"}}]}],
        "response_format": {"type": "json_schema",
                            "json_schema": {"name": "invoice", "schema": SCHEMA, "strict": True}},
        "reasoning_effort": "none", "temperature": 0, "presence_penalty": 0, "max_tokens": 300}}


def write_requests(names):
    for path in map(pathlib.Path, names):
        if path.suffix.lower() not in TYPES:
            sys.exit(f"{path}: not one of {', '.join(TYPES)}; convert it first, a PDF with pdftoppm")
        print(json.dumps(request_of(path)))


def invoice_of(line):
    """The invoice in a line of the results, or the reason why there is none."""
    if line["error"] or line["response"]["status_code"] != 200:
        return None, line["error"] or line["response"]["body"]
    choice = line["response"]["body"]["choices"][0]
    if choice["finish_reason"] != "stop":
        return None, f"finish_reason {choice['finish_reason']}"
    return json.loads(choice["message"]["content"]), None


def write_table(name):
    """Returns the number of pages without an invoice."""
    table = csv.DictWriter(sys.stdout, ["page", *SCHEMA["properties"]], lineterminator="\n")
    table.writeheader()
    failed = 0
    with open(name, encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            invoice, reason = invoice_of(line)
            if invoice is None:
                failed += 1
                print(f"{line['custom_id']}: {reason}", file=sys.stderr)
            else:
                table.writerow({"page": line["custom_id"], **invoice})
    return failed


def main():
    if len(sys.argv) >= 3 and sys.argv[1] == "requests":
        write_requests(sys.argv[2:])
    elif len(sys.argv) == 3 and sys.argv[1] == "table":
        sys.exit(1 if write_table(sys.argv[2]) else 0)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
