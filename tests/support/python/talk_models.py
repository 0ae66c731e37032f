"""Writes small language models of random weights with real tokenizers, by the libraries `gguf` and `tokenizers`: GGUF files, and a
folder of onnxruntime-genai. talk_models.py FOLDER [NAME...]"""
import json
import pathlib
import sys

import numpy as np
from gguf import GGUFWriter, TokenType
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import genai_decoder
import genai_folder

ROOT = pathlib.Path(__file__).resolve().parents[3]
OTHER_LANGUAGES = "Zürich, naïve façade; Привет, мир! 東京は大きい。 こんにちは世界 🙂 12345 67,89 it's we'll  two  spaces\n\n\tdef f(x):\r\n"
WORDS = {  # as the files of these models say for tokenizers.ggml.pre
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "llama-bpe": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}
# Architecture, tokenizer, and what differs from a llama.
CASES = {
    "llama": ("llama", "spaced", set()),
    "llama3": ("llama", "llama-bpe", set()),
    "qwen2": ("qwen2", "qwen2", {"bias"}),
    "qwen3": ("qwen3", "qwen2", {"head_norms"}),
    "gemma": ("gemma", "pieces", {"tied"}),
    "gemma3": ("gemma3", "pieces", {"tied", "head_norms", "post_norms", "window"}),
    "phi3": ("phi3", "spaced", {"packed"}),
}
CHAT = ("{{ bos_token }}{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def corpus():
    return [(ROOT / name).read_text("utf-8") for name in ("README.md", "docs/guide.md", "docs/faq.md")] + [OTHER_LANGUAGES] * 4


def train_pieces(spaced, size=600):
    """Tokens, scores and kinds as SentencePiece has them: bytes, then what joins two tokens, the likeliest first."""
    first = ["<unk>", "<s>", "</s>"]
    tokens = first + [f"<0x{b:02X}>" for b in range(256)]
    t = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581")] * spaced + [normalizers.Replace(" ", "\u2581")])
    t.pre_tokenizer = pre_tokenizers.Split(Regex("\u2581*[^\u2581]+"), "isolated")
    t.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=size - 256, special_tokens=first, limit_alphabet=100, show_progress=False))
    learned = sorted(t.get_vocab().items(), key=lambda item: item[1])[len(first):]
    joined = [token for token, _ in learned if len(token) > 1]
    tokens += joined + [token for token, _ in learned if len(token) == 1]
    scores = [0.0] * 259 + [-float(i) for i in range(len(tokens) - 259)]
    kinds = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL] + [TokenType.BYTE] * 256
    return tokens, scores, kinds + [TokenType.NORMAL] * (len(tokens) - 259)


def train_bytes(pre, size=600):
    """A trained tokenizer of byte pairs."""
    t = Tokenizer(models.BPE(ignore_merges=pre == "llama-bpe"))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(WORDS[pre]), "isolated"),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    t.train_from_iterator(corpus(), trainer)
    t.add_special_tokens(special)
    return t, special


def merges_of(tokenizer):
    return [m if isinstance(m, str) else " ".join(m) for m in json.loads(tokenizer.to_str())["model"]["merges"]]


def add_tokenizer(w, kind):
    """Returns the size of the vocabulary, and the control tokens."""
    w.add_chat_template(CHAT)
    if kind in WORDS:
        t, special = train_bytes(kind)
        tokens = [t.id_to_token(i) for i in range(t.get_vocab_size())]
        w.add_tokenizer_model("gpt2")
        w.add_tokenizer_pre(kind)
        w.add_token_list(tokens)
        w.add_token_types([TokenType.CONTROL if x in special else TokenType.NORMAL for x in tokens])
        w.add_token_merges(merges_of(t))
        w.add_bos_token_id(tokens.index("<|endoftext|>"))
        w.add_eos_token_id(tokens.index("<|im_end|>"))
        w.add_add_bos_token(kind == "llama-bpe")
        return len(tokens), [tokens.index(x) for x in special]
    tokens, scores, kinds = train_pieces(kind == "spaced")
    w.add_tokenizer_model("llama")
    w.add_tokenizer_pre("default")
    w.add_token_list(tokens)
    w.add_token_scores(scores)
    w.add_token_types(kinds)
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_unk_token_id(0)
    w.add_add_bos_token(True)
    w.add_add_space_prefix(kind == "spaced")
    return len(tokens), [1, 2]


