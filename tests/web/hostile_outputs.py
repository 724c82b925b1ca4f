# SPDX-License-Identifier: Apache-2.0
"""hostile_outputs.py - answers of a model that try to run script in the page, or to block it.

Each script calls hit(), which a test defines in the page. outputs(n) returns n of them: fixed ones, then combinations
from a fixed seed.
"""
import random

CALL = "hit()"

HTML = [
    "<script>hit()</script>", "<SCRIPT SRC=/web/main.js></SCRIPT>", "<img src=x onerror=hit()>", "<svg onload=hit()>",
    "<svg><script>hit()</script></svg>", "<iframe srcdoc='<script>parent.hit()</script>'></iframe>",
    "<body onload=hit()>", "<details open ontoggle=hit()>", "<video><source onerror=hit()></video>",
    "<input autofocus onfocus=hit()>", "<math><mtext></p><style><img src=x onerror=hit()></style></mtext></math>",
    "<a href='javascript:hit()'>x</a>", "<form action='javascript:hit()'><button>x</button></form>",
    "<object data='javascript:hit()'></object>", "<embed src='javascript:hit()'>", "<base href='https://evil.example/'>",
    "<meta http-equiv=refresh content='0;url=javascript:hit()'>", "<link rel=stylesheet href='https://evil.example/x.css'>",
    "<style>@import 'https://evil.example/x.css'; *{background:url(https://evil.example/y)}</style>",
    "<div style='background:url(https://evil.example/z)'>x</div>", "<template><img src=x onerror=hit()></template>",
    "<noscript><p title='</noscript><img src=x onerror=hit()>'></noscript>", "<!--><img src=x onerror=hit()>-->",
    "<svg><animate onbegin=hit() attributeName=x dur=1s>", "<marquee onstart=hit()>", "<x onpointerover=hit() class=message>x</x>",
    "<table background='javascript:hit()'>", "<button popovertarget=key>x</button>", "<dialog open onclose=hit()>x</dialog>",
    "<img src='/v1/models'>", "<img srcset='https://evil.example/x 1x'>", "<input id=input><a id=send></a>",
]
MARKDOWN = [
    "[x](javascript:hit())", "[x](JaVaScRiPt:hit())", "[x](&#106;avascript:hit())", "[x](java\nscript:hit())",
    "[x](data:text/html;base64,PHNjcmlwdD5oaXQoKTwvc2NyaXB0Pg==)", "[x](vbscript:hit())", "<javascript:hit()>",
    "![x](https://evil.example/pixel.png)", "![x](javascript:hit())", "![x](data:image/svg+xml,<svg onload=hit()>)",
    "[x]: javascript:hit()\n\n[x]", "[x](https://evil.example/ \"' onmouseover=hit() '\")", "![' onerror=hit() x='](y)",
    "```\"><img src=x onerror=hit()>\ncode\n```", "```html\n<script>hit()</script>\n```", "~~~js\" onclick=\"hit()\nx\n~~~",
    "`<img src=x onerror=hit()>`", "# <svg onload=hit()>", "> <img src=x onerror=hit()>", "- <img src=x onerror=hit()>",
    "| a |\n|:-:|\n| <img src=x onerror=hit()> |", "| a |\n|---|\n" + "| x |\n" * 300, "&lt;script&gt;hit()&lt;/script&gt;",
    "&#60;img src=x onerror=hit()&#62;", "\\<script>hit()\\</script>", "[a](<https://evil.example/\" onclick=hit() x=\">)",
]
CHARACTERS = [
    "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b[2J", "\x00\x01\x02\x08\x7f", "\u202eevil\u202c \u2066x\u2069 \u200f\u200e",
    "\ufeff\u200b\u2028\u2029\u0085", "\ud7ff\ufffd\uffff\U0010ffff", "e" + "\u0301" * 5000, "\U0001f468\u200d" * 2000,
    "\u0645\u0631\u062d\u0628\u0627 <img src=x onerror=hit()> \u05e9\u05dc\u05d5\u05dd", "\r\r\n\n\r", "a\tb\t" * 1000,
]
LARGE = [
    "x" * 1000000, "<b>" * 200000, "[" * 50000, "[x](" * 20000, "*" * 50000, "`" * 50000, "> " * 20000, "- " * 20000,
    "a\n\n" * 20000, "# h\n\n" * 5000, "```\n" * 10000, "![" * 20000, "&" * 100000, "|" * 30000 + "\n" + "|-" * 15000, "*a _b " * 10000,
    "1. x\n" * 10000, "```js\n" + "f(" * 100000, "<!--" * 50000, "\\" * 100000, "https://evil.example/" * 20000, "~~a" * 10000,
    "[x][y]\n\n" * 5000, " " * 500000 + "x", "\n" * 200000, "(((((" * 20000, "word " * 200000, "[a]: b\n" * 10000, "** " * 20000,
]
# Texts just below the limits of the page (web/blocks.js): each block, line or box costs as much as it may.
LIMITS = [
    ("e" + "\u0301" * 16) * 2000, "\n".join(["x" + "\u0315" * 3000] * 40), "\u0915\u094d" * 1900 + "\n\n" + "\u0b95\u0bcd" * 1900,
    "\u1112\u1161\u11ab" * 1300, "\u200b" * 3900, ("\u202e\u2067a" * 1300 + "\n") * 10, "\U0001f468\u200d\U0001f469\u200d" * 900,
    "|" + "a|" * 300 + "\n|" + "-|" * 300 + "\n" + "x\n" * 3000,
    "|" + "a|" * 40 + "\n|" + "-|" * 40 + "\n" + ("|" + "b|" * 40 + "\n") * 500, "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 5000,
    "*a **b " * 280 + "c** d* " * 280, ("[a](<b" * 600 + "\n\n") * 40, ("[" * 3900 + "\n\n") * 20, ("`" + "a``" * 1200 + "\n\n") * 20,
    ("<a" * 1900 + "\n\n") * 20, ("[x](https://a.example/b) " * 150 + "\n\n") * 60, ("&lt;" * 950 + "\n\n") * 40,
    ("\\*" * 1900 + "\n\n") * 40, ("**a** " * 650 + "\n\n") * 60, ("*_" * 1950 + "\n\n") * 20,
    "".join("  " * (i % 15) + "- x\n" for i in range(4000)), "".join(">" * (i % 20) + " x\n" for i in range(4000)),
    "- a\n\n  b\n\n" * 3000, "```js\n" + "f(\n" * 6000, "```js\n" + ("f(a, " * 150 + "\n") * 100,
    "```js\n" + "/*" * 400 + "\n" * 100 + "`${" * 300, "```html\n" + "<a " * 300 + "\n" + "<a b='\n" * 3000,
    "```\n" + "\n" * 100000, "```c\n" + "int x = 1;\n" * 10000, "```py\n" + "'''\n\"\"\"\n" * 3000,
    "- x\n  ```js\n" + "  let a = `b`;\n" * 3000, "```js\n" + "x" * 500000 + "\nlet y;\n```\n\nend", "```js\n" + "e" + "\u0301" * 5000,
    "".join(chr(0x1000 + 97 * i) for i in range(300)),
    "".join(f"[r{i}]\n" for i in range(2000)) + "".join(f"[r{i}]: https://a.example/{i}\n" for i in range(2000)),
    ("a" * 3900 + "\n") * 100, ("\t" * 3900 + "a\n") * 30, "a\u00ad" * 30000, "-" * 3999 + "\n" + "=" * 3999,
    ("\u05d0a" * 1900 + "\n") * 30,
]
# Bytes that are not UTF-8, sent inside the JSON of a stream.
BROKEN = [b"\xff\xfe\xfd", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"abc\xe2\x82", b"\x80" * 500]


def texts(n, seed=23):
    fixed = HTML + MARKDOWN + CHARACTERS + LARGE + LIMITS
    out, chance = fixed[:n], random.Random(seed)
    small = HTML + MARKDOWN + CHARACTERS[:5]
    while len(out) < n:
        parts = chance.choices(small, k=chance.randint(2, 6))
        glue = chance.choice(["", " ", "\n", "\n\n", "</p>", "\"", "'", "`", "\n    ", "\n> ", "]("])
        out.append(glue.join(parts))
    return out
