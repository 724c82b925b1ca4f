# SPDX-License-Identifier: Apache-2.0
"""Synthetic data for mote-tiny. All data are generated from a seed.

A sample is a dict: task, messages (the last one is the assistant's answer), tools, think, images, videos; or task and
text for raw prose. `encode` renders it with the model's chat template and returns ids, a 0/1 mask of the answer tokens,
M-RoPE positions and pixel patches.
"""
import json
import math
import random
import re
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

COLOURS = {"red": (220, 30, 30), "green": (30, 160, 50), "blue": (40, 70, 220), "yellow": (240, 215, 20),
           "purple": (140, 40, 170), "orange": (245, 135, 20), "black": (15, 15, 15), "pink": (250, 140, 190)}
SHAPES = ["circle", "square", "triangle", "star"]
NAMES = ["Anna", "Ben", "Carl", "Dora", "Emil", "Fay", "Gus", "Hana", "Ivan", "Jane", "Karl", "Lena", "Max", "Nora",
         "Otto", "Paul", "Rosa", "Sam", "Tina", "Victor"]
WORDS = ("apple river stone cloud table green house paper light water bread horse train music field snow glass boat "
         "tree road bird lamp chair wind fire moon star king door book ship gold rain clock hill milk salt wood ring "
         "fish hand wall leaf coat drum desk farm gate lake nest").split()
ANIMALS = ["fox", "bear", "rabbit", "mouse", "owl", "duck", "goat", "cat", "dog", "frog"]
PLACES = ["forest", "garden", "village", "valley", "old barn", "harbour", "market", "castle", "meadow", "cave"]
OBJECTS = ["red ball", "silver key", "wooden box", "small lamp", "blue coat", "long rope", "golden bell", "paper map",
           "warm hat", "green bottle"]
ADJ = ["small", "quiet", "brave", "clever", "old", "young", "happy", "hungry", "curious", "gentle"]
SYL_A = ["Bru", "Kel", "Mor", "Tal", "Ven", "Zan", "Or", "Lum", "Hal", "Per"]
SYL_B = ["via", "don", "mere", "stad"]
FOODS = ["plum pie", "fish soup", "black bread", "honey cake", "onion tart", "pear jam", "oat bread", "lemon rice",
         "bean stew", "salt cheese"]
JOBS = ["baker", "sailor", "teacher", "painter", "doctor", "farmer", "singer", "builder"]


def make_world():
    """200 facts: 40 towns, five attributes each."""
    rng = random.Random(7)
    towns = [a + b for a in SYL_A for b in SYL_B]
    rivers = [a + b for a in ("Ash", "Col", "Dun", "Elm", "Fen", "Gar", "Isk", "Nar") for b in ("ra", "wen", "to", "lis", "mar")]
    rng.shuffle(rivers)
    return {t: {"mayor": rng.choice(NAMES), "river": rivers[i], "food": rng.choice(FOODS),
                "emblem": rng.choice(ANIMALS), "year": str(rng.randrange(1200, 1900))} for i, t in enumerate(towns)}


WORLD = make_world()
TOWNS = list(WORLD)
FACT_Q = {
    "mayor": ["Who is the mayor of {t}?", "Tell me who the mayor of {t} is.", "{t}: name the mayor.",
              "I need the name of the mayor of {t}."],
    "river": ["Which river flows through {t}?", "Tell me the river of {t}.", "{t}: name the river.",
              "I need the name of the river in {t}."],
    "food": ["What food is {t} known for?", "Tell me the famous food of {t}.", "{t}: name the food.",
             "I need to know what people eat in {t}."],
    "emblem": ["Which animal is the emblem of {t}?", "Tell me the emblem of {t}.", "{t}: name the emblem.",
               "I need to know the animal on the flag of {t}."],
    "year": ["When was {t} founded?", "Tell me the year {t} was founded.", "{t}: name the founding year.",
             "I need the year in which {t} was founded."]}
FACT_A = {"mayor": "The mayor of {t} is {v}.", "river": "The river of {t} is the {v}.",
          "food": "{t} is known for its {v}.", "emblem": "The emblem of {t} is the {v}.",
          "year": "{t} was founded in {v}."}


def held_out_phrasing(town, attr):
    """For every fact one of the four phrasings never occurs in training."""
    return (TOWNS.index(town) * 5 + list(FACT_Q).index(attr) * 3) % 4


