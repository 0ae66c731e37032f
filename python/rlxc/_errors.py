"""What the module raises and warns with."""

from __future__ import annotations

from typing import List, NamedTuple, Sequence, Tuple


class Diagnostic(NamedTuple):
    """One finding of the compiler. `rlxc.explain(code)` says more about its code."""

    severity: str  # "error", "warning" or "note"
    code: str  # "RLX0214"
    where: str  # the node, input or line; or empty
    message: str
    help: str  # advice, or empty

    def __str__(self) -> str:
        place = f" {self.where}:" if self.where else ""
        advice = f"\n  help: {self.help}" if self.help else ""
        return f"{self.severity}[{self.code}]:{place} {self.message}{advice}"


class Error(Exception):
    """The compiler refuses its input, or fails. The text is the one that the command line prints."""

    code: str  # of the first error, "RLX0301"
    exit_code: int  # of the command line for it
    diagnostics: List[Diagnostic]

    def __init__(self, text: str, code: str, exit_code: int, diagnostics: Sequence[Tuple[str, str, str, str, str]]) -> None:
        super().__init__(text, code, exit_code, diagnostics)
        self.code = code
        self.exit_code = exit_code
        self.diagnostics = [Diagnostic(*d) for d in diagnostics]

    def __str__(self) -> str:
        return str(self.args[0])


class CompilerWarning(UserWarning):
    """A warning of the compiler, by Python's `warnings`."""
