"""The tokenizer of a package of build.py, by the libraries `tokenizers` and, for chats, `jinja2`.

    tokenizer.py encode FOLDER TEXT     prints the numbers of the tokens
    tokenizer.py decode FOLDER          reads numbers, and prints their text while they come
    tokenizer.py ends FOLDER            prints the numbers of the tokens that end a text
"""
import json
import os
import sys

from text import TextStream

# Kinds of tokens in GGUF files.
UNKNOWN, CONTROL, USER_DEFINED, BYTE = 2, 3, 4, 6
LETTERS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SHORT_FORMS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
# How tokenizer.ggml.pre splits text into words; "" is the expression of GPT-2.
WORDS = {
    "gpt-2": "", "phi-2": "",
    "llama-bpe": rf"{SHORT_FORMS}|{LETTERS}|\p{{N}}{{1,3}}|{REST}",
    "qwen2": rf"{SHORT_FORMS}|{LETTERS}|\p{{N}}|{REST}",
}
WORDS["llama3"] = WORDS["llama-v3"] = WORDS["llama-bpe"]
WORDS["deepseek-r1-qwen"] = WORDS["qwen2"]
# Tokens that end a turn, where the file has them as control tokens.
TURN_ENDS = {"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<EOT>"}


class Tokenizer:
    def __init__(self, folder):
        path = lambda name: os.path.join(folder, name)
        self.start, self.ends, self.template, self.special = [], set(), None, []
        self._bytes = None  # of each token, where single bytes are tokens: the library drops runs of them that are no text as a whole
        if os.path.exists(path("metadata.json")):
            with open(path("metadata.json"), encoding="utf-8") as f:
                self._read_gguf(json.load(f)["metadata"])
        elif os.path.exists(path("tokenizer.json")):
            self._read_genai(path)
        else:
            raise FileNotFoundError(f"{folder} has neither metadata.json nor tokenizer.json")

    def encode(self, text, control=False):
        """The tokens of a text, with the one that starts it. `control`: the text may name control tokens, as <|im_start|>."""
        self._tokenizer.encode_special_tokens = not control
        ids = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids if ids[:len(self.start)] == self.start else self.start + ids

    def decode(self, ids):
        if not self._bytes:
            return self._tokenizer.decode(list(ids), skip_special_tokens=True)
        text = b"".join(self._bytes[i] for i in ids).decode("utf-8", "replace")
        return text[1:] if self._space_prefix and text.startswith(" ") else text

    def chat(self, messages):
        """The tokens of a conversation, [{"role": "user", "content": TEXT}, ...], up to where the answer begins. Messages cannot
        name control tokens."""
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        if not self.template:
            raise ValueError("the model has no chat template")

        def refuse(message):
            raise ValueError(message)

        def plain(text):
            while any(s in text for s in self.special):
                for s in self.special:
                    text = text.replace(s, "")
            return text

        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.globals["raise_exception"] = refuse
        name = lambda i: self._tokenizer.id_to_token(i) if i is not None else ""
        try:
            text = environment.from_string(self.template).render(
                messages=[{**m, "content": plain(m["content"])} for m in messages], add_generation_prompt=True,
                bos_token=name(self._bos), eos_token=name(self._eos))
        except TemplateError as e:
            raise ValueError(f"the chat template: {e}") from None
        return self.encode(text, control=True)

    def _read_genai(self, path):
        from tokenizers import Tokenizer as Library

        self._tokenizer = Library.from_file(path("tokenizer.json"))
        with open(path("genai_config.json"), encoding="utf-8") as f:
            model = json.load(f)["model"]
        eos = model.get("eos_token_id")
        self.ends = set(eos if isinstance(eos, list) else [] if eos is None else [eos])
        self._bos, self._eos = model.get("bos_token_id"), min(self.ends, default=None)
        self.start = self._tokenizer.encode("", add_special_tokens=True).ids
        self.special = [t.content for t in self._tokenizer.get_added_tokens_decoder().values() if t.special]
        if os.path.exists(path("chat_template.jinja")):
            with open(path("chat_template.jinja"), encoding="utf-8") as f:
                self.template = f.read()
        elif os.path.exists(path("tokenizer_config.json")):
            with open(path("tokenizer_config.json"), encoding="utf-8") as f:
                self.template = json.load(f).get("chat_template")

    def _read_gguf(self, metadata):
        from tokenizers import AddedToken, Tokenizer as Library, normalizers

        get = lambda key, otherwise=None: metadata.get("tokenizer.ggml." + key, otherwise)
        tokens, kinds, kind = get("tokens"), get("token_type"), get("model")
        if not tokens:
            raise ValueError("the file has no tokens")
        kinds = kinds or [1] * len(tokens)
        if len(kinds) != len(tokens):
            raise ValueError(f"there are {len(tokens)} tokens and {len(kinds)} kinds of tokens")
        vocabulary = {token: i for i, token in enumerate(tokens)}
        if kind == "llama":
            self._tokenizer = Library(pieces(tokens, kinds, vocabulary, [float(s) for s in get("scores", [])]))
            self._space_prefix = get("add_space_prefix", True)
            self._tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581")] * self._space_prefix +
                                                              [normalizers.Replace(" ", "\u2581")])
            self._bytes = [bytes_of(t, k) for t, k in zip(tokens, kinds)]
        elif kind == "gpt2":
            self._tokenizer = Library(byte_pairs(vocabulary, get("merges", []), get("pre", "gpt-2")))
            split_words(self._tokenizer, get("pre", "gpt-2"))
        else:
            raise ValueError(f"the tokenizer {kind!r} is not supported: llama (SentencePiece) and gpt2 (byte pairs) are")
        self.special = [t for t, k in zip(tokens, kinds) if k == CONTROL]
        self._tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in self.special])
        self._tokenizer.add_tokens([AddedToken(t, normalized=False) for t, k in zip(tokens, kinds) if k == USER_DEFINED])
        self._bos, self._eos = get("bos_token_id", 1 if kind == "llama" else None), get("eos_token_id", 2 if kind == "llama" else None)
        if get("add_bos_token", kind == "llama" or WORDS.get(get("pre")) == WORDS["llama-bpe"]) and self._bos is not None:
            self.start = [self._bos]
        self.ends = {i for i in (self._eos, get("eot_token_id"), get("eom_token_id")) if i is not None}
        self.ends |= {vocabulary[t] for t in TURN_ENDS.intersection(self.special)}
        self.template = metadata.get("tokenizer.chat_template")


