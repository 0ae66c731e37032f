"""Writes the small model of genai_decoder.py as a folder of onnxruntime-genai, with genai_config.json: genai_folder.py FOLDER."""
import json
import os
import sys

import genai_decoder


def write(folder, decoder, words, end=2, start=None):
    os.makedirs(folder, exist_ok=True)
    decoder.save(f"{folder}/model.onnx")
    names = {f"{when}_{kind}_names": f"{prefix}.%d.{kind}" for when, prefix in (("past", "past_key_values"), ("present", "present"))
             for kind in ("key", "value")}
    config = {
        "bos_token_id": start, "eos_token_id": end, "pad_token_id": 0, "type": "llama", "vocab_size": words, "context_length": 128,
        "decoder": {
            "filename": "model.onnx", "head_size": decoder.size, "num_hidden_layers": decoder.layers,
            "num_key_value_heads": decoder.kv_heads,
            "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask",
                       **{k: v for k, v in names.items() if k.startswith("past")}},
            "outputs": {"logits": decoder.logits, **{k: v for k, v in names.items() if k.startswith("present")}}}}
    with open(f"{folder}/genai_config.json", "w") as f:
        json.dump({"model": config, "search": {"do_sample": False, "max_length": 128}}, f, indent=1)


if __name__ == "__main__":
    write(sys.argv[1], genai_decoder.small(0), 100)
