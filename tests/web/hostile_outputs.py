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
# Bytes that are not UTF-8, sent inside the JSON of a stream.
BROKEN = [b"\xff\xfe\xfd", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"abc\xe2\x82", b"\x80" * 500]


def texts(n, seed=23):
    fixed = HTML + MARKDOWN + CHARACTERS + LARGE
    out, chance = fixed[:n], random.Random(seed)
    small = HTML + MARKDOWN + CHARACTERS[:5]
    while len(out) < n:
        parts = chance.choices(small, k=chance.randint(2, 6))
        glue = chance.choice(["", " ", "\n", "\n\n", "</p>", "\"", "'", "`", "\n    ", "\n> ", "]("])
        out.append(glue.join(parts))
    return out
