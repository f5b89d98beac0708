"""A finding as a script of its own, which needs nothing but the user's framework; pytest runs it too."""

from __future__ import annotations

import inspect
import operator
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from gradcheck_cli.contract.limits import WARNING_EPS, half_of_the_digits
from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.worker import Script
from gradcheck_cli.inputs.signature import OMITTED, Fixed, Leaf, Signature
from gradcheck_cli.judge.finding import GroundedFinding
from gradcheck_cli.judge.fingerprint import Site
from gradcheck_cli.measure.components import GRADIENTS
from gradcheck_cli.measure.failure import component_name
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.subject.protocol import CustomGradient
from gradcheck_cli.subject.results import JIT
from gradcheck_cli.subject.script_style import ScriptStyle

_MOST_NUMBERS = 4096
_INDENT = "    "
_PLAIN = (bool, int, float, str, type(None))


class NotWritable(Exception):
    """Why there is no script."""


def written(
    grounded: GroundedFinding, gradient: CustomGradient, site: Site, style: ScriptStyle
) -> Script:
    """The script of a finding, or why there is none."""
    try:
        return Script(script(grounded, gradient, site, style))
    except NotWritable as error:
        return Script(None, str(error))


def script(
    grounded: GroundedFinding, gradient: CustomGradient, site: Site, style: ScriptStyle
) -> str:
    """Shows the numbers when it is run, and fails if the fault is there; a test when pytest collects it."""
    finding, failure, m = grounded.finding, grounded.failure, grounded.measurements
    witness = finding.witness
    if witness is None:
        raise NotWritable("it has no numbers to show")
    if sum(p[failure.row].size for p in m.points) > _MOST_NUMBERS:
        raise NotWritable(f"its arrays have more than {_MOST_NUMBERS} numbers")
    gradients = failure.what == GRADIENTS
    number, index = component_name(m, failure.what, failure.component)
    truth = witness.truth if gradients else witness.value_real
    grave = finding.severity is Severity.ERROR
    bound = half_of_the_digits(m.fmt.eps) if grave else WARNING_EPS.value * m.fmt.eps
    names = [f"leaf{i}" for i in range(len(m.subject.leaves))]
    call = _call(gradient, m.subject.signature, names, style)
    run = style.jitted if witness.mode == JIT and style.jitted else "run"
    what = f"gradients[{number}]" if gradients else f"values[{number}]"
    lines = [
        f'"""{finding.rule} {finding.fingerprint[:8]}: {finding.message}."""', "",
        *style.imports, "", "import numpy as np", "",
        *_loading(site, gradient), "", "",
        f"def call({', '.join(names)}):", f"{_INDENT}return {call}", "", "",
        "def run(leaves, cotangents):",
        *(f"{_INDENT}{line}" for line in style.gradients),
        f"{_INDENT}return values, gradients", "", "",
        "def numbers():",
        f'{_INDENT}"""Values and gradients at the witness."""',
        *(f"{_INDENT}{line}" for line in _arrays(m, failure.row, style)),
        f"{_INDENT}found = {run}(leaves, cotangents)",
        f"{_INDENT}return [[np.asarray(v, np.float64) for v in part] for part in found]", "", "",
        f"TRUTH = {_literal_truth(truth)}", "", "",
        f"def test_{_name(gradient)}():",
        f"{_INDENT}values, gradients = numbers()",
        f"{_INDENT}got = float({what}{list(index) if index else '[()]'})",
        f"{_INDENT}assert abs(got - TRUTH) <= {bound:.3g} * abs(TRUTH), f\"{{got}} instead of {{TRUTH}}\"",
        "", "",
        'if __name__ == "__main__":',
        f"{_INDENT}values, gradients = numbers()",
        f'{_INDENT}print("values   ", *values)',
        f'{_INDENT}print("gradients", *gradients)',
        f'{_INDENT}print("truth of {what}{list(index) if index else ""}:", TRUTH)',
        f"{_INDENT}try:",
        f"{_INDENT}{_INDENT}test_{_name(gradient)}()",
        f"{_INDENT}except AssertionError as fault:",
        f'{_INDENT}{_INDENT}raise SystemExit(f"still there: {{fault}}") from None',
        f'{_INDENT}print("it is not there any more")',
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _literal_truth(truth: str | None) -> str:
    try:
        return repr(float(truth or ""))
    except ValueError:
        raise NotWritable(f"the truth there is no number: {truth}") from None


def _name(gradient: CustomGradient) -> str:
    return "".join(c if c.isalnum() else "_" for c in gradient.name).strip("_").lower()


def _loading(site: Site, gradient: CustomGradient) -> Iterator[str]:
    """The user's module, by its name where it has one, else by its path."""
    if not _reachable(gradient):
        raise NotWritable("no name in its module leads to it")
    if site.target.endswith(".py"):
        yield "import importlib.util"
        yield "import sys"
        yield "from pathlib import Path"
        yield f"FILE = {site.target!r}  # seen from the project's folder, in which or below which this is run"
        yield "folders = (Path.cwd(), *Path.cwd().parents, *Path(__file__).resolve().parents)"
        yield "path = next((folder / FILE for folder in folders if (folder / FILE).is_file()), None)"
        yield 'assert path is not None, f"run it in the project: there is no {FILE} here"'
        yield from _of_a_package(gradient) or (
            "sys.path.insert(0, str(path.parent))  # what lies beside it can be imported",
            'spec = importlib.util.spec_from_file_location("checked", path)',
            "module = importlib.util.module_from_spec(spec)",
            "spec.loader.exec_module(module)",
        )
    else:
        yield "import importlib"
        yield f"module = importlib.import_module({site.target!r})"


def _of_a_package(gradient: CustomGradient) -> tuple[str, ...]:
    """How the file is imported as what it is in its package, so that its relative imports work; nothing where it is in none."""
    home = _home(gradient)
    name = "" if home is None else home.__name__
    if home is None or not home.__package__ or name.startswith("_cgcheck_"):
        return ()
    up = name.count(".") + (home.__package__ == name)  # of an __init__.py
    above = Path(gradient.place.path).parts[-1 - up : -1]
    if list(above) != name.split(".")[:up]:  # folders whose names are no names of modules
        return ()
    return (
        "import importlib",
        f"sys.path.insert(0, str(path.parents[{up}]))",
        f"module = importlib.import_module({name!r})",
    )


def _home(gradient: CustomGradient) -> ModuleType | None:
    """The module that it was found in."""
    modules = list(sys.modules.values())
    return next((m for m in modules if getattr(m, "__file__", None) == gradient.place.path), None)


def _reachable(gradient: CustomGradient) -> bool:
    """Does its dotted name lead to something that can be called as it is?"""
    qualname = gradient.place.qualname
    home = _home(gradient)
    if home is None or "<" in qualname or gradient.kind == "RegisterGradient":
        return False
    try:
        thing = operator.attrgetter(qualname)(home)
    except AttributeError:
        return False
    plain_method = "." in qualname and inspect.isfunction(thing)
    return (callable(thing) or hasattr(thing, "apply")) and not plain_method


def _call(
    gradient: CustomGradient, signature: Signature, names: Sequence[str], style: ScriptStyle
) -> str:
    supply = iter(names)
    positional: list[str] = []
    keywords: list[str] = []
    by_name = False
    for name, value in signature.arguments:
        if value is OMITTED:
            by_name = True
            continue
        text = _argument(value, supply, style)
        if by_name or name in signature.keywords:
            keywords.append(f"{name}={text}")
        else:
            positional.append(text)
    how = gradient.spelling.removeprefix(gradient.name)
    return f"module.{gradient.place.qualname}{how}({', '.join([*positional, *keywords])})"


def _argument(value: Any, supply: Iterator[str], style: ScriptStyle) -> str:
    if isinstance(value, Leaf) and value.is_complex:
        return style.pair.format(real=next(supply), imag=next(supply))
    if isinstance(value, Leaf):
        return next(supply)
    if isinstance(value, dict):
        items = (f"{k!r}: {_argument(value[k], supply, style)}" for k in sorted(value))
        return f"{{{', '.join(items)}}}"
    if type(value) in (tuple, list):
        inner = ", ".join(_argument(v, supply, style) for v in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if len(value) == 1 else ''})"  # fmt: skip
    if isinstance(value, Fixed):
        return _fixed(value, style)
    raise NotWritable(f"an argument is {type(value).__name__}")


def _fixed(value: Fixed, style: ScriptStyle) -> str:
    if isinstance(value.value, np.ndarray):
        return style.array.format(values=value.value.tolist(), dtype=value.value.dtype.name)
    if isinstance(value.value, _PLAIN) or value.value == ():
        return repr(value.value)
    if value.text in style.spellings:
        return style.spellings[value.text]
    raise NotWritable(f"an argument is {value.text}, which has no literal")


def _arrays(m: Measurements, row: int, style: ScriptStyle) -> Iterator[str]:
    """The lists of leaves and of cotangents at a row, as lines of code."""
    for name, arrays in (("leaves", m.points), ("cotangents", m.cotangents)):
        yield f"{name} = ["
        for array in arrays:
            text = style.array.format(values=_listed(array[row], m), dtype=m.subject.dtype)
            yield f"{_INDENT}{text},"
        yield "]"


def _listed(array: Any, m: Measurements) -> str:
    """An array as nested lists of numbers that read back as the same floats."""
    if np.ndim(array):
        return f"[{', '.join(_listed(part, m) for part in array)}]"
    number = float(array)
    return m.fmt.show(number) if np.isfinite(number) else f'float("{number}")'
