# SPDX-License-Identifier: Apache-2.0
"""The installed Python module with mote-tiny: chat, streams, tools, formats, images, embeddings, errors, threads.

Environment: DATA is the directory of test models, SPLIT a program that takes the MTP head out of a model.
"""
import gc
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path
from typing import Literal

import mote

DATA = Path(os.environ["DATA"])
TEXT = DATA / "mote-tiny-Q8_0.gguf"
VISION = DATA / "mote-tiny-vision/mote-tiny-vision-Q4_K_M.gguf"
STARS = DATA / "mote-tiny-vision/examples/count-1.png"
SUM = "What is 417 + 265?"
try:
    import numpy
    import PIL.Image
except ImportError:
    numpy = None


def weather(city: str, unit: Literal["celsius", "kelvin"] = "celsius", days: int = 1) -> dict:
    """Get the weather
    of a city.

    city: name of the city
    days (int): how many days
    """
    return {"city": city, "unit": unit, "degrees": 18, "days": days}


class Shared(unittest.TestCase):
    model: mote.Model

    @classmethod
    def setUpClass(cls):
        cls.model = mote.Model(TEXT, context=4096, sessions=2)

    @classmethod
    def tearDownClass(cls):
        cls.model.close()


class Chat(Shared):
    def test_an_answer(self):
        answer = self.model.chat(SUM, temperature=0, thinking=True)
        self.assertEqual("417 + 265 = 682", answer.content)
        self.assertEqual("417 + 265 = 682", str(answer))
        self.assertIn("carry", answer.reasoning)
        self.assertEqual("stop", answer.finish)
        self.assertEqual("assistant", answer.message["role"])
        self.assertGreater(answer.usage.think_tokens, 10)
        self.assertGreater(answer.usage.answer_tokens, answer.usage.think_tokens)

    def test_thinking(self):
        self.assertEqual("", self.model.chat(SUM, thinking=False).reasoning)
        self.assertLess(self.model.chat(SUM, thinking=8, temperature=0).usage.think_tokens, 40)
        self.assertNotEqual("", self.model.chat(SUM, thinking="low", temperature=0).reasoning)
        with self.assertRaisesRegex(ValueError, "thinking='much'"):
            self.model.chat(SUM, thinking="much")

    def test_a_stream_has_the_pieces_of_the_answer(self):
        whole = self.model.chat(SUM, temperature=0, thinking=True)
        stream = self.model.chat(SUM, temperature=0, thinking=True, stream=True)
        pieces = list(stream)
        self.assertGreater(len(pieces), 3)
        self.assertEqual(whole.content, "".join(pieces))
        self.assertEqual((whole.content, whole.reasoning, whole.finish),
                         (stream.answer.content, stream.answer.reasoning, stream.answer.finish))
        events = list(self.model.chat(SUM, temperature=0, thinking=True, stream=True).events())
        self.assertEqual(whole.reasoning, "".join(e.text for e in events if e.kind == "reasoning"))
        self.assertEqual(whole.content, "".join(e.text for e in events if e.kind == "content"))
        self.assertEqual("prefill", events[0].kind)
        last = [e for e in events if e.kind == "prefill"][-1]
        self.assertEqual((whole.usage.prompt_tokens, whole.usage.prompt_tokens), (last.done, last.total))

    def test_a_seed_repeats_an_answer(self):
        first = self.model.chat("Tell me a story.", max_tokens=30)
        self.assertEqual(first.content, self.model.chat("Tell me a story.", max_tokens=30, seed=first.seed).content)
        others = {self.model.chat("Tell me a story.", max_tokens=30, temperature=1.0).content for _ in range(5)}
        self.assertGreater(len(others), 1)

    def test_drafts_change_nothing(self):
        for sampling in ({"temperature": 0}, {"seed": 5}):
            plain = self.model.chat("Repeat: river lamp, river lamp.", max_tokens=40, spec="off", **sampling)
            self.assertEqual(0, plain.usage.drafted_tokens)
            for spec in ("auto", 1, 4, 8):
                drafted = self.model.chat("Repeat: river lamp, river lamp.", max_tokens=40, spec=spec, **sampling)
                self.assertEqual(plain.content, drafted.content)
                self.assertLessEqual(drafted.usage.accepted_tokens, drafted.usage.drafted_tokens)
                if isinstance(spec, int):
                    self.assertGreater(drafted.usage.drafted_tokens, 0)
        for wrong in (0, 9, True, "on"):
            with self.assertRaises(ValueError):
                self.model.chat("Hello!", spec=wrong)

    def test_limits(self):
        cut = self.model.chat("Tell me a story.", max_tokens=5)
        self.assertEqual(("length", 5), (cut.finish, cut.usage.answer_tokens))
        stopped = self.model.chat(SUM, temperature=0, thinking=False, stop=["+"])
        self.assertEqual("stop_text", stopped.finish)
        self.assertNotIn("+", stopped.content)
        token = self.model.tokenize("682")[0]
        free = self.model.chat(SUM, temperature=0, thinking=False)
        biased = self.model.chat(SUM, temperature=0, thinking=False, logit_bias={token: -100})
        self.assertNotEqual(free.content, biased.content)

    def test_messages_and_the_prefix(self):
        messages = [{"role": "system", "content": "You are kind."}, {"role": "user", "content": "My name is Anna."}]
        first = self.model.chat(messages, seed=1)
        messages += [first.message, {"role": "user", "content": "What is my name?"}]
        second = self.model.chat(messages, temperature=0)
        self.assertEqual("Your name is Anna.", second.content)
        held = first.usage.prompt_tokens + first.usage.answer_tokens
        self.assertGreater(second.usage.reused_tokens, held - 3)
        # Other messages: the same answer as in a model that has not seen these.
        with mote.Model(TEXT, context=4096) as fresh:
            other = [{"role": "user", "content": SUM}]
            self.assertEqual(fresh.chat(other, seed=3).content, self.model.chat(other, seed=3).content)

    def test_conversation(self):
        with self.model.conversation(system="You are kind.") as talk, tempfile.TemporaryDirectory() as work:
            talk.send("My name is Anna.", seed=1)
            self.assertEqual("Your name is Anna.", talk.send("What is my name?", temperature=0).content)
            roles = [m["role"] for m in talk.messages]
            self.assertEqual(["system", "user", "assistant", "user", "assistant"], roles)
            talk.save(Path(work, "talk"))
            with self.model.load_conversation(Path(work, "talk")) as again:
                self.assertEqual(talk.messages, again.messages)
                answer = again.send("What is my name?", temperature=0)
                self.assertEqual("Your name is Anna.", answer.content)
                self.assertLess(answer.usage.prompt_tokens - answer.usage.reused_tokens, 25)
            self.assertEqual(2, talk.undo())
            self.assertEqual(3, len(talk.messages))
            talk.clear()
            self.assertEqual(["system"], [m["role"] for m in talk.messages])
        with self.assertRaises(mote.ClosedError):
            talk.send("Hello")

    def test_sessions_are_returned(self):
        for _ in range(10):
            self.model.conversation().close()
        for _ in range(10):
            self.model.conversation().send("Hello", max_tokens=2)  # dropped without close
        gc.collect()
        kept = [self.model.conversation() for _ in range(2)]
        with self.assertRaises(mote.OutOfMemoryError):
            self.model.conversation()
        for talk in kept:
            talk.close()

    def test_text_without_template(self):
        answer = self.model.generate("Once upon a time", max_tokens=12)
        self.assertEqual(("length", 12, 5), (answer.finish, answer.usage.answer_tokens, answer.usage.prompt_tokens))
        self.assertEqual(answer.content, "".join(self.model.generate("Once upon a time", max_tokens=12, stream=True)))
        text = self.model.generate("Once upon a time", max_tokens=60).content
        for stop in ("warm", " warm hat", text[20:23], text[-1]):
            cut = self.model.generate("Once upon a time", max_tokens=60, stop=[stop, "never"])
            self.assertEqual((text[:text.index(stop)], "stop_text"), (cut.content, cut.finish))
        with self.assertRaisesRegex(TypeError, "json_schema"):
            self.model.generate("Once", json_schema={})

    def test_the_command_generates_the_same(self):
        done = subprocess.run([mote.program(), "run", TEXT, "--raw", "-n", "20", "--mmproj", "none", "Once upon a time"],
                              capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout.rstrip("\n"), self.model.generate("Once upon a time", max_tokens=20).content)

    def test_tokens(self):
        text = "Hello, world ünï 你好"
        ids = self.model.tokenize(text)
        self.assertEqual([39, 4638, 11, 1814, 1624, 120, 77, 127, 107, 220, 160, 121, 254, 161, 98, 121], ids)
        self.assertEqual(text, self.model.detokenize(ids))
        self.assertEqual(1, len(self.model.tokenize("<|im_start|>", special=True)))
        self.assertEqual([], self.model.tokenize(""))
        self.assertEqual("a\0b", self.model.detokenize(self.model.tokenize("a\0b")))

    def test_info(self):
        info = self.model.info
        self.assertEqual(("mote-tiny", 256, 8), (info.name, info.embedding, info.layers))
        self.assertEqual(mote.version(), mote.__version__)