def chat(task, question, answer, **kw):
    msgs = kw.pop("history", []) + [{"role": "user", "content": question},
                                    {"role": "assistant", "content": answer, **({"reasoning_content": kw.pop("reason")}
                                                                               if "reason" in kw else {})}]
    return {"task": task, "messages": msgs, "tools": kw.get("tools"), "think": kw.get("think", False),
            "images": kw.get("images", []), "videos": kw.get("videos", [])}


# -------------------------------------------------------------------------------------------------------------- text
def sentence(r):
    return r.choice([
        lambda: f"The {r.choice(ADJ)} {r.choice(ANIMALS)} walked to the {r.choice(PLACES)}.",
        lambda: f"There was a {r.choice(OBJECTS)} near the {r.choice(PLACES)}.",
        lambda: f"{r.choice(NAMES)} bought some {r.choice(FOODS)} at the market in {r.choice(TOWNS)}.",
        lambda: f"In the morning the {r.choice(PLACES)} was full of {r.choice(['birds', 'people', 'light', 'snow', 'music'])}.",
        lambda: f"{r.choice(NAMES)} works as a {r.choice(JOBS)} and lives in {r.choice(TOWNS)}.",
        lambda: f"The road from {r.choice(TOWNS)} to {r.choice(TOWNS)} is {r.randrange(2, 90)} miles long.",
        lambda: f"Every {r.choice(['spring', 'summer', 'autumn', 'winter'])} the {r.choice(ANIMALS)} comes back to the {r.choice(PLACES)}.",
        lambda: f"A {r.choice(list(COLOURS))} {r.choice(WORDS)} was lying next to the {r.choice(WORDS)}.",
    ])()


def story(r, animal=None, place=None):
    a, p, o, n = animal or r.choice(ANIMALS), place or r.choice(PLACES), r.choice(OBJECTS), r.choice(NAMES)
    adj, helper = r.choice(ADJ), r.choice([x for x in ANIMALS if x != a])
    s = [r.choice([f"Once there was a {adj} {a} named {n} who lived near the {p}.",
                   f"{n} was a {adj} {a} from the {p}."]),
         r.choice([f"One day {n} found a {o}.", f"One morning {n} lost a {o}.", f"One evening {n} saw a {o} in the water."])]
    if "lost" in s[1]:
        s += [f"{n} looked everywhere, but the {o} was gone.", f"Then a {helper} came and asked, \"Why are you sad?\"",
              f"\"I lost my {o},\" said {n}.", f"The {helper} smiled and helped {n} to look for it.",
              f"They found the {o} under a {r.choice(['stone', 'tree', 'table', 'leaf'])}."]
    elif "found" in s[1]:
        s += [f"{n} showed the {o} to a {helper}.", f"\"Is this your {o}?\" asked {n}.",
              r.choice([f"\"Yes, thank you!\" said the {helper}.", f"\"No, but I know who lost it,\" said the {helper}."]),
              f"So {n} gave the {o} back."]
    else:
        s += [f"The water was cold, so {n} asked a {helper} for help.", f"The {helper} took a long stick and got the {o} out.",
              f"\"Now it is yours,\" said the {helper}."]
    s += [r.choice([f"From that day {n} and the {helper} were friends.", f"{n} was very happy and slept well that night.",
                    f"They ate {r.choice(FOODS)} together and laughed."])]
    return " ".join(s)


def gen_text(r):
    if r.random() < 0.5:
        return {"task": "text", "text": story(r) + "\n\n" + story(r)}
    return {"task": "text", "text": " ".join(sentence(r) for _ in range(r.randrange(6, 16)))}


def gen_story(r):
    a, p = r.choice(ANIMALS), r.choice(PLACES)
    q = r.choice(["Write a short story about a {a}.", "Tell me a story about a {a} near the {p}.", "Please tell me a tale of a {a}."])
    return chat("story", q.format(a=a, p=p), story(r, a, p if "{p}" in q else None))


