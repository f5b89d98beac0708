"""Rules written as people of the field write them, with known verdicts, judged without a word of configuration.

    python benchmarks/field.py                        # all of benchmarks/field
    python benchmarks/field.py benchmarks/field/torch --only losses

A folder holds modules and `expected.json`: by module and name, `right` or `wrong`, and what shows it.
Adequacy is what the report says of its own inputs: of the small changes of function and rule, how many
would have been seen.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
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
    judged: list[Judged] = []
    for folder in folders:
        expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
        for module, names in sorted(expected.items()):
            if given.only in module:
                judged += _judged(folder, module, names, given.reports)
    _tell(judged)


@dataclass(frozen=True, slots=True)
class Judged:
    """What a rule is meant to be, what it is said to be, and what of small changes would have been seen."""

    meant: str
    said: str
    shown: int
    counted: int

    @property
    def passes(self) -> bool:
        return self.said in ("correct", "intended")


def _tell(judged: Sequence[Judged]) -> None:
    for verdict in ("wrong", "right"):
        said = Counter(rule.said for rule in judged if rule.meant == verdict)
        print(f"{verdict}: {sum(said.values())}, judged", dict(sorted(said.items())))
    right = [rule for rule in judged if rule.meant == "right" and rule.counted]
    shown, counted = sum(rule.shown for rule in right), sum(rule.counted for rule in right)
    print(f"small changes of right rules: {shown} of {counted} would have been seen, in {len(right)} rules")  # fmt: skip
    passing = [rule for rule in judged if rule.meant == "wrong" and rule.passes]
    open_ones = [rule for rule in passing if rule.shown < rule.counted or not rule.counted]
    print(f"wrong ones that pass: {len(passing)}; of these, said that the inputs could not show all: {len(open_ones)}")  # fmt: skip


def _judged(folder: Path, module: str, names: dict[str, Any], reports: Path | None) -> list[Judged]:
    """Each rule of the module; printed line by line."""
    source = (folder / module).read_text(encoding="utf-8")
    report = _report(folder, module)
    if reports is not None:
        reports.mkdir(parents=True, exist_ok=True)
        (reports / f"{folder.name}_{module}.json").write_text(report, encoding="utf-8")
    gradients = json.loads(report)["gradients"]
    judged = []
    for name, entry in names.items():
        of_name = _belonging(gradients, name, _definition_of(source, name), _registered(source))
        of_name = of_name or [g for g in gradients if g["line"] in _lines_around(source, name)]
        adequacies = [g["adequacy"] for g in of_name if g.get("adequacy")]
        shown, counted = (sum(a[key] for a in adequacies) for key in ("shown", "counted"))
        judged.append(Judged(entry["verdict"], _verdict(of_name), shown, counted))
        print(f"{module:24} {name:32} {entry['verdict']:6} {judged[-1].said:12} {shown}/{counted}", flush=True)  # fmt: skip
    return judged


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


def _belonging(
    gradients: list[dict[str, Any]],
    name: str,
    definition: ast.stmt | None,
    registered: dict[str, str],
) -> list[dict[str, Any]]:
    """The gradients of the function or class of that name; if none bears it, those that stand inside it, or that it calls.

    Calls may be by the name that a gradient is registered under, or by an attribute that the class makes.
    """
    named = [g for g in gradients if name in (g["name"], *_names_of(g["qualname"]))]
    # A function or method that calls what it defines is judged as a whole.
    named = named or [g for g in gradients if _plain(name).startswith(f"{_plain(g['qualname'])}.")]
    if named or definition is None:
        return named
    decorated = [d.lineno for d in getattr(definition, "decorator_list", ())]
    first = min([definition.lineno, *decorated])
    lines = range(first, (definition.end_lineno or definition.lineno) + 1)
    inside = [g for g in gradients if g["line"] in lines]
    called = {node.id for node in ast.walk(definition) if isinstance(node, ast.Name)}
    texts = {node.value for node in ast.walk(definition) if isinstance(node, ast.Constant)}
    called |= {function for text, function in registered.items() if text in texts}
    made = [g for g in gradients if g["qualname"].startswith(f"{name.partition('.')[0]}.__")]
    return inside or [g for g in gradients if g["qualname"] in called] or made


def _lines_around(source: str, name: str) -> set[int]:
    """The lines at which functions begin that define one of this name: they are judged as a whole."""
    functions = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef)]
    holds = {
        f.lineno: {n.name for n in ast.walk(f) if isinstance(n, ast.FunctionDef) and n is not f}
        for f in functions
    }
    return {line for line, names in holds.items() if name in names}


def _registered(source: str) -> dict[str, str]:
    """The functions that are registered as gradients, by the names that they are registered under."""
    return {
        decorator.args[0].value: node.name
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef)
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call)
        and ast.unparse(decorator.func).endswith("RegisterGradient")
        and isinstance(decorator.args[0], ast.Constant)
        and isinstance(decorator.args[0].value, str)
    }


def _names_of(qualname: str) -> tuple[str, ...]:
    """What it may be called: with what it was made in, without Python's own word for that, or by that alone."""
    return qualname, _plain(qualname), qualname.split(".", maxsplit=1)[0]


def _plain(qualname: str) -> str:
    return qualname.replace(".<locals>", "")


def _definition_of(source: str, name: str) -> ast.stmt | None:
    """The statement of the module that defines the name; of a method, the method's."""
    first, _, rest = name.partition(".")
    for node in ast.parse(source).body:
        names = [getattr(node, "name", None)]
        if isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        if first in names:
            inner = (n for n in getattr(node, "body", []) if getattr(n, "name", None) == rest)
            return next(inner, node)
    return None


def _verdict(gradients: list[dict[str, Any]]) -> str:
    """The worst of the verdicts: a rule on three backends has three."""
    if not gradients:
        return "not found"
    verdicts = [g["verdict"] for g in gradients if g["status"] == "checked"]
    return max(verdicts, key=_WORST_LAST.index, default="unchecked")


if __name__ == "__main__":
    main()
