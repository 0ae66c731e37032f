"""Becomes the program: its exit code, its streams and its signals are those of the command line."""

import os
import sys
from typing import NoReturn

from rlxc import program


def main() -> NoReturn:
    os.execv(program(), [str(program()), *sys.argv[1:]])


if __name__ == "__main__":
    main()