def write_gguf(path, name, seed=5, layers=2, width=64, heads=4, kv_heads=2, inner=128):
    architecture, tokenizer, parts = CASES[name]
    random, size = np.random.default_rng(seed), width // heads
    w = GGUFWriter(path, architecture)
    w.add_name("small")
    w.add_context_length(512)
    w.add_embedding_length(width)
    w.add_block_count(layers)
    w.add_feed_forward_length(inner)
    w.add_head_count(heads)
    w.add_head_count_kv(kv_heads)
    w.add_key_length(size)
    w.add_value_length(size)
    w.add_rope_dimension_count(size)
    w.add_rope_freq_base(10000.0)
    w.add_layer_norm_rms_eps(1e-5)
    if "window" in parts:
        w.add_sliding_window(16)
    if "packed" in parts:
        w.add_sliding_window(0)
    vocabulary, control = add_tokenizer(w, tokenizer)

    def matrix(tensor, rows, columns, gain=1.0):
        values = (random.standard_normal((rows, columns)) * gain * columns ** -0.5).astype(np.float32)
        if tensor == "output":
            values[control] = 0  # answers do not end by chance
        w.add_tensor(tensor + ".weight", values)

    def near_one(tensor, n):
        w.add_tensor(tensor + ".weight", (1 + 0.1 * random.standard_normal(n)).astype(np.float32))

    # Large results of the blocks: what follows then depends on all tokens, not on the last alone.
    strong = 12.0 if "tied" in parts else 4.0
    matrix("token_embd", vocabulary, width, 1.0)
    near_one("output_norm", width)
    if "tied" not in parts:
        matrix("output", vocabulary, width, 2.0)
    for i in range(layers):
        at = f"blk.{i}."
        near_one(at + "attn_norm", width)
        if "packed" in parts:
            matrix(at + "attn_qkv", (heads + 2 * kv_heads) * size, width, 1.5)
        else:
            for part, n in (("attn_q", heads), ("attn_k", kv_heads), ("attn_v", kv_heads)):
                matrix(at + part, n * size, width, 1.5)
                if "bias" in parts:
                    w.add_tensor(f"{at}{part}.bias", (0.3 * random.standard_normal(n * size)).astype(np.float32))
        if "head_norms" in parts:
            near_one(at + "attn_q_norm", size)
            near_one(at + "attn_k_norm", size)
        matrix(at + "attn_output", width, heads * size, strong)
        near_one(at + "ffn_norm", width)
        if "packed" not in parts:
            matrix(at + "ffn_gate", inner, width, 1.5)
        matrix(at + "ffn_up", inner * (2 if "packed" in parts else 1), width, 1.5)
        matrix(at + "ffn_down", width, inner, strong)
        if "post_norms" in parts:
            for part in ("post_attention_norm", "post_ffw_norm"):
                w.add_tensor(f"{at}{part}.weight", (20 + random.standard_normal(width)).astype(np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def write_genai(folder):
    t, special = train_bytes("qwen2")
    start = t.token_to_id("<|endoftext|>")
    t.post_processor = processors.TemplateProcessing(single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", start)])
    decoder = genai_decoder.Decoder(layers=2, hidden=64, heads=4, kv_heads=2, inner=96, words=t.get_vocab_size(), room=512, accuracy_level=0)
    genai_folder.write(folder, decoder, t.get_vocab_size(), t.token_to_id("<|im_end|>"), start)
    t.save(f"{folder}/tokenizer.json")
    (pathlib.Path(folder) / "chat_template.jinja").write_text(CHAT)


def main():
    folder, names = sys.argv[1], sys.argv[2:] or [*CASES, "genai"]
    for name in names:
        if name == "genai":
            write_genai(f"{folder}/genai")
        else:
            write_gguf(f"{folder}/{name}.gguf", name)


if __name__ == "__main__":
    main()
