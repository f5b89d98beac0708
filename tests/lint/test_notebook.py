"""Notebooks: cells as one module, findings at their places in their cells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gradcheck_cli.lint.notebook import notebook
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.run.linting import lint_files

CELLS = [
    ("markdown", "# A model: `jnp.log(1 + jnp.exp(x))`"),
    ("code", "%matplotlib inline\nimport jax.numpy as jnp\n!pip list"),
    ("code", "%%bash\nfor f in *; do echo $f; done"),
    ("code", "x = jnp.ones(3)\nif True:\n    y = jnp.log(1 + jnp.exp(x))"),
]


def written(folder: Path, cells: list[tuple[str, str]]) -> Path:
    lines = [{"cell_type": kind, "source": text.splitlines(keepends=True)} for kind, text in cells]
    path = folder / "model.ipynb"
    path.write_text(json.dumps({"cells": lines, "nbformat": 4}))
    return path


def test_a_finding_stands_in_its_cell(tmp_path: Path) -> None:
    written(tmp_path, CELLS)
    (read,) = lint_files([str(tmp_path)], Settings(), tmp_path)
    (finding,) = read.findings
    assert (finding.path, finding.line, finding.column) == ("model.ipynb:cell 4", 3, 9)
    assert (finding.rule, finding.edits) == ("naive-softplus", [])


def test_a_comment_in_a_cell_suppresses(tmp_path: Path) -> None:
    kind, text = CELLS[-1]
    written(
        tmp_path, [*CELLS[:-1], (kind, f"{text}  # cgcheck: ignore[naive-softplus] -- small x")]
    )
    (read,) = lint_files([str(tmp_path / "model.ipynb")], Settings(), tmp_path)
    assert read.findings == ()


def test_cells_keep_their_lines_where_some_are_for_the_shell() -> None:
    text = json.dumps({"cells": [{"cell_type": "code", "source": "!ls\nx = 1"}]})
    assert notebook(text).source == "\nx = 1\n"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"cells": 3}', "\x00"])
def test_what_is_no_notebook_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "model.ipynb").write_text(text)
    (read,) = lint_files([str(tmp_path / "model.ipynb")], Settings(), tmp_path)
    assert [f.rule for f in read.findings] == ["unreadable-file"]


@pytest.mark.parametrize("cells", ['{"cells": []}', '{"cells": [3, {"cell_type": "raw"}]}'])
def test_a_notebook_without_code_has_no_findings(tmp_path: Path, cells: str) -> None:
    (tmp_path / "model.ipynb").write_text(cells)
    (read,) = lint_files([str(tmp_path / "model.ipynb")], Settings(), tmp_path)
    assert read.findings == ()