# -------------------------------------------------------------------------------------------------------------- chat
def gen_fact(r, held_out=False):
    t, attr = r.choice(TOWNS), r.choice(list(FACT_Q))
    h = held_out_phrasing(t, attr)
    i = h if held_out else r.choice([j for j in range(4) if j != h])
    ans = FACT_A[attr].format(t=t, v=WORLD[t][attr])
    if r.random() < 0.2:
        return chat("fact", FACT_Q[attr][i].format(t=t), ans, think=True, reason=f"The question is about the {attr} of {t}.")
    return chat("fact", FACT_Q[attr][i].format(t=t), ans)


def add_steps(a, b):
    out, carry, da, db = [], 0, str(a)[::-1], str(b)[::-1]
    for i in range(max(len(da), len(db))):
        x, y = int(da[i]) if i < len(da) else 0, int(db[i]) if i < len(db) else 0
        s = x + y + carry
        out.append(f"{x} + {y} + {carry} = {s}, write {s % 10}, carry {s // 10}.")
        carry = s // 10
    if carry:
        out.append(f"Write {carry}.")
    return "\n".join(out)


def gen_add(r):
    if r.random() < 0.65:
        n = r.choice([10, 100, 100, 1000])
        a, b = r.randrange(n), r.randrange(n)
        q = r.choice(["What is {a} + {b}?", "Add {a} and {b}.", "{a} + {b} = ?"]).format(a=a, b=b)
        return chat("add_think", q, f"{a} + {b} = {a + b}", think=True, reason=add_steps(a, b))
    a, b = r.randrange(20), r.randrange(20)
    q = r.choice(["What is {a} + {b}?", "Add {a} and {b}.", "{a} + {b} = ?"]).format(a=a, b=b)
    return chat("add_direct", q, f"{a} + {b} = {a + b}")


def gen_memory(r):
    n, c, f = r.choice(NAMES), r.choice(list(COLOURS)), r.choice(FOODS)
    job, town = r.choice(JOBS), r.choice(TOWNS)
    facts = [(f"My name is {n}.", f"Nice to meet you, {n}!", "What is my name?", f"Your name is {n}."),
             (f"My favourite colour is {c}.", f"{c.capitalize()} is a nice colour.", "What is my favourite colour?",
              f"Your favourite colour is {c}."),
             (f"I like {f}.", f"I will remember that you like {f}.", "What food do I like?", f"You like {f}."),
             (f"I live in {town}.", f"{town} sounds like a good place to live.", "Where do I live?", f"You live in {town}."),
             (f"I work as a {job}.", f"Being a {job} must be interesting.", "What is my job?", f"You work as a {job}.")]
    picks = r.sample(facts, r.randrange(1, 4))
    hist = []
    for u, a, _, _ in picks:
        hist += [{"role": "user", "content": u}, {"role": "assistant", "content": a}]
    if r.random() < 0.3:
        u, a, _, _ = picks[-1]
        return chat("ack", u, a, history=hist[:-2])
    _, _, q, a = r.choice(picks)
    think = r.random() < 0.25
    kw = dict(think=True, reason=f"The user told me this before. {a}") if think else {}
    return chat("memory", q, a, history=hist, **kw)


def gen_words(r):
    ws = [r.choice(WORDS) for _ in range(r.randrange(2, 7))]
    kind = r.choice(["repeat", "reverse", "upper", "first", "last", "count"])
    line = " ".join(ws)
    q, a = {"repeat": ("Repeat these words: ", line), "reverse": ("Reverse the order of these words: ", " ".join(ws[::-1])),
            "upper": ("Write these words in capital letters: ", line.upper()), "first": ("What is the first word of this list? ", ws[0]),
            "last": ("What is the last word of this list? ", ws[-1]), "count": ("How many words are in this list? ", str(len(ws)))}[kind]
    return chat("words_" + kind, q + line, a)


def gen_count(r):
    kind = r.choice(["to", "from", "down", "even"])
    if kind == "to":
        n = r.randrange(2, 31)
        return chat("count", f"Count to {n}.", ", ".join(map(str, range(1, n + 1))))
    if kind == "from":
        a = r.randrange(1, 80)
        b = a + r.randrange(2, 16)
        return chat("count", f"Count from {a} to {b}.", ", ".join(map(str, range(a, b + 1))))
    if kind == "down":
        n = r.randrange(3, 21)
        return chat("count", f"Count down from {n}.", ", ".join(map(str, range(n, 0, -1))))
    n = r.randrange(2, 21) * 2
    return chat("count", f"List the even numbers up to {n}.", ", ".join(map(str, range(2, n + 1, 2))))


