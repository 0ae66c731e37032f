"""Compiles a language model for the programs of this folder: build.py MODEL -o FOLDER [--room TOKENS] [OPTION...]

MODEL is a GGUF file, or a folder as the model builder of onnxruntime-genai writes it: genai_config.json, a decoder in ONNX,
tokenizer.json. FOLDER gets a package for this machine's processor, named lm, and the files of the tokenizer. Large weights stay in
the files of the model, to which there are links. Other options are those of `rlxc compile`. The environment variable RLXC names the
program where it is not on the path.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys

RLXC = os.environ.get("RLXC", "rlxc")
TOKENIZER_FILES = ["tokenizer.json", "genai_config.json", "tokenizer_config.json", "chat_template.jinja"]


def numbered(pattern, layers):
    return [pattern % i for i in range(layers)]


def cache_options(folder, room):
    """The decoder of a genai folder, and the options that make its cache a state with room for so many tokens."""
    config = json.loads((folder / "genai_config.json").read_text("utf-8"))["model"]["decoder"]
    model, inputs, outputs = folder / config["filename"], config["inputs"], config["outputs"]
    shown = subprocess.run([RLXC, "info", str(model), "--json"], check=True, stdout=subprocess.PIPE).stdout
    shapes = {port["name"]: port["type"]["dims"] for port in json.loads(shown)["inputs"]}
    states = [pair for kind in ("key", "value") for pair in
              zip(numbered(inputs[f"past_{kind}_names"], config["num_hidden_layers"]),
                  numbered(outputs[f"present_{kind}_names"], config["num_hidden_layers"]))]
    sizes = {}
    for name, axis, size in [(inputs["input_ids"], 0, 1), (inputs.get("attention_mask"), 1, room)] + [(s, 2, room) for s, _ in states]:
        if name in shapes and isinstance(shapes[name][axis], str):
            sizes[shapes[name][axis]] = size
    bound = ",".join(f"{name}={size}" for name, size in sizes.items())
    return model, ["--bind", bound, "--state", ",".join(f"{past}={present}" for past, present in states)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    parser.add_argument("--room", type=int, default=2048, help="tokens that the cache can hold (2048)")
    a, more = parser.parse_known_args()
    if a.model.is_dir():
        model, options = cache_options(a.model, a.room)
    else:
        model, options = a.model, ["--bind", "batch=1", "--kv-cache", str(a.room), "--last-logits"]
    temporary = a.output / "compile"
    subprocess.run([RLXC, "compile", str(model), "--target", "cpu", "--name", "lm", "--emit", "kernels", *options, *more,
                    "-o", str(temporary)], check=True)
    shutil.copytree(temporary / "kernels/cpu", a.output, dirs_exist_ok=True)
    shutil.rmtree(temporary)
    subprocess.run(["make", "-s", "-C", str(a.output), "liblm.a", "liblm.so"], check=True)
    for file in sorted(a.model.iterdir()) if a.model.is_dir() else [a.model]:
        target = a.output / file.name
        if file.name in TOKENIZER_FILES:
            shutil.copy(file, target)
        elif file.is_file():
            target.unlink(missing_ok=True)
            target.symlink_to(file.resolve())


if __name__ == "__main__":
    try:
        main()
    except (subprocess.CalledProcessError, OSError, KeyError, ValueError) as e:
        sys.exit(f"build.py: {type(e).__name__}: {e}")
