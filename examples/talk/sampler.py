"""Picks a token from logits. talk.cpp does the same with the same random numbers."""
import numpy as np


class Sampler:
    """The likeliest token at temperature 0. Otherwise it draws from the `top_k` likeliest ones (0: all), and among them from the
    fewest whose probabilities sum up to `top_p`. Equal seeds give equal tokens."""

    def __init__(self, temperature=0.0, top_k=0, top_p=1.0, seed=0):
        if not temperature >= 0 or top_k < 0 or not 0 < top_p <= 1:
            raise ValueError("temperature and top-k are at least 0, and top-p is above 0 and at most 1")
        self.temperature, self.top_k, self.top_p = temperature, top_k, top_p
        self._random = np.random.RandomState(seed)  # the Mersenne Twister of C++'s std::mt19937

    def __call__(self, logits):
        if self.temperature == 0:
            return int(np.argmax(logits))
        found = np.arange(len(logits))
        if 0 < self.top_k < len(logits):
            least = np.partition(logits, -self.top_k)[-self.top_k]
            found = found[logits >= least]
        found = found[np.argsort(-logits[found], kind="stable")]  # of equal ones the lower number first
        if self.top_k:
            found = found[:self.top_k]
        x = logits[found].astype(np.float64) / self.temperature
        p = np.exp(x - x[0])
        sums = np.cumsum(p)
        count = min(int(np.searchsorted(sums, self.top_p * sums[-1])) + 1, len(found))
        at = np.searchsorted(sums[:count], self._random.random_sample() * sums[count - 1], side="right")
        return int(found[min(int(at), count - 1)])
