"""Tests of the parts of examples/talk that need NumPy alone: python3 talk_parts.py, with examples/talk on the path."""
import unittest

import numpy as np

from decoder import generate
from sampler import Sampler
from text import TextStream


def decode(ids):
    """Tokens that are bytes."""
    return bytes(ids).decode("utf-8", "replace")


def stream(data, stops=(), prompt=b""):
    s = TextStream(decode, prompt, stops)
    given = [s.add(b) for b in data] + [s.finish()]
    return given, s


class TextTest(unittest.TestCase):
    def test_characters_come_when_their_bytes_are_complete(self):
        given, _ = stream("a\u00e9\u20ac\U0001f600b".encode())
        self.assertEqual(given, ["a", "", "\u00e9", "", "", "\u20ac", "", "", "", "\U0001f600", "b", ""])

    def test_a_long_text_is_whole(self):
        text = "abc \u20ac\U0001f600 " * 50
        given, s = stream(text.encode())
        self.assertEqual("".join(given), text)
        self.assertLess(len(s._tokens), 24)

    def test_the_prompt_is_not_repeated_and_may_end_within_a_character(self):
        euro = "\u20ac".encode()
        given, _ = stream(euro[1:] + b"x", prompt=b"price in " * 5 + euro[:1])
        self.assertTrue("".join(given).endswith("x"))
        self.assertNotIn("price", "".join(given))

    def test_bytes_that_are_no_text_are_shown_as_such(self):
        given, _ = stream(b"\xff" * 20 + b"a")
        self.assertEqual("".join(given), "\ufffd" * 20 + "a")
        given, _ = stream(b"a\xe2\x82")
        self.assertEqual("".join(given), "a\ufffd")

    def test_stop_words_and_what_may_become_one_are_held_back(self):
        given, s = stream(b"one STOP two", ["STOP"])
        self.assertEqual("".join(given), "one ")
        self.assertTrue(s.stopped)
        given, s = stream(b"one STO", ["STOP"])
        self.assertEqual(given, ["o", "n", "e", " ", "", "", "", "STO"])
        self.assertFalse(s.stopped)
        given, _ = stream(b"aab", ["ab", "b"])
        self.assertEqual("".join(given), "a")

    def test_the_first_of_several_stop_words_counts(self):
        s = TextStream(lambda ids: "x END y STOP"[:12 * len(ids)], (), ["STOP", "END"])
        self.assertEqual(s.add(1), "x ")


class SamplerTest(unittest.TestCase):
    logits = np.log(np.array([0.1, 0.4, 0.2, 0.3], np.float32))

    def drawn(self, n=4000, **options):
        s = Sampler(**{"temperature": 1.0, **options})
        return np.bincount([s(self.logits) for _ in range(n)], minlength=4) / n

    def test_temperature_zero_takes_the_likeliest(self):
        self.assertEqual(Sampler()(self.logits), 1)
        self.assertEqual(Sampler()(np.array([2.0, 5.0, 5.0], np.float32)), 1)

    def test_draws_follow_the_probabilities(self):
        np.testing.assert_allclose(self.drawn(), [0.1, 0.4, 0.2, 0.3], atol=0.03)
        np.testing.assert_allclose(self.drawn(temperature=0.5), np.array([1, 16, 4, 9]) / 30, atol=0.03)

    def test_top_k_and_top_p_cut(self):
        np.testing.assert_allclose(self.drawn(top_k=2), [0, 4 / 7, 0, 3 / 7], atol=0.03)
        np.testing.assert_allclose(self.drawn(top_p=0.65), [0, 4 / 7, 0, 3 / 7], atol=0.03)
        np.testing.assert_allclose(self.drawn(top_p=0.3), [0, 1, 0, 0])
        np.testing.assert_allclose(self.drawn(top_k=1), [0, 1, 0, 0])

    def test_of_equal_logits_top_k_keeps_the_first(self):
        s = Sampler(1.0, top_k=2)
        self.assertEqual({s(np.zeros(50, np.float32)) for _ in range(50)}, {0, 1})

    def test_seeds(self):
        draw = lambda seed: [s(np.zeros(100, np.float32)) for s in [Sampler(1.0, seed=seed)] for _ in range(20)]
        self.assertEqual(draw(3), draw(3))
        self.assertNotEqual(draw(3), draw(4))

    def test_options_out_of_range(self):
        for options in ({"temperature": -1}, {"temperature": float("nan")}, {"top_p": 0}, {"top_p": 1.1}, {"top_k": -1}):
            self.assertRaises(ValueError, lambda: Sampler(**options))


class GenerateTest(unittest.TestCase):
    class Next:
        """After token t comes t+1."""

        def logits_after(self, tokens):
            return -np.abs(np.arange(10, dtype=np.float32) - (tokens[-1] + 1))

    def test_ends(self):
        self.assertEqual(list(generate(self.Next(), [1, 2], Sampler(), 4)), [3, 4, 5, 6])
        self.assertEqual(list(generate(self.Next(), [1, 2], Sampler(), 4, {5})), [3, 4])
        self.assertEqual(list(generate(self.Next(), [1, 2], Sampler(), 0)), [])


if __name__ == "__main__":
    unittest.main()
