"""Rules written as people of the field write them, with known verdicts, judged without a word of configuration.

    python benchmarks/field.py                        # all of benchmarks/field
    python benchmarks/field.py benchmarks/field/torch --only losses

A folder holds modules and `expected.json`: by module and name, `right` or `wrong`, and what shows it.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

_WORST_LAST = ("correct", "intended", "inconclusive", "unstable", "wrong")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--only", default="", help="modules whose name holds this")
    parser.add_argument("--reports", type=Path, help="a folder for the JSON of each module")
    given = parser.parse_args()
    folders = given.folders or sorted(
        p for p in Path(__file__).with_suffix("").iterdir() if p.is_dir()
    )
    counts: Counter[tuple[str, str]] = Counter()
    for folder in folders:
        expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
        for module, names in sorted(expected.items()):
            if given.only in module:
                counts.update(_judged(folder, module, names, given.reports))
    for verdict in ("wrong", "right"):
        of_verdict = {got: n for (meant, got), n in sorted(counts.items()) if meant == verdict}
        print(f"{verdict}: {sum(of_verdict.values())}, judged", of_verdict)


def _judged(
    folder: Path, module: str, names: dict[str, Any], reports: Path | None
) -> list[tuple[str, str]]:
    """For each name what it is meant to be and what it is said to be; printed line by line."""
    source = (folder / module).read_text(encoding="utf-8")
    report = _report(folder, module)
    if reports is not None:
        reports.mkdir(parents=True, exist_ok=True)
        (reports / f"{folder.name}_{module}.json").write_text(report, encoding="utf-8")
    gradients = json.loads(report)["gradients"]
    pairs = []
    for name, entry in names.items():
        lines = _lines_of(source, name)
        verdict = _verdict(_belonging(gradients, name, lines))
        pairs.append((entry["verdict"], verdict))
        print(f"{module:24} {name:32} {entry['verdict']:6} {verdict}", flush=True)
    return pairs


def _report(folder: Path, module: str) -> str:
    command = [
        sys.executable,
        "-m",
        "gradcheck_cli",
        module,
        "--output-format",
        "json",
        "--max-time",
        "600",
    ]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True).stdout


def _belonging(gradients: list[dict[str, Any]], name: str, lines: range) -> list[dict[str, Any]]:
    """The gradients of the function or class of that name; if none bears it, those that stand inside it."""
    named = [
        g for g in gradients if name in (g["name"], g["qualname"], g["qualname"].split(".")[0])
    ]
    return named or [g for g in gradients if g["line"] in lines]


def _lines_of(source: str, name: str) -> range:
    for node in ast.parse(source).body:
        names = [getattr(node, "name", None)]
        if isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        if name in names:
            return range(node.lineno, (node.end_lineno or node.lineno) + 1)
    return range(0)


def _verdict(gradients: list[dict[str, Any]]) -> str:
    """The worst of the verdicts: a rule on three backends has three."""
    if not gradients:
        return "not found"
    verdicts = [g["verdict"] for g in gradients if g["status"] == "checked"]
    return max(verdicts, key=_WORST_LAST.index, default="unchecked")


if __name__ == "__main__":
    main()
