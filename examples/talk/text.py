"""Turns tokens into text while they come. Needs no library."""


class TextStream:
    """Holds back what the next token may change: characters whose bytes are incomplete, and the beginning of a stop word.

    `decode` gives the text of a list of tokens. Single tokens have no text of their own: decoders drop the space at the beginning,
    and characters are spread over tokens. So the text of a token is what it adds to the text of the tokens before.
    """

    def __init__(self, decode, prompt=(), stops=()):
        self._decode, self._stops = decode, [s for s in stops if s]
        self._tokens = list(prompt)
        self._shown = len(self._tokens)  # tokens whose text is in _held, or was given
        self._held = ""
        self.stopped = False  # a stop word has come: it and the text behind it are dropped
        self._forget()

    def _forget(self):
        """Drops tokens that later ones do not need, unless a character would be cut."""
        last = self._tokens[self._shown - 8:self._shown]
        if self._shown > 8 and not self._decode(last).startswith("\ufffd"):
            del self._tokens[:self._shown - 8]
            self._shown = 8

    def add(self, token):
        """The text that is certain now."""
        self._tokens.append(token)
        before, now = self._decode(self._tokens[:self._shown]), self._decode(self._tokens)
        if now.endswith("\ufffd") and len(self._tokens) - self._shown < 8:  # of 8 tokens, it is no character
            return ""
        self._shown = len(self._tokens)
        self._forget()
        return self._give(now[len(before):])

    def finish(self):
        """The rest, at the end of the answer."""
        before, now = self._decode(self._tokens[:self._shown]), self._decode(self._tokens)
        self._shown = len(self._tokens)
        text = self._give(now[len(before):]) + self._held
        self._held = ""
        return text

    def _give(self, text):
        if self.stopped:
            return ""
        self._held += text
        found = [at for at in (self._held.find(s) for s in self._stops) if at >= 0]
        if found:
            text, self._held, self.stopped = self._held[:min(found)], "", True
            return text
        keep = max((n for s in self._stops for n in range(1, len(s)) if self._held.endswith(s[:n])), default=0)
        at = len(self._held) - keep
        text, self._held = self._held[:at], self._held[at:]
        return text
