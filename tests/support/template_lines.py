# SPDX-License-Identifier: Apache-2.0
"""template_lines.py - conversations of tests/data, rendered by the chat templates with jinja2."""
import json
import os

# The name of a template in the lines, and the name that mote gives it.
STYLES = {"0.8B/2B": "qwen3.5-small", "4B+": "qwen3.5", "3.5-unsloth": "qwen3.5-unsloth", "3.6": "qwen3.6",
          "3.6-unsloth": "qwen3.6-unsloth", "3.8": "qwen3.8", "3.8-unsloth": "qwen3.8-unsloth"}
FILES = {"golden/chat/vectors.jsonl": 194, "model/templates/render_vectors.jsonl": 40,
         "golden/chat/vectors_36_38.jsonl": 329, "golden/chat/vectors_35_unsloth.jsonl": 145}

# Content spells a control token: jinja2 and the reference tokenizer produce it, mote keeps it as text. The
# templates of Qwen 3.8 leave inline reasoning in the content.
SPELLING = {"user_control_text", "reason_open_only", "reason_field_and_inline", "result_as_user",
            "only_result_user"}
INLINE = {"reason_inline_last", "reason_inline_old", "reason_inline_no_open", "reason_two_closes",
          "reason_two_blocks", "preserve_true_inline", "preserve_false_inline"}


def read_lines(data):
    """All lines, each with the key `style`."""
    lines = []
    for name, count in FILES.items():
        with open(os.path.join(data, name), encoding="utf-8") as f:
            found = [json.loads(line) for line in f]
        assert len(found) == count, (name, len(found))
        lines += found
    for line in lines:
        line["style"] = STYLES[line["template"]]
    return lines


def spells_control(line):
    return line["name"] in SPELLING or (line["template"].startswith("3.8") and line["name"] in INLINE)


def is_engine_error(line):
    """The error is that of jinja2, not a text of the template: any rejection will do."""
    return "Error:" in line["error"] or line["error"].startswith("'")