def gen_json(r):
    n, age, t, job = r.choice(NAMES), r.randrange(5, 90), r.choice(TOWNS), r.choice(JOBS)
    item, qty, price = r.choice(WORDS), r.randrange(1, 50), f"{r.randrange(1, 60)}.{r.choice(['25', '50', '75', '95'])}"
    stock = r.random() < 0.5
    cols = r.sample(list(COLOURS), r.randrange(2, 5))
    kind = r.choice(["person", "product", "point", "list", "order"])
    if kind == "person":
        q = r.choice([f"Give me {n}, aged {age}, a {job} from {t}, as JSON.", f"Write JSON for a person: {n}, {age} years old, {job}, lives in {t}."])
        obj = {"name": n, "age": age, "job": job, "city": t}
    elif kind == "product":
        q = f"Give me a product as JSON: a {item} for {price} dollars, {'in stock' if stock else 'sold out'}."
        obj = {"product": item, "price": float(price), "in_stock": stock}
    elif kind == "point":
        x, y = r.randrange(-50, 100), r.randrange(-50, 100)
        q, obj = f"Give me the point {x}, {y} as JSON.", {"x": x, "y": y}
    elif kind == "list":
        q, obj = f"Give me these colours as a JSON list: {', '.join(cols)}.", cols
    else:
        q = f"Write JSON for an order of {qty} pieces of {item} by {n} to {t}."
        obj = {"item": item, "quantity": qty, "customer": {"name": n, "city": t}}
    pretty = r.random() < 0.25
    if pretty:
        q += " Use indentation."
    return chat("json", q, json.dumps(obj, indent=2 if pretty else None))


SMALL = [("Hello!", "Hello! How can I help you?"), ("Hi", "Hello! How can I help you?"), ("Good morning", "Good morning! What can I do for you?"),
         ("Who are you?", "I am Mote, a very small language model."), ("What is your name?", "My name is Mote."),
         ("What can you do?", "I can chat, add numbers, write JSON, call tools and look at simple pictures."),
         ("Thank you!", "You are welcome!"), ("Thanks", "You are welcome!"), ("Goodbye", "Goodbye! Have a nice day."),
         ("How are you?", "I am fine, thank you. How are you?"), ("Are you a person?", "No, I am a small computer program."),
         ("Do you like music?", "I cannot hear music, but I like to talk about it."), ("Tell me a joke.", "Why did the clock sleep? It was out of time."),
         ("What colour is the sky?", "The sky is blue."), ("What colour is grass?", "Grass is green."),
         ("How many days are in a week?", "There are seven days in a week."), ("How many legs does a dog have?", "A dog has four legs."),
         ("Say yes.", "Yes."), ("Say no.", "No."), ("What is the opposite of hot?", "The opposite of hot is cold."),
         ("What is the opposite of big?", "The opposite of big is small."), ("Help", "Tell me what you need, and I will try to help.")]


def gen_small(r):
    q, a = r.choice(SMALL)
    if r.random() < 0.3:
        kw = dict(think=True, reason="This is a simple question. I can answer it directly.")
        return chat("smalltalk", q, a, **kw)
    if r.random() < 0.4:
        q0, a0 = r.choice(SMALL)
        return chat("smalltalk", q, a, history=[{"role": "user", "content": q0}, {"role": "assistant", "content": a0}])
    return chat("smalltalk", q, a)


def gen_system(r):
    q, a = r.choice(SMALL)
    kind = r.choice(["caps", "pirate", "name", "plain", "sign"])
    n = r.choice(NAMES)
    if kind == "caps":
        s, a = "Answer in capital letters only.", a.upper()
    elif kind == "pirate":
        s, a = "You are a pirate. End every answer with Arr!", a + " Arr!"
    elif kind == "sign":
        s, a = f"Sign every answer with the name {n}.", a + f"\n- {n}"
    elif kind == "name":
        s, q, a = f"You are an assistant called {n}.", r.choice(["Who are you?", "What is your name?"]), f"My name is {n}."
    else:
        s = "You are a helpful assistant."
    return chat("system", q, a, history=[{"role": "system", "content": s}])


