"""Lines that edits leave without a reader."""

from __future__ import annotations

import pytest

from gradcheck_cli.contract.report import Edit
from gradcheck_cli.project.edits import applied
from gradcheck_cli.project.leftovers import leftovers

HEAD = "import math as m\nimport journal\nimport numpy as np\nfrom torch.nn import functional as F\n\n\n"


def without(source: str, *replaced: tuple[str, str]) -> str:
    """The source with texts in place of others that stand in it once, and without what that leaves behind."""
    edits = []
    for old, new in replaced:
        before, _, _ = source.partition(old)
        line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
        edits.append(
            Edit(line=line, column=column, end_line=line, end_column=column + len(old), text=new)
        )
    return applied(source, [*leftovers(source, edits), *edits])


def test_a_line_goes_whose_name_nothing_reads_any_more_and_so_does_what_only_it_read() -> None:
    source = f"{HEAD}def f(x):\n    é = 'ü'; y = x\n    a = 2 * x\n    b = m.exp(a)\n    return é, m.log(1 + b)\n"
    assert (
        without(source, ("m.log(1 + b)", "plus(x)"))
        == f"{HEAD}def f(x):\n    é = 'ü'; y = x\n    return é, plus(x)\n"
    )


def test_two_edits_together_leave_what_neither_leaves_alone() -> None:
    source = f"{HEAD}def f(x):\n    e = m.exp(x)\n    return m.log(1 + e), (e)\n"
    one, other = ("m.log(1 + e)", "plus(x)"), ("(e)", "x")
    assert "e = m.exp(x)" in without(source, one)
    assert "e = m.exp(x)" in without(source, other)
    assert without(source, one, other) == f"{HEAD}def f(x):\n    return plus(x), x\n"


@pytest.mark.parametrize(
    "body",
    [
        "e = print(x)",
        "e = load.fetch(x)",
        "e = journal.note(x)",
        "e = np.exp(x, out=k)",
        "e = np.random.rand(3)",
        "e = m.exp(\n        x)  # kept",
        "e = x\n    k = call('e * 2')",
        "class S:\n        e = x",
        "e = x.write()",
        "e = (k := x)",
        "e = x; k = x",
        "e = x  # of the log",
        "global e\n    e = x",
        "e = x\n    e = 2 * x",
        "e = x\n    k = lambda: e",
        "e = x\n    k = locals()",
        "e, k = x",
        "if x:\n        e = x",
        "k = [e for e in x]\n    e = x",
    ],
)
def test_a_line_stays_that_may_do_more_or_is_read_elsewhere(body: str) -> None:
    source = f"{HEAD}def f(x):\n    {body}\n    return m.log(1 + e)\n"
    assert without(source, ("m.log(1 + e)", "plus(x)")) == source.replace("m.log(1 + e)", "plus(x)")


def test_what_nobody_read_before_is_none_of_ours() -> None:
    source = f"{HEAD}def f(x):\n    spare = x\n    e = F.relu(x)\n    return m.log(1 + e)\n"
    assert (
        without(source, ("m.log(1 + e)", "plus(x)"))
        == f"{HEAD}def f(x):\n    spare = x\n    return plus(x)\n"
    )


def test_a_line_that_an_edit_changes_stays() -> None:
    source = f"{HEAD}def f(x):\n    e = m.exp(x)\n    return m.log(1 + e)\n"
    kept = without(source, ("m.exp(x)", "m.expm1(x)"), ("m.log(1 + e)", "plus(x)"))
    assert "    e = m.expm1(x)\n    return plus(x)\n" in kept