def pieces(tokens, kinds, vocabulary, scores):
    """SentencePiece's byte pairs: of all pairs of neighbours that are a token, the one with the best score is joined first."""
    from tokenizers.models import BPE

    if len(scores) != len(tokens):
        raise ValueError(f"there are {len(tokens)} tokens and {len(scores)} scores")
    merges = []
    for token, kind, score in zip(tokens, kinds, scores):
        if kind in (UNKNOWN, CONTROL):
            continue
        pairs = [(token[:at], token[at:]) for at in range(1, len(token)) if token[:at] in vocabulary and token[at:] in vocabulary]
        merges += [(-score, vocabulary[a], vocabulary[b], a, b) for a, b in pairs]
    unknown = next((t for t, k in zip(tokens, kinds) if k == UNKNOWN), None)
    return BPE(vocab=vocabulary, merges=[(a, b) for _, _, _, a, b in sorted(merges)], unk_token=unknown, fuse_unk=True,
               byte_fallback=True)


def bytes_of(token, kind):
    if kind in (UNKNOWN, CONTROL):
        return b""
    if kind == BYTE:
        return bytes([int(token[3:5], 16)])
    return (token if kind == USER_DEFINED else token.replace("\u2581", " ")).encode()


def byte_pairs(vocabulary, merges, pre):
    from tokenizers.models import BPE

    if pre not in WORDS:
        raise ValueError(f"words of tokenizer.ggml.pre {pre!r} are not known: known are {', '.join(sorted(WORDS))}")
    pairs = [tuple(m.split(" ", 1)) for m in merges]
    wrong = next((p for p in pairs if len(p) != 2 or not {*p, "".join(p)} <= vocabulary.keys()), None)
    if wrong:
        raise ValueError(f"the merge {' '.join(wrong)!r} is not of tokens")
    return BPE(vocab=vocabulary, merges=pairs, ignore_merges=WORDS[pre] == WORDS["llama-bpe"])


def split_words(tokenizer, pre):
    from tokenizers import Regex, decoders, pre_tokenizers

    split = [pre_tokenizers.Split(Regex(WORDS[pre]), "isolated")] if WORDS[pre] else []
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(split + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not split)])
    tokenizer.decoder = decoders.ByteLevel()


def main(arguments):
    if len(arguments) < 2 or (arguments[0] == "encode") != (len(arguments) == 3):
        sys.exit(__doc__)
    tokenizer = Tokenizer(arguments[1])
    if arguments[0] == "encode":
        print(*tokenizer.encode(arguments[2]))
    elif arguments[0] == "ends":
        print(*sorted(tokenizer.ends))
    elif arguments[0] == "decode":
        stream = TextStream(tokenizer.decode)
        for line in sys.stdin:
            for number in line.split():
                print(stream.add(int(number)), end="", flush=True)
        print(stream.finish())


if __name__ == "__main__":
    main(sys.argv[1:])