def gen_needle(r):
    things = r.sample([f"{c} {b}" for c in COLOURS for b in ("box", "door", "chest", "room")], r.randrange(1, 5))
    codes = [str(r.randrange(1000, 10000)) for _ in things]
    lines = [sentence(r) for _ in range(r.randrange(4, 36))]
    for t, c in zip(things, codes):
        lines.insert(r.randrange(len(lines) + 1), f"The code of the {t} is {c}.")
    i = r.randrange(len(things))
    q = " ".join(lines) + f"\n\nWhat is the code of the {things[i]}?"
    kw = dict(think=True, reason=f"I look for the {things[i]} in the text.") if r.random() < 0.2 else {}
    return chat("needle", q, f"The code of the {things[i]} is {codes[i]}.", **kw)


# ------------------------------------------------------------------------------------------------------------- tools
def fn(name, desc, req=None, **params):
    return {"type": "function", "function": {"name": name, "description": desc, "parameters": {
        "type": "object", "properties": params, "required": req if req is not None else list(params)}}}


TOOLS = {
    "get_weather": fn("get_weather", "Get the weather of a city", ["city"], city={"type": "string"},
                      unit={"type": "string", "enum": ["celsius", "fahrenheit"]}),
    "add": fn("add", "Add two numbers", a={"type": "number"}, b={"type": "number"}),
    "search": fn("search", "Search the web", query={"type": "string"}),
    "set_timer": fn("set_timer", "Set a timer", ["minutes"], minutes={"type": "integer"}, label={"type": "string"}),
    "send_message": fn("send_message", "Send a message", to={"type": "string"}, text={"type": "string"}),
}


def tool_case(r, name):
    """(request, arguments, result, final answer)"""
    if name == "get_weather":
        t = r.choice(TOWNS)
        unit = r.choice([None, "celsius", "fahrenheit"])
        deg, sky = r.randrange(-5, 36), r.choice(["sunny", "rainy", "cloudy", "windy"])
        q = f"What is the weather in {t}" + (f" in {unit}?" if unit else "?")
        return (q, {"city": t, **({"unit": unit} if unit else {})}, json.dumps({"temperature": deg, "sky": sky}),
                f"It is {sky} in {t} with {deg} degrees.")
    if name == "add":
        a, b = r.randrange(1000, 99999), r.randrange(1000, 99999)
        return f"Use the tool to add {a} and {b}.", {"a": a, "b": b}, str(a + b), f"The sum is {a + b}."
    if name == "search":
        w = " ".join(r.sample(WORDS, 2))
        return f"Search for {w}.", {"query": w}, f"{r.choice(NAMES)} wrote a book about {w}.", None
    if name == "set_timer":
        m, lab = r.randrange(1, 60), r.choice([None, "tea", "pasta", "bread", "walk"])
        q = f"Set a timer for {m} minutes" + (f" for the {lab}." if lab else ".")
        return q, {"minutes": m, **({"label": lab} if lab else {})}, "ok", "The timer is set."
    n, s = r.choice(NAMES), r.choice(["I am late", "see you soon", "call me please", "dinner is ready"])
    return f"Tell {n}: {s}.", {"to": n, "text": s}, "sent", f"I sent the message to {n}."


def gen_tool(r):
    names = r.sample(list(TOOLS), r.choice([1, 1, 2, 2, 3]))
    tools = [TOOLS[n] for n in names]
    kind = r.choices(["call", "final", "parallel", "none", "again"], [5, 3, 2, 1, 1])[0]
    think = r.random() < 0.3
    call = lambda n, a: {"type": "function", "function": {"name": n, "arguments": a}}
    if kind == "none":
        q, a = r.choice(SMALL)
        s = chat("tool_none", q, a, tools=tools)
        return s
    name = r.choice(names)
    q, args, result, final = tool_case(r, name)
    final = final or f"I found this: {result}"
    if kind == "parallel":
        n2 = r.choice(names)
        q2, args2, _, _ = tool_case(r, n2)
        q, calls = f"{q} {q2}", [call(name, args), call(n2, args2)]
    else:
        calls = [call(name, args)]
    user = {"role": "user", "content": q}
    reason = {"reasoning_content": f"I should call {' and '.join(c['function']['name'] for c in calls)}."} if think else {}
    asst = {"role": "assistant", "content": "", "tool_calls": calls, **reason}
    base = {"tools": tools, "think": think, "images": [], "videos": []}
    if kind in ("call", "parallel"):
        return {"task": "tool_" + kind, "messages": [user, asst], **base}
    tool = {"role": "tool", "content": result}
    last = {"role": "assistant", "content": final, **({"reasoning_content": "I have the result now."} if think else {})}
    if kind == "final":
        return {"task": "tool_final", "messages": [user, asst, tool, last], **base}
    q3, args3, _, _ = tool_case(r, name)                       # a second request after a finished tool round
    done = {"role": "assistant", "content": final}
    old = {"role": "assistant", "content": "", "tool_calls": calls}
    reason3 = {"reasoning_content": f"I should call {name}."} if think else {}
    return {"task": "tool_call", "messages": [user, old, tool, done, {"role": "user", "content": q3},
                                              {"role": "assistant", "content": "", "tool_calls": [call(name, args3)], **reason3}], **base}