class Tools(Shared):
    def test_schema_of_a_function(self):
        from mote.tools import schema_of_function
        self.assertEqual({"type": "function", "function": {
            "name": "weather", "description": "Get the weather of a city.",
            "parameters": {"type": "object", "required": ["city"], "properties": {
                "city": {"type": "string", "description": "name of the city"},
                "unit": {"enum": ["celsius", "kelvin"]},
                "days": {"type": "integer", "description": "how many days"}}}}}, schema_of_function(weather))
        with self.assertRaises(TypeError):
            schema_of_function(lambda *rest: rest)

    def test_a_call_and_its_result(self):
        messages = [{"role": "user", "content": "What is the weather in Paris?"}]
        answer = self.model.chat(messages, tools=[weather], tool_choice="required", temperature=0)
        self.assertEqual(("tool_calls", 1), (answer.finish, len(answer.tool_calls)))
        call = answer.tool_calls[0]
        self.assertEqual(("weather", str), (call.name, type(call.arguments["city"])))
        self.assertEqual(call.run()["degrees"], 18)
        self.assertEqual(call.id, answer.message["tool_calls"][0]["id"])
        results = answer.run_tools()
        self.assertEqual(18, json.loads(results[0]["content"])["degrees"])
        self.assertEqual(call.id, results[0]["tool_call_id"])
        second = self.model.chat([*messages, answer.message, *results], tools=[weather], temperature=0)
        self.assertGreater(second.usage.reused_tokens, answer.usage.prompt_tokens - 1)
        events = list(self.model.chat(messages, tools=[weather], tool_choice="weather", temperature=0,
                                      stream=True).events())
        self.assertEqual([call], [e.tool_call for e in events if e.kind == "tool_call"])

    def test_schemas_errors_and_no_tools(self):
        schema = {"name": "weather", "description": "", "parameters": {"type": "object", "properties": {}}}
        for form in (schema, {"type": "function", "function": schema}):
            answer = self.model.chat("Hello", tools=[form], tool_choice={"function": {"name": "weather"}}, temperature=0)
            self.assertEqual("weather", answer.tool_calls[0].name)
            with self.assertRaises(TypeError):
                answer.run_tools()
        self.assertEqual([], self.model.chat("Hello", tools=[weather], tool_choice="none").tool_calls)

        def weather_fails(city: str) -> str:
            raise LookupError(f"no city {city}")
        answer = self.model.chat("What is the weather in Paris?", tools=[weather_fails], tool_choice="required",
                                 temperature=0)
        self.assertIn("LookupError: no city", answer.run_tools()[0]["content"])

    def test_conversation_with_tools(self):
        with self.model.conversation(tools=[weather]) as talk:
            answer = talk.send("What is the weather in Paris?", tool_choice="required", temperature=0)
            talk.answer(answer.run_tools(), temperature=0)
            self.assertEqual(["user", "assistant", "tool", "assistant"], [m["role"] for m in talk.messages])

    def test_a_failed_answer_leaves_the_tools(self):
        parameters = {"type": "object", "properties": {"city": {"type": "string", "pattern": "(?=a)b"}}, "required": ["city"]}
        strict = {"type": "function", "function": {"name": "strict", "strict": True, "parameters": parameters}}
        with self.model.conversation(tools=[weather]) as talk, tempfile.TemporaryDirectory() as work:
            with self.assertRaises(mote.UnsupportedError):
                talk.send("What is the weather in Paris?", tools=[strict])
            answer = talk.send("What is the weather in Paris?", tool_choice="required", temperature=0)
            self.assertEqual("weather", answer.tool_calls[0].name)
            self.assertEqual(18, answer.tool_calls[0].run()["degrees"])
            talk.save(Path(work, "talk"))
            with self.model.load_conversation(Path(work, "talk")) as again:  # has the tools of the file
                with self.assertRaises(mote.UnsupportedError):
                    again.send("What is the weather in Rome?", tools=[strict])
                answer = again.send("What is the weather in Rome?", tool_choice="required", temperature=0)
                self.assertEqual("weather", answer.tool_calls[0].name)
                again.undo()
                with self.assertRaises(mote.ArgumentError):
                    again.send("What is the weather in Rome?", tools=[], tool_choice="required")


