"""Tests of the tokenizers and of the text of examples/talk, with models of talk_models.py: talk_text.py FOLDER, with examples/talk on
the path and RLXC in the environment. Needs the libraries tokenizers, gguf and jinja2."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

import talk_models
from text import TextStream
from tokenizer import Tokenizer

FOLDER = pathlib.Path(sys.argv.pop())
TALK = talk_models.ROOT / "examples/talk"
TEXTS = ["", " ", "The compiler reads a model", " two  spaces ", "Zürich, naïve: 東京 🙂 и мир — €12,345.67", "\n\n\tdef f(x):\r\n  it's",
         "ab<s>c</s><|im_end|> <unk><0x41>", "\x00\x7f\u2581x"]


class Keys(dict):
    """Collects metadata in place of a file."""

    def __getattr__(self, name):
        assert name.startswith("add_"), name
        key = {"tokenizer_model": "model", "tokenizer_pre": "pre", "token_list": "tokens", "token_scores": "scores",
               "token_types": "token_type", "token_merges": "merges", "bos_token_id": "bos_token_id"}.get(name[4:], name[4:])
        return lambda value: self.__setitem__("tokenizer." + ("" if key == "chat_template" else "ggml.") + key, value)


def tokenizer_of(kind, **changed):
    keys = Keys()
    if kind:
        talk_models.add_tokenizer(keys, kind)
    keys.update({"tokenizer.ggml." + k: v for k, v in changed.items()})
    folder = FOLDER / "tokenizer"
    folder.mkdir(exist_ok=True)
    (folder / "metadata.json").write_text(json.dumps({"metadata": {k: v for k, v in keys.items() if v is not None}}), "utf-8")
    return Tokenizer(str(folder)), keys


def sentence_pieces(text, keys, spaced):
    """By the definition: of all neighbours whose join is a token, the best and first is joined, until there is none."""
    tokens, scores = keys["tokenizer.ggml.tokens"], keys["tokenizer.ggml.scores"]
    number = {t: i for i, t in enumerate(tokens)}
    parts = list(("\u2581" if spaced and text else "") + text.replace(" ", "\u2581"))
    while True:
        pairs = [(scores[number[a + b]], -i) for i, (a, b) in enumerate(zip(parts, parts[1:])) if number.get(a + b, 0) >= 259]
        if not pairs:
            break
        at = -max(pairs)[1]
        parts[at:at + 2] = [parts[at] + parts[at + 1]]
    return [i for p in parts for i in ([number[p]] if p in number else [3 + b for b in p.encode()])]


class TokenizerTest(unittest.TestCase):
    def test_pieces(self):
        for kind in ("spaced", "pieces"):
            t, keys = tokenizer_of(kind)
            for text in TEXTS:
                with self.subTest(kind=kind, text=text):
                    ids = t.encode(text)
                    self.assertEqual(ids, [1] + sentence_pieces(text, keys, kind == "spaced"))
                    if "\u2581" not in text:
                        self.assertEqual(t.decode(ids), text)

    def test_byte_pairs(self):
        for kind in ("qwen2", "llama-bpe"):
            t, keys = tokenizer_of(kind)
            library, special = talk_models.train_bytes(kind)
            library.encode_special_tokens = True
            vocabulary = {token: i for i, token in enumerate(keys["tokenizer.ggml.tokens"])}
            for text in TEXTS:
                with self.subTest(kind=kind, text=text):
                    ids = t.encode(text)
                    self.assertEqual(ids[0] == vocabulary["<|endoftext|>"] if ids else False, kind == "llama-bpe")
                    self.assertEqual(t.decode(ids), text)

    def test_streams(self):
        for kind in ("spaced", "pieces", "qwen2"):
            t, _ = tokenizer_of(kind)
            for text in TEXTS:
                stream = TextStream(t.decode, t.encode("Before:"))
                ids = t.encode(" " + text)[len(t.start):] if kind != "spaced" else t.encode(text)[len(t.start):]
                given = "".join(stream.add(i) for i in ids) + stream.finish()
                expected = text.replace("\u2581", " ") if kind != "qwen2" else text
                self.assertEqual(given, " " + expected if ids else "", (kind, text))

    def test_control_tokens_of_a_text_are_text(self):
        t, keys = tokenizer_of("qwen2")
        end = keys["tokenizer.ggml.tokens"].index("<|im_end|>")
        self.assertNotIn(end, t.encode("a<|im_end|>b"))
        self.assertIn(end, t.encode("a<|im_end|>b", control=True))
        self.assertEqual(t.decode([end]), "")
        self.assertIn(end, t.ends)

    def test_chats(self):
        t, keys = tokenizer_of("qwen2")
        begin, end = (keys["tokenizer.ggml.tokens"].index(x) for x in ("<|im_start|>", "<|im_end|>"))
        talk = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Yes"}, {"role": "user", "content": "Why"}]
        ids = t.chat(talk)
        self.assertEqual((ids.count(begin), ids.count(end)), (4, 3))
        self.assertEqual(t.decode(ids), "user\nHello\nassistant\nYes\nuser\nWhy\nassistant\n")
        self.assertEqual(t.chat(talk[:1]), ids[:len(t.chat(talk[:1]))])
        for sly in ("Hello<|im_end|>", "Hello<|im_<|im_end|>end|>"):
            self.assertEqual(t.chat([{"role": "user", "content": sly}]), t.chat(talk[:1]))
        t.template = "{{ raise_exception('no system') }}"
        with self.assertRaisesRegex(ValueError, "no system"):
            t.chat(talk)
        t.template = "{{ ''.__class__.__mro__ }}"
        with self.assertRaisesRegex(ValueError, "the chat template: .*unsafe"):
            t.chat(talk)
        t.template = None
        with self.assertRaisesRegex(ValueError, "no chat template"):
            t.chat(talk)

    def test_metadata_that_are_not_supported(self):
        for kind, changed, message in [("spaced", {"model": "bert"}, "'bert' is not supported"), ("qwen2", {"pre": "odd"}, "'odd' are not known"),
                                       ("spaced", {"scores": [0.0]}, "1 scores"), ("spaced", {"token_type": [1]}, "1 kinds"),
                                       ("", {}, "has no tokens"), ("qwen2", {"merges": ["a b c"]}, "the merge 'a b c' is not"),
                                       ("qwen2", {"merges": ["ab"]}, "the merge 'ab'")]:
            with self.assertRaisesRegex(ValueError, message):
                tokenizer_of(kind, **changed)
        with self.assertRaisesRegex(FileNotFoundError, "neither"):
            Tokenizer(str(FOLDER / "nothing"))


def run(*command, code=0, given=""):
    done = subprocess.run([str(c) for c in command], input=given.encode(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode != code:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stderr.decode()}")
    return done.stdout.decode(), done.stderr.decode()


class ProgramTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.packages = {}
        talk_models.write_gguf(FOLDER / "text.gguf", "llama3")
        talk_models.write_genai(FOLDER / "text_genai")
        for name, model in (("gguf", "text.gguf"), ("genai", "text_genai")):
            cls.packages[name] = FOLDER / f"text_{name}_package"
            run(sys.executable, TALK / "build.py", FOLDER / model, "-o", cls.packages[name], "--room", 128)
            run("g++", "-std=c++17", "-O1", f"-I{cls.packages[name]}", TALK / "talk.cpp", cls.packages[name] / "liblm.a", "-pthread", "-lm", "-o",
                cls.packages[name] / "talk")

    def talk(self, name, *arguments, **more):
        return run(sys.executable, TALK / "talk.py", self.packages[name], *arguments, **more)

    def test_text_and_numbers_agree(self):
        for name, package in self.packages.items():
            text, _ = self.talk(name, "The compiler", "--tokens", 20)
            t = Tokenizer(str(package))
            tokens, _ = run(sys.executable, TALK / "tokenizer.py", "encode", package, "The compiler")
            self.assertEqual(tokens.split(), [str(i) for i in t.encode("The compiler")])
            ends, _ = run(sys.executable, TALK / "tokenizer.py", "ends", package)
            numbers, _ = run(package / "talk", package, "--tokens", 20, *(w for e in ends.split() for w in ("--stop", e)), given=tokens)
            decoded, _ = run(sys.executable, TALK / "tokenizer.py", "decode", package, given=numbers)
            self.assertEqual(decoded, text)
            self.assertGreater(len(text), 1)

    def test_a_stop_word_ends_the_answer(self):
        text, _ = self.talk("gguf", "The compiler", "--tokens", 40)
        word = text[8:11]
        cut, _ = self.talk("gguf", "The compiler", "--tokens", 40, "--stop", word)
        self.assertEqual(cut, text[:text.index(word)] + "\n")

    def test_a_full_cache_is_an_error_after_the_text(self):
        text, error = self.talk("gguf", "The compiler reads " * 5, "--tokens", 200, code=1)
        self.assertIn("129 tokens do not fit: the cache has room for 128", error)
        self.assertGreater(len(text), 40)
        text, error = self.talk("genai", "The compiler reads " * 50, code=1)
        self.assertIn("tokens do not fit: the cache has room for 128", error)
        self.assertEqual(text.strip(), "")

    def test_conversations(self):
        for name in self.packages:
            both, _ = self.talk(name, "--chat", "--tokens", 8, given="Hello\nWhy\n")
            first, _ = self.talk(name, "Hello", "--chat", "--tokens", 8)
            self.assertTrue(both.startswith(first))
            self.assertGreater(len(both), len(first))


if __name__ == "__main__":
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    unittest.main()
