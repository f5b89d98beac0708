"""Runs the code blocks of a page: `python scripts/blocks.py [--write] [PAGE…]`.

A block with a title (```python title="model.py") is a file. A block of kind `console` holds commands, each
behind `$ `, with what they print below; a line `…` stands for any lines, and a `…` at a line's end for the rest of
it. All blocks of a page work in one folder, one after the other, which holds a copy of the fixtures. `--write`
puts what was printed in the place of what stands there and is not true.
"""

from __future__ import annotations

import fnmatch
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_BLOCK = re.compile(
    r'^(?P<indent> *)```(?P<kind>\w+)(?:[^\n]* title="(?P<title>[^"]+)")?[^\n]*\n(?P<text>.*?)^(?P=indent)```$',
    re.M | re.S,
)
_ANY = "…"
_BROKEN = re.compile(r"^Traceback \(most recent|\[internal-error\]|: command not found$", re.M)
_OF_MACHINES = ("CI", "BUILD_NUMBER", "GITHUB_ACTIONS")  # tools print otherwise under these
_LONGEST = 300  # seconds that a command may take before it is a fault


@dataclass(frozen=True)
class Block:
    """Code of a page: where its text stands, and what it is."""

    start: int
    end: int
    kind: str
    title: str
    text: str
    indent: str


@dataclass(frozen=True)
class Step:
    """A command of a `console` block, with what stands below it and what it printed."""

    command: str
    stands: tuple[str, ...]
    printed: tuple[str, ...]

    @property
    def is_true(self) -> bool:
        return agrees(self.stands, self.printed)


def pages() -> list[Path]:
    """All pages of which the blocks run."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(text: str) -> list[Block]:
    """The fenced code of a page, in order."""
    return [
        Block(m.start("text"), m.end("text"), m["kind"], m["title"] or "", _out(m), m["indent"])
        for m in _BLOCK.finditer(text)
    ]


def _out(found: re.Match[str]) -> str:
    """Its text without the indent of the fence."""
    indent = found["indent"]
    return "".join(line.removeprefix(indent) for line in found["text"].splitlines(keepends=True))


def run(page: Path) -> Iterator[tuple[Block, list[Step]]]:
    """Each block that holds commands, with what these printed; files are written on the way."""
    with tempfile.TemporaryDirectory(prefix="page-") as folder:
        shutil.copytree(ROOT / "fixtures", Path(folder, "fixtures"))
        for block in blocks(page.read_text(encoding="utf-8")):
            if block.title:
                _write(Path(folder, block.title), block.text)
            elif block.kind == "console":
                yield block, [_step(lines, folder) for lines in _commands(block.text)]


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def _commands(text: str) -> list[list[str]]:
    """The lines of a block, a list for each command; a comment behind one is a reader's."""
    found: list[list[str]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append([line.removeprefix("$ ").split("  #")[0].strip()])
        elif found:
            found[-1].append(line)
    return found


def _step(lines: list[str], folder: str) -> Step:
    command, *stands = lines
    here = {name: said for name, said in os.environ.items() if name not in _OF_MACHINES}
    seen = {
        **here,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "80",
        "NO_COLOR": "1",
        "KERAS_BACKEND": "jax",
        "PYTEST_ADDOPTS": "",  # of whoever runs this
    }
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder, env=seen, text=True, timeout=_LONGEST, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    return Step(command, tuple(stands), tuple(done.stdout.rstrip("\n").splitlines()))


@functools.cache
def agrees(stands: tuple[str, ...], printed: tuple[str, ...]) -> bool:
    """Whether what stands on the page is what was printed, apart from what it leaves out."""
    if not stands:
        return not printed
    first, *rest = stands
    if first.strip() == _ANY:
        return any(agrees(tuple(rest), printed[k:]) for k in range(len(printed) + 1))
    if not printed:
        return False
    pattern = first.replace("[", "[[]").replace("*", "[*]").replace("?", "[?]")
    if first.endswith(_ANY):
        pattern = pattern.removesuffix(_ANY) + "*"
    same = fnmatch.fnmatchcase(printed[0].rstrip(), pattern.rstrip())
    return same and agrees(tuple(rest), printed[1:])


def written(page: Path) -> str:
    """The page with what is printed in the place of what is not true."""
    text = page.read_text(encoding="utf-8")
    for block, steps in reversed(list(run(page))):
        if all(step.is_true for step in steps):
            continue
        if broken := [step.command for step in steps if _BROKEN.search("\n".join(step.printed))]:
            raise SystemExit(f"{page}: not written, for these are broken: {broken}")
        lines = [
            line
            for step, shown in zip(steps, _shown(block.text), strict=True)
            for line in (shown, *(step.stands if step.is_true else step.printed))
        ]
        new = "".join(f"{block.indent}{line}".rstrip() + "\n" for line in lines)
        text = text[: block.start] + new + text[block.end :]
    return text


def _shown(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("$ ")]


def main(arguments: list[str]) -> int:
    chosen = [Path(a).resolve() for a in arguments if a != "--write"] or pages()
    untrue = 0
    for page in chosen:
        if "--write" in arguments:
            page.write_text(written(page), encoding="utf-8")
            continue
        for _, steps in run(page):
            for step in steps:
                if not step.is_true:
                    untrue += 1
                    print(f"{page}: $ {step.command}", *step.printed, sep="\n    ")
    return min(untrue, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