class Formats(Shared):
    def test_schema(self):
        schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer"}},
                  "required": ["name", "age"], "additionalProperties": False}
        openai = {"type": "json_schema", "json_schema": {"name": "person", "schema": schema}}
        for given in ({"json_schema": schema}, {"json_schema": json.dumps(schema)}, {"response_format": openai}):
            for seed in range(5):
                found = self.model.chat("A person, please.", thinking=False, seed=seed, **given).json()
                self.assertEqual({"name", "age"}, set(found))
                self.assertIsInstance(found["age"], int)

    def test_others(self):
        ask = self.model.chat
        self.assertIn(ask("Yes or no?", choices=["yes", "no"]).content, ("yes", "no"))
        self.assertRegex(ask("A date", regex=r"\d{4}-\d\d").content, r"^\d{4}-\d\d$")
        self.assertIn(ask("Hm?", grammar='root ::= "a" | "b"').content, ("a", "b"))
        self.assertIsInstance(ask("JSON", response_format={"type": "json_object"}, max_tokens=200, temperature=0,
                                  thinking=False).json(), dict)
        with self.assertRaisesRegex(ValueError, "exclude each other"):
            ask("Hm?", regex="a", choices=["a"])
        with self.assertRaises(mote.Error):
            ask("Hm?", regex="(")


