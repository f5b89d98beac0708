"""Snippets of the field, unsafe ones and safe twins: how many of each the linter flags.

    python benchmarks/lint_field.py [FOLDER...] [--each]        # without a folder: all of benchmarks/lint

A folder holds modules and `expected.json`: for each file whether it is unsafe, and in which line it fails. In
`benchmarks/lint_modules` are whole modules, with the places in them that are unsafe or look so.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from gradcheck_cli.lint.linted import linted


def main() -> None:
    each = "--each" in sys.argv
    named = [Path(a) for a in sys.argv[1:] if not a.startswith("--")]
    for folder in named or sorted((Path(__file__).parent / "lint").iterdir()):
        expected: dict[str, dict[str, Any]] = json.loads((folder / "expected.json").read_text())
        found = {name: linted((folder / name).read_text(), name) for name in expected}
        unsafe = [n for n, e in expected.items() if e["unsafe"]]
        safe = [n for n in expected if n not in unsafe]
        at_line = [n for n in unsafe if lines(expected[n]) & {k for f in found[n] for k in range(f.line, (f.end_line or f.line) + 1)}]  # fmt: skip
        flagged = [n for n in safe if found[n]]
        anywhere = sum(bool(found[n]) for n in unsafe)
        print(f"{folder.name}: {len(at_line)} of {len(unsafe)} unsafe ones found at their line ({anywhere} anywhere), {len(flagged)} of {len(safe)} safe ones flagged")  # fmt: skip
        if each:
            for name in sorted({*unsafe, *flagged} - set(at_line)):
                told = ", ".join(f"{f.line} {f.rule}" for f in found[name])
                kind = expected[name].get("kind", expected[name].get("why"))
                print(
                    f"  {name} {'unsafe' if name in unsafe else 'safe'}: {kind}: {told or 'nothing'}"
                )
    if not named:
        of_modules(Path(__file__).parent / "lint_modules", each=each)


def of_modules(folder: Path, *, each: bool) -> None:
    """The places that are marked in whole modules."""
    expected: dict[str, list[dict[str, Any]]] = json.loads((folder / "expected.json").read_text())
    told: dict[str, list[bool]] = {"unstable": [], "fine": []}
    for name, places in sorted(expected.items()):
        found = linted((folder / name).read_text(), name)
        for place in places:
            hit = any(f.line <= place["line"] <= (f.end_line or f.line) for f in found)
            told[place["verdict"]].append(hit)
            if each and hit is (place["verdict"] == "fine"):
                print(f"  {name} {place['line']} {place['verdict']}: {place['what']}")
    unsafe, safe = told["unstable"], told["fine"]
    print(f"{folder.name}: {sum(unsafe)} of {len(unsafe)} unsafe places found, {sum(safe)} of {len(safe)} safe ones flagged")  # fmt: skip


def lines(entry: dict[str, Any]) -> set[int]:
    """The lines at which a mark is right."""
    also = entry.get("also", [])
    return {entry["line"], *(also if isinstance(also, list) else [also])}


if __name__ == "__main__":
    main()
