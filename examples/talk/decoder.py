"""A compiled language model as a decoder: tokens in, the logits of the next token out. Needs NumPy alone."""
import importlib.util
import os

import numpy as np


class CacheFull(RuntimeError):
    """The tokens have no room in the cache."""


class Decoder:
    """`tokens` are those in the cache. Long prompts run in parts of `part` tokens, which bounds the memory of activations."""

    def __init__(self, folder, part=256):
        spec = importlib.util.spec_from_file_location("lm_model", os.path.join(folder, "lm_model.py"))
        if not os.path.exists(spec.origin):
            raise FileNotFoundError(f"{folder} is no package of build.py: there is no lm_model.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        self.model = module.Model(folder, folder)
        self.part, self.tokens = part, []
        inputs = {t.name: t for t in self.model.inputs}
        states = [self.model.inputs[i] for i, _ in self.model.states]
        kept = {o for _, o in self.model.states}
        results = [t for o, t in enumerate(self.model.outputs) if o not in kept]
        ranks = [len(t.dims) for t in results]
        if "input_ids" not in inputs or 3 not in ranks or not states or not all(isinstance(d, int) for d in states[0].dims):
            raise ValueError(f"{folder} is no decoder with a cache of fixed room")
        self._logits = ranks.index(3)
        self.room, self.vocabulary = states[0].dims[2], results[self._logits].dims[-1]
        self._others = [t for t in self.model.inputs if t not in states]
        self._states = self.model.start()

    def logits_after(self, tokens):
        """The logits of the token that follows `tokens`. Those that the cache begins with already are not computed again."""
        tokens = [int(t) for t in tokens]
        if not tokens or not all(0 <= t < self.vocabulary for t in tokens):
            raise ValueError(f"the tokens must be one or more numbers of 0 to {self.vocabulary - 1}")
        if len(tokens) > self.room:
            raise CacheFull(f"{len(tokens)} tokens do not fit: the cache has room for {self.room}")
        same = 0
        while same < min(len(self.tokens), len(tokens) - 1) and self.tokens[same] == tokens[same]:
            same += 1
        del self.tokens[same:]
        for at in range(same, len(tokens), self.part):
            logits = self._run(tokens[at:at + self.part])
        return logits

    def _run(self, new):
        past, end = len(self.tokens), len(self.tokens) + len(new)
        values = {"input_ids": [new], "past_length": past, "attention_mask": [np.arange(self.room) < end],
                  "position_ids": [np.arange(past, end)]}
        given = {}
        for t in self._others:
            if t.name not in values:
                raise ValueError(f"nothing is known about the input {t.name}")
            given[t.name] = np.asarray(values[t.name], {"i64": np.int64, "i32": np.int32}[t.dtype])
        logits = self.model.advance(self._states, **given)[self._logits][0, -1].astype(np.float32)
        if np.isnan(logits).any():
            raise ArithmeticError("the model computed NaN")
        self.tokens += new
        return logits


def generate(decoder, tokens, sampler, most, ends=()):
    """Yields at most `most` tokens that follow `tokens`, up to one of `ends`."""
    tokens = list(tokens)
    for _ in range(most):
        token = sampler(decoder.logits_after(tokens))
        if token in ends:
            return
        tokens.append(token)
        yield token