# ------------------------------------------------------------------------------------------------------------ images
def draw_shape(d, shape, colour, cx, cy, s):
    c = COLOURS[colour]
    if shape == "circle":
        d.ellipse([cx - s, cy - s, cx + s, cy + s], fill=c)
    elif shape == "square":
        d.rectangle([cx - s, cy - s, cx + s, cy + s], fill=c)
    elif shape == "triangle":
        d.polygon([(cx, cy - s), (cx - s, cy + s), (cx + s, cy + s)], fill=c)
    else:
        d.polygon([(cx + s * k * math.sin(i * math.pi / 5), cy - s * k * math.cos(i * math.pi / 5))
                   for i in range(10) for k in [1.1 if i % 2 == 0 else 0.45]], fill=c)


def canvas(r, w=None, h=None):
    size = r.choice([(256, 256), (256, 256), (256, 256), (288, 256), (256, 320), (192, 192), (320, 256)])
    w, h = w or size[0], h or size[1]
    im = Image.new("RGB", (w, h), r.choice([(255, 255, 255), (245, 245, 235), (225, 235, 245), (200, 200, 200)]))
    return im, ImageDraw.Draw(im), w, h


WHERE = {"on the left": (0.2, 0.5), "on the right": (0.8, 0.5), "at the top": (0.5, 0.2), "at the bottom": (0.5, 0.8),
         "in the middle": (0.5, 0.5)}


def place(r, d, w, h, where, shape, colour):
    m = min(w, h)
    fx, fy = WHERE[where]
    s = m * r.uniform(0.11, 0.17)
    draw_shape(d, shape, colour, fx * w + r.uniform(-0.04, 0.04) * m, fy * h + r.uniform(-0.04, 0.04) * m, s)


def img(task, image, q, a):
    images = image if isinstance(image, list) else [image]
    content = [{"type": "image"} for _ in images] + [{"type": "text", "text": q}]
    s = chat(task, content, a)
    s["images"] = images
    return s


def gen_image(r, kind=None):
    kind = kind or r.choices(["see", "colour", "count", "where", "exists", "two"], [4, 3, 3, 2, 1, 1.5])[0]
    col = r.choice(list(COLOURS))
    sh = r.choice(SHAPES)
    an = lambda c: ("an " if c[0] == "o" else "a ") + c
    if kind == "two":
        ims, parts = [], []
        for _ in range(2):
            im, d, w, h = canvas(r, 256, 256)
            col, sh = r.choice(list(COLOURS)), r.choice(SHAPES)
            place(r, d, w, h, r.choice(list(WHERE)), sh, col)
            ims.append(im)
            parts.append(f"{an(col)} {sh}")
        return img("img_two", ims, "What is in the two pictures?", f"The first picture shows {parts[0]}, the second {parts[1]}.")
    im, d, w, h = canvas(r)
    if kind == "see":
        where = r.choice(list(WHERE))
        place(r, d, w, h, where, sh, col)
        q = r.choice(["What do you see?", "Describe the picture."])
        return img("img_see", im, q, f"I see {an(col)} {sh} {where}.")
    if kind in ("colour", "where", "exists"):
        spots = r.sample([x for x in WHERE if x != "in the middle"], 2)
        shapes = r.sample(SHAPES, 3)
        cols = r.sample(list(COLOURS), 2)
        for s, c, sp in zip(shapes, cols, spots):
            place(r, d, w, h, sp, s, c)
        i = r.randrange(2)
        if kind == "colour":
            return img("img_colour", im, f"What colour is the {shapes[i]}?", f"The {shapes[i]} is {cols[i]}.")
        if kind == "where":
            return img("img_where", im, f"Where is the {shapes[i]}?", f"The {shapes[i]} is {spots[i]}.")
        if r.random() < 0.5:
            return img("img_exists", im, f"Is there a {shapes[i]} in the picture?", f"Yes, there is a {shapes[i]}.")
        return img("img_exists", im, f"Is there a {shapes[2]} in the picture?", f"No, there is no {shapes[2]}.")
    n = r.randrange(1, 6)
    cells = r.sample([(x, y) for x in range(3) for y in range(3)], n)
    for x, y in cells:
        m = min(w, h)
        draw_shape(d, sh, col, (x + 0.5) * w / 3 + r.uniform(-6, 6), (y + 0.5) * h / 3 + r.uniform(-6, 6), m * r.uniform(0.08, 0.12))
    a = f"There is 1 {sh}." if n == 1 else f"There are {n} {sh}s."
    return img("img_count", im, f"How many {sh}s are there?", a)


