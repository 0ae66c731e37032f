"""Answers a prompt with a package of build.py: talk.py FOLDER [PROMPT]. Without a prompt, it talks: a line in, an answer out.

With --ids, prompt and answer are numbers of tokens, which needs NumPy alone; text needs the library `tokenizers`.
"""
import argparse
import sys
import time

from decoder import CacheFull, Decoder, generate
from sampler import Sampler
from text import TextStream


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("folder")
    add("prompt", nargs="?", help="a text, or numbers of tokens with --ids")
    add("--chat", action="store_true", help="put the prompt into the chat template of the model")
    add("--ids", action="store_true", help="numbers of tokens in place of text")
    add("--tokens", type=int, default=256, help="most tokens of an answer (256)")
    add("--temperature", type=float, default=0.0, help="0, the default, takes the likeliest token")
    add("--top-k", type=int, default=0, help="draw from this many tokens; 0: all")
    add("--top-p", type=float, default=1.0, help="draw from the likeliest tokens of this probability")
    add("--seed", type=int, default=0)
    add("--stop", action="append", default=[], help="a text that ends the answer, or a number with --ids; may be repeated")
    add("--part", type=int, default=256, help="most tokens of a prompt that run at once (256)")
    add("--threads", type=int, default=0, help="0: all processors")
    add("--time", action="store_true", help="print the time of prompt and steps")
    a = parser.parse_args(arguments)
    if a.ids and (a.chat or a.prompt is None):
        parser.error("--ids needs a prompt, and no --chat")
    if a.part < 1 or a.tokens < 0:
        parser.error("--part is at least 1, --tokens at least 0")
    return a


def answer(a, decoder, sampler, tokens, ends, show):
    """Shows each token of the answer; `show` returns whether the answer goes on."""
    count, start, first = 0, time.perf_counter(), None
    for token in generate(decoder, tokens, sampler, a.tokens, ends):
        first = first or time.perf_counter()
        count += 1
        if not show(token):
            break
    if a.time and first:
        steps = time.perf_counter() - first
        print(f"prompt {1e3 * (first - start):.1f} ms ({len(tokens)} tokens), step {1e3 * steps / max(count - 1, 1):.2f} ms",
              file=sys.stderr)


def write(text):
    print(text, end="", flush=True)


def say(a, decoder, sampler, tokenizer, tokens):
    """Streams an answer, and returns its text."""
    stream, said = TextStream(tokenizer.decode, tokens, a.stop), []

    def show(token):
        said.append(stream.add(token))
        write(said[-1])
        return not stream.stopped

    try:
        answer(a, decoder, sampler, tokens, tokenizer.ends, show)
    finally:
        said.append(stream.finish())
        write(said[-1] + "\n")
    return "".join(said)


def main(arguments):
    a = parse(arguments)
    decoder, sampler = Decoder(a.folder, a.part), Sampler(a.temperature, a.top_k, a.top_p, a.seed)
    decoder.model.set_threads(a.threads)
    if a.ids:
        ids = [int(word) for word in a.prompt.split()]
        answer(a, decoder, sampler, ids, {int(word) for word in a.stop}, lambda token: print(token, flush=True) or True)
        return
    from tokenizer import Tokenizer

    tokenizer = Tokenizer(a.folder)
    conversation = []
    for line in [a.prompt] if a.prompt is not None else (line.rstrip("\n") for line in sys.stdin):
        conversation.append({"role": "user", "content": line})
        tokens = tokenizer.chat(conversation) if a.chat else tokenizer.encode("\n".join(m["content"] for m in conversation))
        conversation.append({"role": "assistant", "content": say(a, decoder, sampler, tokenizer, tokens)})


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ImportError as e:
        sys.exit(f"talk.py: {e}; text needs the libraries tokenizers and, for --chat, jinja2; --ids needs neither")
    except (CacheFull, OSError, ValueError, ArithmeticError, RuntimeError) as e:
        sys.exit(f"talk.py: {e}")