class Images(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = mote.Model(VISION, context=4096)

    @classmethod
    def tearDownClass(cls):
        cls.model.close()

    def ask(self, *images):
        return self.model.chat("How many stars are there?", images=images, temperature=0).content

    def test_sources(self):
        data = STARS.read_bytes()
        for source in (STARS, str(STARS), data, bytearray(data), memoryview(data), f"file://{STARS}"):
            self.assertEqual("There are 4 stars.", self.ask(source))
        import base64
        url = "data:image/png;base64," + base64.b64encode(data).decode()
        parts = [{"type": "text", "text": "How many stars are there?"}, {"type": "image_url", "image_url": {"url": url}}]
        self.assertEqual("There are 4 stars.", self.model.chat([{"role": "user", "content": parts}], temperature=0).content)

    def test_all_examples(self):
        rows = [json.loads(line) for line in (DATA / "mote-tiny-vision/examples.jsonl").read_text().splitlines()]
        right = 0
        for row in rows:
            image = next(v for v in row.values() if isinstance(v, str) and v.endswith(".png"))
            question = row.get("question") or row["prompt"]
            wanted = row.get("answer") or row["expected"]
            found = self.model.chat(question, images=[DATA / "mote-tiny-vision" / image], temperature=0).content
            right += found.strip() == wanted.strip()
        self.assertEqual(len(rows), right)

    def test_pillow_and_numpy(self):
        if numpy is None:
            self.skipTest("no Pillow and NumPy")
        with PIL.Image.open(STARS) as image:
            image.load()
            for source in (image, image.convert("RGB"), numpy.asarray(image.convert("RGB")),
                           numpy.asarray(image.convert("RGBA"))):
                self.assertEqual("There are 4 stars.", self.ask(source))
            self.assertRegex(self.ask(numpy.asarray(image.convert("L"))), "There are")
            # Pixels do not depend on the way.
            from mote.images import read_pixels
            photo = image.convert("RGB").resize((901, 707))
            file = io.BytesIO()
            photo.save(file, "png")
            self.assertEqual(read_pixels(file.getvalue()), read_pixels(photo))
            self.assertEqual((896, 704), read_pixels(photo)[:2])
            self.assertLessEqual(read_pixels(photo, 100)[0] * read_pixels(photo, 100)[1], 100 * 1024)
        with self.assertRaisesRegex(ValueError, "uint8"):
            self.ask(numpy.zeros((32, 32, 3)))

    def test_the_next_turn_reuses_the_image(self):
        messages = [{"role": "user", "content": "How many stars are there?", "images": [STARS]}]
        first = self.model.chat(messages, temperature=0)
        messages += [first.message, {"role": "user", "content": "How many stars are there?"}]
        second = self.model.chat(messages, temperature=0)
        self.assertGreater(second.usage.reused_tokens, first.usage.prompt_tokens - 1)
        with self.model.conversation() as talk:
            self.assertEqual("There are 4 stars.",
                             talk.send("How many stars are there?", images=[STARS], temperature=0).content)

    def test_a_loaded_conversation_lacks_its_images(self):
        with self.model.conversation() as talk, tempfile.TemporaryDirectory() as work:
            talk.send("Hello!", seed=1, max_tokens=8)
            talk.send("How many stars are there?", images=[STARS], temperature=0)
            talk.save(Path(work, "talk"))
            before = talk.messages
            with self.model.load_conversation(Path(work, "talk")) as again:
                self.assertEqual(before, again.messages)
                self.assertEqual([{"type": "image"}, {"type": "text", "text": "How many stars are there?"}],
                                 again.messages[2]["content"])
                with self.assertRaisesRegex(mote.ArgumentError, "image of the conversation is not loaded"):
                    again.send("And now?")
                self.assertEqual(before, again.messages)
                self.assertEqual(2, again.undo())
                self.assertEqual("There are 4 stars.",
                                 again.send("How many stars are there?", images=[STARS], temperature=0).content)
            # A video, as `mote chat` saves it.
            saved = json.loads(Path(work, "talk").read_text())
            saved["messages"][2]["content"][0]["type"] = "video"
            Path(work, "talk").write_text(json.dumps(saved))
            with self.model.load_conversation(Path(work, "talk")) as again:
                self.assertEqual("video", again.messages[2]["content"][0]["type"])
        with self.assertRaisesRegex(mote.ArgumentError, "'image' has no image"):
            self.model.chat(before)

    def test_errors(self):
        with self.assertRaisesRegex(mote.ProgramError, "none.png"):
            self.ask("none.png")
        with self.assertRaisesRegex(mote.ProgramError, "not a JPEG"):
            self.ask(b"no image")
        with self.assertRaisesRegex(ValueError, "not downloaded"):
            self.ask("https://example.com/x.png")
        with self.assertRaises(TypeError):
            self.ask(17)
        with self.assertRaisesRegex(ValueError, "user messages"):
            self.model.chat([{"role": "system", "content": "x"}, {"role": "assistant", "content": "x", "images": [STARS]}])
        with mote.Model(VISION, mmproj=None, context=1024) as blind, self.assertRaises(mote.UnsupportedError):
            blind.chat("What?", images=[STARS])


class Embeddings(Shared):
    def test_vectors(self):
        one = self.model.embed("hello world")
        both = self.model.embed(["hello world", "a dog"])
        self.assertEqual(256, len(one))
        self.assertEqual(one, both[0])
        self.assertNotEqual(one, both[1])
        for pooling in ("last", "mean"):
            self.assertAlmostEqual(1, sum(x * x for x in self.model.embed("hello", pooling=pooling)), places=9)
            self.assertAlmostEqual(1, sum(x * x for x in self.model.embed("hello", pooling=pooling, dimensions=8)), places=9)
        self.assertNotAlmostEqual(1, sum(x * x for x in self.model.embed("hello", normalize=False)), places=3)
        self.assertEqual([], self.model.embed([]))
        with self.assertRaises(mote.ArgumentError):
            self.model.embed("")

    def test_the_server_has_the_same(self):
        with tempfile.TemporaryDirectory() as work:
            path = os.path.join(work, "socket")
            server = subprocess.Popen([mote.program(), "serve", TEXT, "--mmproj", "none", "--listen", "unix:" + path],
                                      stderr=subprocess.PIPE, text=True)
            try:
                while "listening" not in server.stderr.readline():
                    self.assertIsNone(server.poll())
                for pooling in ("last", "mean"):
                    mine = self.model.embed("hello world", pooling=pooling)
                    for a, b in zip(mine, self.over_http(path, "hello world", pooling)):
                        self.assertAlmostEqual(a, b, places=6)
            finally:
                server.terminate()
                server.communicate()

    def over_http(self, path, text, pooling):
        import http.client
        import socket
        connection = http.client.HTTPConnection("localhost")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(path)
        connection.request("POST", "/v1/embeddings", json.dumps({"input": text, "pooling": pooling}))
        try:
            return json.load(connection.getresponse())["data"][0]["embedding"]
        finally:
            connection.close()


class Drafts(unittest.TestCase):
    """An MTP head in a file of its own is found as `mote run` finds it."""

    def test_the_head_in_the_directory_of_the_model(self):
        with tempfile.TemporaryDirectory() as place:
            body, head = Path(place, "body.gguf"), Path(place, "mtp-body.gguf")
            subprocess.run([os.environ["SPLIT"], "--head", TEXT, body, head], check=True)
            with mote.Model(body, context=1024) as model:
                self.assertTrue(model.info.draft_head)
                drafted = model.chat(SUM, temperature=0, thinking=False, spec=3)
            with mote.Model(body, context=1024, mtp=None) as model:
                self.assertFalse(model.info.draft_head)
                self.assertEqual(drafted.content, model.chat(SUM, temperature=0, thinking=False).content)
            with mote.Model(body, context=1024, mmproj=None, mtp=head) as model:
                self.assertTrue(model.info.draft_head)
            self.assertGreater(drafted.usage.accepted_tokens, 0)
            head.write_bytes(body.read_bytes())  # not a head: as for mote run, the model works without
            with mote.Model(body, context=1024) as model:
                self.assertFalse(model.info.draft_head)


class Errors(Shared):
    def test_files(self):
        with self.assertRaises(mote.FormatError) as caught:
            mote.Model(__file__)
        self.assertEqual("damaged_file", caught.exception.status)
        with self.assertRaisesRegex(mote.ProgramError, "no-such-model"):
            mote.Model("no-such-model")
        with self.assertRaisesRegex(mote.UnsupportedError, "not a vision encoder"):
            mote.Model(TEXT, mmproj=TEXT)
        with self.assertRaises(mote.FileError) as caught:
            self.model.load_conversation("no-such-file")
        self.assertIsInstance(caught.exception, OSError)

    def test_every_exception_is_an_error(self):
        names = [name for name in mote.__all__ if name.endswith("Error")]
        self.assertEqual(11, len(names))
        for name in names:
            self.assertTrue(issubclass(getattr(mote, name), mote.Error), name)

    def test_arguments(self):
        with self.assertRaisesRegex(mote.ArgumentError, "temperature must be 0 to 100, got -1"):
            self.model.chat("Hello", temperature=-1)
        with self.assertRaisesRegex(TypeError, "unknown option 'temprature'"):
            self.model.chat("Hello", temprature=1)
        with self.assertRaises(mote.ArgumentError):
            self.model.chat([])
        with self.assertRaises(mote.ArgumentError):
            self.model.chat([{"role": "nobody", "content": "x"}])
        with self.assertRaises(ValueError):
            mote.Model(TEXT, kv="f8")
        stream = self.model.chat("Hello", temperature=-1, stream=True)
        with self.assertRaises(mote.ArgumentError):
            next(stream)
        with self.assertRaises(mote.ArgumentError):
            stream.answer

    def test_a_failed_call_changes_nothing(self):
        messages = [{"role": "user", "content": "My name is Anna."}]
        first = self.model.chat(messages, seed=1)
        with self.assertRaises(mote.ArgumentError):
            self.model.chat([*messages, {"role": "nobody"}])
        self.assertEqual(first.content, self.model.chat(messages, seed=1).content)

    def test_a_failed_answer_leaves_the_messages(self):
        def check(talk):
            before = talk.messages
            for error, fails in ((mote.ContextFullError, lambda: talk.send("word " * 5000)),
                                 (mote.ContextFullError, lambda: talk.send("word " * 5000, stream=True).answer),
                                 (mote.ArgumentError, lambda: talk.send("Hello", temperature=-1)),
                                 (mote.Error, lambda: talk.answer([{"role": "user", "content": "Hello"}] * 2, regex="("))):
                with self.assertRaises(error):
                    fails()
                self.assertEqual(before, talk.messages)
            self.assertEqual("Your name is Anna.", talk.send("What is my name?", temperature=0).content)
            self.assertEqual(2, talk.undo())
            self.assertEqual(before, talk.messages)

        with self.model.conversation(system="You are kind.") as talk, tempfile.TemporaryDirectory() as work:
            talk.send("My name is Anna.", seed=1)
            check(talk)
            # A system message inside a conversation is one of its messages, also after loading.
            talk.answer([{"role": "system", "content": "Be kind."}, {"role": "user", "content": "My name is Anna."}], seed=1)
            talk.save(Path(work, "talk"))
            with self.model.load_conversation(Path(work, "talk")) as again:
                check(again)

    def test_a_full_context(self):
        long = "word " * 5000
        with self.assertRaises(mote.ContextFullError):
            self.model.chat(long)
        with self.assertRaises(mote.ContextFullError):
            self.model.embed(long)
        for prompt in (long, "word" + " word" * 4095):
            with self.assertRaisesRegex(mote.ContextFullError, "context of 4096 tokens") as caught:
                self.model.generate(prompt)
            self.assertEqual("context_full", caught.exception.status)
        last = self.model.generate("word" + " word" * 4094)  # one token of room
        self.assertEqual((4095, 1), (last.usage.prompt_tokens, last.usage.answer_tokens))
        self.assertEqual("Your name is Anna.", self.model.chat([{"role": "user", "content": "My name is Anna."}, {
            "role": "assistant", "content": "Hi"}, {"role": "user", "content": "What is my name?"}], temperature=0).content)

    def test_a_closed_model(self):
        model = mote.Model(TEXT, context=1024)
        talk, stream = model.conversation(), model.generate("Once upon a time", stream=True)
        next(stream)
        model.close()
        model.close()
        self.assertEqual("canceled", stream.answer.finish)
        for use in (lambda: model.chat("Hello"), lambda: model.embed("x"), lambda: model.tokenize("x"), lambda: model.info,
                    model.conversation, lambda: talk.send("x"), lambda: talk.messages):
            with self.assertRaises(mote.ClosedError):
                use()
        talk.close()

    def test_a_model_is_closed_during_embed(self):
        """An exception, not a shorter vector. The first moment is when the thread of the call is not yet started."""
        def embed(model, found):
            try:
                found.append(model.embed(["word " * 2000] * 400))
            except BaseException as error:
                found.append(error)
        for _ in range(4):
            model, found = mote.Model(TEXT, context=2048), []
            thread = threading.Thread(target=embed, args=(model, found))
            thread.start()
            while not any(control.engine is model._engine for control in list(mote.stream._running)):
                self.assertTrue(thread.is_alive())
            model.close()
            thread.join()
            self.assertIsInstance(found[0], mote.CanceledError)
            self.assertEqual("canceled", found[0].status)


class Threads(Shared):
    def test_answers_of_many_threads(self):
        """One model, eight threads: each gets what it gets alone."""
        questions = [f"What is {n} + {n + 17}?" for n in range(100, 108)]
        alone = [self.model.chat(q, temperature=0, thinking=False).content for q in questions]
        found = [None] * len(questions)

        def ask(i):
            for _ in range(3):
                found[i] = self.model.chat(questions[i], temperature=0, thinking=False).content
                self.model.embed(questions[i])
                self.model.tokenize(questions[i])
        threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(questions))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(alone, found)

    def test_the_gil_is_released(self):
        """A counter in Python runs on while the library computes."""
        stream = self.model.generate("Once upon a time", max_tokens=2000, stream=True, temperature=1.0,
                                     logit_bias={self.model.tokenize("<|im_end|>", special=True)[0]: -100})
        next(stream)
        counted = 0
        while counted < 200000:
            counted += 1
        pieces = self.model.tokenize("while the engine runs")
        self.assertGreater(len(pieces), 2)
        self.assertIsNone(stream._end)  # still running: neither the loop nor tokenize() waited for it
        stream.close()
        self.assertEqual("canceled", stream.answer.finish)

    def test_two_streams_in_one_thread(self):
        """The second waits for the first, which nobody reads: no deadlock."""
        first = self.model.chat("Tell me a story.", max_tokens=20, seed=1, stream=True)
        second = self.model.chat("Tell me a story.", max_tokens=20, seed=1, stream=True)
        self.assertEqual("".join(second), "".join(first))

    def test_a_conversation_is_closed_by_two_threads(self):
        """The second one comes when the first is about to forget the address: it must not find freed memory."""
        found, threads = [], []

        def use(call):
            try:
                found.append(call())
            except BaseException as error:
                found.append(type(error))

        class Watched(mote.Conversation):
            def __setattr__(self, name, value):
                if name == "_chat":
                    for call in (self.close, lambda: self.messages):
                        threads.append(threading.Thread(target=use, args=(call,)))
                        threads[-1].start()
                        threads[-1].join(0.3)  # it ends now if nothing makes it wait
                super().__setattr__(name, value)
        talk = self.model.conversation()
        talk.__class__ = Watched
        talk.close()
        for thread in threads:
            thread.join()
        self.assertCountEqual([None, mote.ClosedError], found)
        talk.close()

    def test_several_readers_of_a_stream(self):
        stream = self.model.chat("Tell me a story.", max_tokens=20, stream=True)
        found = []
        readers = [threading.Thread(target=lambda: found.append(stream.answer.content)) for _ in range(4)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(60)
        self.assertEqual([stream.answer.content] * 4, found)

    def test_a_stream_is_canceled(self):
        for end in ("cancel", "close", "with", "drop"):
            stream = self.model.generate("Once upon a time", max_tokens=3000, stream=True)
            control = stream._control
            next(stream)
            if end == "with":
                with stream:
                    pass
            elif end == "drop":
                thread = stream._thread
                del stream
                thread.join(30)
                self.assertTrue(control.canceled and not thread.is_alive())
                continue
            else:
                getattr(stream, end)()
            self.assertEqual("canceled", stream.answer.finish)
            self.assertLess(stream.answer.usage.answer_tokens, 3000)
        # Nothing of it is left: a cancel does not end a later call.
        self.assertEqual("stop", self.model.chat(SUM, temperature=0).finish)
        self.assertEqual("length", self.model.generate("Once upon a time", max_tokens=10).finish)

    def test_the_interpreter_ends_while_a_stream_runs(self):
        code = f"import mote; m = mote.Model({str(TEXT)!r}); s = m.generate('Once upon a time', stream=True); print(next(s))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((0, ""), (done.returncode, done.stderr))


class Fork(unittest.TestCase):
    def test_a_model_of_the_parent_is_an_error(self):
        """In a child of fork(): an exception, no hang, also at its exit. The parent goes on."""
        code = f"""if True:
            import mote, os, sys
            model = mote.Model({str(TEXT)!r}, context=4096)
            stream = model.generate("Once upon a time", stream=True)
            next(stream)
            child = os.fork()
            if child == 0:
                try:
                    model.chat("Hello")
                except mote.ClosedError as error:
                    sys.exit(0 if "fork" in str(error) else 2)
                sys.exit(3)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            stream.close()
            print(model.chat({SUM!r}, temperature=0, thinking=True))
        """
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual((0, "417 + 265 = 682\n", ""), (done.returncode, done.stdout, done.stderr))


class Program(unittest.TestCase):
    def test_the_command(self):
        """python -m mote and the console script become the program."""
        want = subprocess.run([mote.program(), "version"], capture_output=True, check=True).stdout
        script = Path(sys.executable).with_name("mote")
        for command in ([sys.executable, "-m", "mote"], [script]):
            self.assertEqual(want, subprocess.run([*command, "version"], capture_output=True, check=True).stdout)
            self.assertEqual(2, subprocess.run([*command, "nonsense"], capture_output=True, check=False).returncode)
            running = subprocess.Popen([*command, "tokenize", TEXT, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            while os.readlink(f"/proc/{running.pid}/exe") != os.path.realpath(mote.program()):
                self.assertIsNone(running.poll())
            self.assertEqual(b"39,4638\n", running.communicate(b"Hello")[0])

    def test_names(self):
        """A name is found as the command finds it."""
        with tempfile.TemporaryDirectory() as work:
            os.symlink(TEXT, Path(work, "tiny.gguf"))
            code = ("import mote\nprint(mote.list_models()[0]['name'])\n"
                    "with mote.Model('tiny', context=1024) as m: print(m.info.name, m.path)\n")
            env = {**os.environ, "MOTE_MODELS": work, "HOME": work, "HF_HOME": work}
            done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
            self.assertEqual("", done.stderr)
            self.assertIn("mote-tiny", done.stdout)


if __name__ == "__main__":
    unittest.main()