def gen_video(r):
    n, side = r.choice([4, 4, 6, 8]), r.choice([96, 128])
    col, way = r.choice(list(COLOURS)), r.choice(["left", "right", "up", "down"])
    bg = r.choice([(255, 255, 255), (225, 235, 245), (200, 200, 200)])
    s, off = side * r.uniform(0.1, 0.16), r.uniform(0.3, 0.7)
    frames = []
    for i in range(n):
        f = 0.15 + 0.7 * i / (n - 1)
        f = 1 - f if way in ("left", "up") else f
        x, y = (f, off) if way in ("left", "right") else (off, f)
        im = Image.new("RGB", (side, side), bg)
        draw_shape(ImageDraw.Draw(im), "circle", col, x * side, y * side, s)
        frames.append(im)
    word = {"left": "to the left", "right": "to the right", "up": "up", "down": "down"}[way]
    content = [{"type": "video"}, {"type": "text", "text": "Which way does the ball move?"}]
    smp = chat("video", content, f"The {col} ball moves {word}.")
    smp["videos"] = [{"frames": frames, "fps": 2.0}]
    return smp


GENS = {"text": gen_text, "story": gen_story, "fact": gen_fact, "add": gen_add, "memory": gen_memory, "words": gen_words,
        "count": gen_count, "json": gen_json, "small": gen_small, "system": gen_system, "needle": gen_needle, "tool": gen_tool,
        "image": gen_image, "video": gen_video}
MIX = {1: dict(text=6, story=5, fact=22, add=13, memory=8, words=11, count=4, json=9, small=5, system=4, needle=4, tool=8, image=16, video=4),
       2: dict(text=2, story=2, fact=20, add=13, memory=9, words=15, count=5, json=11, small=2, system=4, needle=4, tool=8, image=24, video=6)}


def generate(r, mix=None):
    mix = mix or MIX[1]
    return GENS[r.choices(list(mix), list(mix.values()))[0]](r)


# ---------------------------------------------------------------------------------------------------------- encoding
def smart_resize(h, w, factor=32, lo=65536, hi=16777216):
    hb, wb = round(h / factor) * factor, round(w / factor) * factor
    if hb * wb > hi:
        b = math.sqrt(h * w / hi)
        hb, wb = max(factor, math.floor(h / b / factor) * factor), max(factor, math.floor(w / b / factor) * factor)
    elif hb * wb < lo:
        b = math.sqrt(lo / (h * w))
        hb, wb = math.ceil(h * b / factor) * factor, math.ceil(w * b / factor) * factor
    return hb, wb


