"""The linter on sources that nobody wrote: real files, mutated. No crash, no hang, and repairs that parse.

    python benchmarks/lint_fuzz.py FOLDER [--count 10000] [--seed 0]

A mutation takes out, doubles or swaps lines, characters or brackets, nests an expression deeply, joins two files, or
writes bytes that are no text. Each source is linted and, where it parses, repaired;
longer than two seconds is told as slow.
"""

from __future__ import annotations

import argparse
import ast
import random
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from gradcheck_cli.lint.fixed import fixed
from gradcheck_cli.lint.linted import linted

_LONGEST = 2.0  # seconds for one file
_MOST_LETTERS = 20_000

Mutation = Callable[[random.Random, str, str], str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    sources = [text for path in sorted(given.folder.rglob("*.py")) if (text := _text(path))]
    rng = random.Random(given.seed)
    ends: Counter[str] = Counter()
    for number in range(given.count):
        source = _mutated(rng, sources)
        begun = time.perf_counter()
        ends[_end(source, number)] += 1
        if time.perf_counter() - begun > _LONGEST:
            ends["slow"] += 1
            print(f"{number}: {time.perf_counter() - begun:.1f} s for {len(source)} letters")
    print(f"{given.count} sources:", dict(ends))
    sys.exit(bool(ends["crash"] or ends["slow"] or ends["broken repair"]))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")[:_MOST_LETTERS]
    except (OSError, UnicodeDecodeError):
        return ""


def _end(source: str, number: int) -> str:
    try:
        findings = linted(source, "fuzz.py")
        repaired = fixed(source, lambda text: linted(text, "fuzz.py"), unsafe=True)
    except Exception as error:  # what is looked for
        print(f"{number}: {error!r}")
        return "crash"
    if repaired.repaired and not _parses(repaired.text):
        return "broken repair"
    return "repaired" if repaired.repaired else "findings" if findings else "clean"


def _parses(source: str) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _mutated(rng: random.Random, sources: Sequence[str]) -> str:
    source = rng.choice(sources)
    for _ in range(rng.randrange(1, 4)):
        source = rng.choice(_MUTATIONS)(rng, source, rng.choice(sources))
    return source


def _without_lines(rng: random.Random, source: str, other: str) -> str:
    return "".join(line for line in source.splitlines(keepends=True) if rng.random() > 0.05)


def _swapped_lines(rng: random.Random, source: str, other: str) -> str:
    lines = source.splitlines(keepends=True)
    rng.shuffle(lines)
    return "".join(lines)


def _other_letters(rng: random.Random, source: str, other: str) -> str:
    letters = list(source)
    for _ in range(1 + len(letters) // 500):
        letters[rng.randrange(len(letters))] = rng.choice("()[]{}\t\n\r\x00\x0cé∂𝒙'\"\\#.,+-*/@")
    return "".join(letters)


def _nested(rng: random.Random, source: str, other: str) -> str:
    depth = rng.choice((30, 90, 400, 3000))
    opened = rng.choice(("(", "[", "-", "np.exp(", "1 + (", "lambda x: ", "f(x)["))
    closed = {"(": ")", "[": "]", "np.exp(": ")", "1 + (": ")", "f(x)[": "]"}.get(opened, "")
    return f"{source}\nimport numpy as np\ny = {opened * depth}x{closed * depth}\n"


def _joined(rng: random.Random, source: str, other: str) -> str:
    cut = rng.randrange(len(source) + 1)
    return source[:cut] + other[rng.randrange(len(other) + 1) :]


def _naive(rng: random.Random, source: str, other: str) -> str:
    """An expression of the rules' own, somewhere at the end of a line."""
    lines = source.splitlines(keepends=True) or [""]
    text = rng.choice(_NAIVE)
    lines.insert(rng.randrange(len(lines) + 1), f"z = {text}\n")
    return "import numpy as np\nimport torch\n" + "".join(lines)


_NAIVE = (
    "np.log(1 + np.exp(x))", "(1 + x.exp()).log()", "np.exp(a) / (np.exp(a) + np.exp(b))", "1 - np.cos(x)",
    "torch.log(torch.sigmoid(x))", "np.log(np.sum(np.exp(x), axis=-1))", "np.sqrt(x + 1) - np.sqrt(x)",
)  # fmt: skip
_MUTATIONS: Sequence[Mutation] = (
    _without_lines, _swapped_lines, _other_letters, _nested, _joined, _naive, _naive,
)  # fmt: skip

if __name__ == "__main__":
    main()
