"""Greedy answers of one engine, for scripts/talk-check: talk_sides.py ENGINE MODEL OUTPUT COUNT PROMPTS.json

ENGINE is ours (MODEL is a package of examples/talk/build.py), llama (a GGUF file) or onnxruntime (a genai folder; the prompts are
tokens then). For each prompt, OUTPUT.npz has its tokens, the tokens of the answer, the logits they were picked from, and the bytes
of the text of the answer. Nothing ends an answer.
"""
import json
import sys

import numpy as np


def ours(folder, count, prompts):
    from decoder import Decoder
    from text import TextStream
    from tokenizer import Tokenizer

    tokenizer, decoder = Tokenizer(folder), Decoder(folder, part=16)
    for prompt in prompts:
        tokens = tokenizer.encode(prompt)
        answer, rows, stream, said = [], [], TextStream(tokenizer.decode, tokens), ""
        for _ in range(count):
            rows.append(decoder.logits_after(tokens + answer))
            answer.append(int(rows[-1].argmax()))
            said += stream.add(answer[-1])
        yield tokens, answer, rows, (said + stream.finish()).encode()


def llama(path, count, prompts):
    import llama_cpp

    model = llama_cpp.Llama(path, n_ctx=512, n_threads=1, type_k=0, type_v=0, flash_attn=False, verbose=False)  # 0: f32
    for prompt in prompts:
        tokens = model.tokenize(prompt.encode(), add_bos=True, special=False)
        model.reset()
        answer, rows, new = [], [], tokens
        for _ in range(count):
            model.eval(new)
            row = llama_cpp.llama_get_logits_ith(model.ctx, -1)
            rows.append(np.ctypeslib.as_array(row, (model.n_vocab(),)).copy())
            new = [int(rows[-1].argmax())]
            answer += new
        before = model.detokenize(tokens)
        yield tokens, answer, rows, model.detokenize(tokens + answer)[len(before):]


def onnxruntime(folder, count, prompts):
    import onnxruntime as ort

    with open(f"{folder}/genai_config.json") as f:
        config = json.load(f)["model"]["decoder"]
    session = ort.InferenceSession(f"{folder}/{config['filename']}", providers=["CPUExecutionProvider"])
    names, layers = {**config["inputs"], **config["outputs"]}, range(config["num_hidden_layers"])
    pasts = [names[f"past_{kind}_names"] % i for i in layers for kind in ("key", "value")]
    presents = [names[f"present_{kind}_names"] % i for i in layers for kind in ("key", "value")]
    for tokens in prompts:
        cache = [np.zeros((1, config["num_key_value_heads"], 0, config["head_size"]), np.float32)] * len(pasts)
        answer, rows, new = [], [], tokens
        for _ in range(count):
            logits, *cache = session.run([names["logits"], *presents], {
                "input_ids": np.array([new]), "attention_mask": np.ones((1, len(tokens) + len(answer)), np.int64), **dict(zip(pasts, cache))})
            rows.append(logits[0, -1])
            new = [int(rows[-1].argmax())]
            answer += new
        yield tokens, answer, rows, b""


def main():
    engine, model, output, count, prompts = sys.argv[1:]
    found = {}
    with open(prompts, encoding="utf-8") as f:
        for i, values in enumerate({"ours": ours, "llama": llama, "onnxruntime": onnxruntime}[engine](model, int(count), json.load(f))):
            for name, value in zip(("prompt", "answer", "logits", "text"), values):
                found[f"{name}_{i}"] = np.frombuffer(value, np.uint8) if name == "text" else np.array(value)
    np.savez(output, **found)


main()