def patches(frames):
    """frames [T,H,W,3] uint8 -> [T/2*gh*gw, 1536] float32 and the grid."""
    t, h, w, _ = frames.shape
    gh, gw = h // 16, w // 16
    x = (frames.astype(np.float32) - 127.5) / 127.5
    x = x.reshape(t // 2, 2, gh // 2, 2, 16, gw // 2, 2, 16, 3)
    return x.transpose(0, 2, 5, 3, 6, 8, 1, 4, 7).reshape(-1, 1536), (t // 2, gh, gw)


def image_patches(im):
    hb, wb = smart_resize(im.height, im.width)
    if (wb, hb) != im.size:
        im = im.resize((wb, hb), Image.BICUBIC)
    a = np.asarray(im)
    return patches(np.stack([a, a]))


def video_patches(v):
    """Frames are used as they are (already sampled, sizes multiples of 32). Returns patches, grid, timestamps."""
    a = np.stack([np.asarray(f) for f in v["frames"]])
    if len(a) % 2:
        a = np.concatenate([a, a[-1:]])
    ts = [(i + 0.5) / v["fps"] for i in range(0, len(a), 2)]
    return *patches(a), ts


class Encoder:
    def __init__(self, model_dir):
        import jinja2
        from tokenizers import Tokenizer, AddedToken
        model_dir = Path(model_dir)
        self.tok = Tokenizer.from_file(str(model_dir / "tokenizer.json"))
        env = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
        env.filters["tojson"] = lambda x, **k: json.dumps(x, ensure_ascii=False)

        def fail(msg):
            raise ValueError(msg)
        env.globals["raise_exception"] = fail
        self.template = env.from_string((model_dir / "chat_template.jinja").read_text())
        self.pad, self.im, self.vid = 7936, self.tok.token_to_id("<|image_pad|>"), self.tok.token_to_id("<|video_pad|>")

    def ids(self, text):
        return self.tok.encode(text, add_special_tokens=False).ids

    def render(self, messages, tools=None, think=False, gen=True):
        return self.template.render(messages=messages, tools=tools, add_generation_prompt=gen, enable_thinking=think)

    def split(self, s):
        """(prompt text, completion text) of a chat sample."""
        prompt = self.render(s["messages"][:-1], s["tools"], s["think"])
        full = self.render(s["messages"], s["tools"], gen=False)
        assert full.startswith(prompt), (full, prompt)
        return prompt, full[len(prompt):].rstrip("\n")

    def prompt_inputs(self, prompt, images=(), videos=()):
        """ids, positions and patches of a rendered prompt; media placeholders are expanded."""
        images, videos, runs, text = iter(images), iter(videos), [], ""
        ipx, vpx = [], []                                   # (patches, grid) of images and videos
        for piece in re.split(r"(<\|vision_start\|><\|(?:image|video)_pad\|><\|vision_end\|>)", prompt):
            if piece == "<|vision_start|><|image_pad|><|vision_end|>":
                p, g = image_patches(next(images))
                ipx.append((p, g))
                runs.append((g[1] // 2, g[2] // 2))
                piece = "<|vision_start|>" + "<|image_pad|>" * (g[1] * g[2] // 4) + "<|vision_end|>"
            elif piece == "<|vision_start|><|video_pad|><|vision_end|>":
                p, g, ts = video_patches(next(videos))
                vpx.append((p, g))
                runs += [(g[1] // 2, g[2] // 2)] * g[0]
                piece = "".join(f"<{t:.1f} seconds><|vision_start|>" + "<|video_pad|>" * (g[1] * g[2] // 4) + "<|vision_end|>" for t in ts)
            text += piece
        px, grids = [p for p, _ in ipx + vpx], [g for _, g in ipx + vpx]
        ids = self.ids(text)
        pos, cur, i, run = [], 0, 0, iter(runs)
        while i < len(ids):
            if ids[i] in (self.im, self.vid):
                h, w = next(run)
                pos += [(cur, cur + y, cur + x) for y in range(h) for x in range(w)]
                i, cur = i + h * w, cur + max(h, w)
            else:
                pos.append((cur, cur, cur))
                i, cur = i + 1, cur + 1
        return ids, pos, cur, px, grids

    def encode(self, s):
        if "text" in s:
            ids = self.ids(s["text"]) + [self.pad]
            return dict(task=s["task"], ids=ids, mask=[1] * len(ids), pos=[(i, i, i) for i in range(len(ids))], px=[], grids=[])
        prompt, answer = self.split(s)
        ids, pos, cur, px, grids = self.prompt_inputs(prompt, s["images"], s["videos"])
        a = self.ids(answer)
        pos = pos + [(cur + i,) * 3 for i in range(len(a))]
        return dict(task=s["task"], ids=ids + a, mask=[0] * len(ids) + [1] * len(a), pos=pos, px=px, grids=grids)
