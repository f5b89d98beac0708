"""What pages say in prose, where the code has it as well: numbers, names, lists."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from gradcheck_cli.contract.limits import EVERYDAY
from gradcheck_cli.lint.linted import linted
from gradcheck_cli.project.framework_marks import MARKS
from gradcheck_cli.project.input_specs import FAMILIES
from gradcheck_cli.report.markdown import _MOST_LETTERS
from gradcheck_cli.run.result_cache import _MOST_BYTES

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def names_in(text: str) -> set[str]:
    return set(re.findall(r"`([^`\n]+)`", text))


def test_the_linter_has_as_many_rules_as_its_page_says() -> None:
    counts = {kind: len(list((ROOT / "rules" / kind).glob("*.md"))) for kind in ("numerics", "contracts")}  # fmt: skip
    assert f"Its {counts['numerics']} rules" in page("docs/do/lint.md")
    assert counts["contracts"] == 8
    assert "Eight more read broken contracts" in page("docs/do/lint.md")


def test_the_linter_finds_what_its_page_says() -> None:
    """In all folders of snippets together."""
    found = flagged = unsafe = safe = 0
    for folder in sorted((ROOT / "benchmarks" / "lint").iterdir()):
        expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
        for name, entry in expected.items():
            told = bool(linted((folder / name).read_text(encoding="utf-8"), name))
            found, unsafe = found + (told and entry["unsafe"]), unsafe + entry["unsafe"]
            flagged, safe = flagged + (told and not entry["unsafe"]), safe + (not entry["unsafe"])
    text = re.sub(r"\s+", " ", page("docs/lint.md"))
    assert f"all fourteen folders together: {found} of {unsafe} found" in text
    assert f"{flagged} of {safe} safe ones flagged" in text


def test_what_is_needed_at_least_stands_on_the_page() -> None:
    needed = [*SETTINGS["project"]["dependencies"]]
    needed += [n for each in SETTINGS["project"]["optional-dependencies"].values() for n in each]
    least = {m["name"]: m["version"] for n in needed if (m := re.match(r"(?P<name>[a-z]+)>=(?P<version>[\d.]+)", n))}  # fmt: skip
    said = page("docs/start/install.md")
    for name, shown in (
        ("jax", "JAX"),
        ("torch", "PyTorch"),
        ("tensorflow", "TensorFlow"),
        ("keras", "Keras"),
    ):
        assert f"{shown} {least[name]} or newer" in said
    (triton,) = {n for n in needed if n.startswith("triton")}
    low, below = re.findall(r"\d+\.\d+", triton.partition(";")[0])
    major, minor = below.split(".")
    assert f"Triton {low} to {major}.{int(minor) - 1}" in page("docs/devices.md")
    python = SETTINGS["project"]["requires-python"].removeprefix(">=")
    assert f"Python {python} or newer" in said


def test_the_action_and_the_hooks_take_what_the_page_gives_them() -> None:
    action = yaml.safe_load(page("action.yml"))
    blocks = re.findall(r"^```yaml[^\n]*\n(.*?)^```", page("docs/ci.md"), flags=re.M | re.S)
    hooks = {hook["id"] for hook in yaml.safe_load(page(".pre-commit-hooks.yaml"))}
    used: dict[str, Any] = {}
    named: set[str] = set()
    for block in blocks:
        read = yaml.safe_load(block)
        if isinstance(read, dict) and "jobs" in read:
            (job,) = read["jobs"].values()
            (step,) = (s for s in job["steps"] if s.get("uses", "").startswith("cgcheck/"))
            used |= step["with"]
        if isinstance(read, list) and "hooks" in read[0]:
            named |= {hook["id"] for hook in read[0]["hooks"]}
    assert set(used) <= set(action["inputs"])
    assert {"paths", "sarif-file"} <= set(used)
    assert {"cgcheck", "cgcheck-lint"} <= named <= hooks
    assert "cgcheck-isolated" in hooks & names_in(page("docs/ci.md"))
    assert "arguments" in action["inputs"]


def test_families_of_inputs_are_all_on_the_page() -> None:
    (row,) = (line for line in page("docs/do/inputs.md").splitlines() if "in simplex`" in line)
    said = names_in(row.partition("|")[2].partition("|")[2]) | {"simplex"}
    assert said == set(FAMILIES)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("docs/ci.md", f"Results of {_MOST_BYTES >> 20} MiB at most"),
        ("docs/ci.md", f"at most {_MOST_LETTERS:,} letters"),
        ("docs/look-up/glossary.md", "between {:g} and {:g}".format(*EVERYDAY.value).replace("e-0", "e-").replace("10000", "1e4").replace("0.0001", "1e-4")),
    ],
)  # fmt: skip
def test_numbers_are_those_of_the_code(name: str, said: str) -> None:
    assert said in page(name)


def test_what_is_found_in_a_module_is_marked_in_source() -> None:
    table = re.findall(r"^\| (JAX|PyTorch|TensorFlow|Keras 3) \| (.*?) \|", page("docs/understand/frameworks.md"), flags=re.M)  # fmt: skip
    assert len(table) == 4
    marks = {m.framework: m.callables | m.bases | m.solutions for m in MARKS}
    named = {"JAX": "jax", "PyTorch": "torch", "TensorFlow": "tensorflow", "Keras 3": "keras"}
    for framework, cell in table:
        for name in names_in(cell):
            assert name.rpartition(".")[2] in marks[named[framework]]


def test_the_same_faults_have_the_same_figures_on_both_pages() -> None:
    rows = re.findall(r"^\| (?P<tool>[^|]+) \| (?P<seen>\d+) \|", page("docs/understand/peers.md"), flags=re.M)  # fmt: skip
    assert len(rows) >= 7
    every = set(re.findall(r"\b\d{3}\b", page("docs/mutation.md")))
    assert {seen for _, seen in rows} <= every


_IMPORTS = {  # the first that a module has
    "Keras": r"^\s*(?:import keras|from keras|from tensorflow import keras)(?![\s\S]*tf\.custom_gradient)",
    "TensorFlow": r"^\s*(?:import|from) tensorflow",
    "PyTorch": r"^\s*(?:import|from) torch",
    "JAX": "",
}


def test_the_field_has_as_many_rules_as_its_page_says() -> None:
    counts = dict.fromkeys(_IMPORTS, 0)
    for folder in (ROOT / "benchmarks" / "field").iterdir():
        expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
        for module, rules in expected.items():
            text = (folder / module).read_text(encoding="utf-8")
            home = next(n for n, imports in _IMPORTS.items() if re.search(imports, text, re.MULTILINE))  # fmt: skip
            counts[home] += len(rules)
    said = f"holds {sum(counts.values()):,} rules over " + ", ".join(
        f"{name} ({counts[name]:,})" for name in ("JAX", "PyTorch", "TensorFlow")
    )
    assert f"{said} and Keras ({counts['Keras']:,})" in page("docs/field.md")
