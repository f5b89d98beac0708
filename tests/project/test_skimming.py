"""Sources of which the words alone say that they define no custom gradient, and those that a tree has to tell of."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from gradcheck_cli.project.skimming import Leads, words_of
from gradcheck_cli.project.source_marks import find_marks

BESIDE = {
    "compat.py": "import jax\n\ndeco = jax.custom_vjp\n",
    "again.py": "from compat import deco as ours\n",
    "base.py": "import torch\n\n\nclass Op(torch.autograd.Function):\n    pass\n",
    "middle.py": "from base import Op\n\n\nclass Half(Op):\n    pass\n",
    "pkg/__init__.py": "",
    "pkg/sub.py": "import jax\n\ndeco = jax.custom_jvp\n",
    "short.py": "import jax as J\n",
    "plain.py": "class Plain:\n    pass\n\n\ndef wrap(f):\n    return f\n",
}
MARKED = (
    "import jax\n\n@jax.custom_gradient\ndef f(x): ...\n",
    "from compat import deco\n\n@deco\ndef f(x): ...\n",
    "from again import ours\n\n@ours\ndef f(x): ...\n",
    "from functools import partial\nimport again\n\n@partial(\n    again.ours, nondiff_argnums=(0,)\n)\ndef f(x): ...\n",
    "from middle import (\n    Half,  # (half)\n)\n\n\nclass Whole(Half): ...\n",
    "def g():\n    from middle import Half; import os\n\n    class Whole(\n        Half,\n    ):\n        pass\n",
    "import pkg.sub\n\n@pkg.sub.deco\ndef f(x): ...\n",
    "from short import J\n\n@J.custom_jvp\ndef f(x): ...\n",
    "# taken from numpy\nimport compat\n\n@compat.deco\ndef f(x): ...\n",
    "from compat import \\\n    deco\n\n@deco\ndef f(x): ...\n",
    "from compat \\\n    import deco\n\n@deco\ndef f(x): ...\n",
    "if True: from middle import Half\n\nclass Whole(  # see g(x):\n    Half,\n): ...\n",
    "from compat import other\n\x0cfrom compat import deco\n\n@deco\ndef f(x): ...\n",
    "from middle import Half\n\n\nclass Whole(mixin('#a'), Half): ...\n",
    "'''\nimport (a paper:\n'''\nfrom middle import Half  # )\n\n\nclass Whole(Half): ...\n",
    "# here is a lazy import\nfrom compat import deco\n\n@deco\ndef f(x): ...\n",
    "from compat import deco\n\n@deco\ndef f(x):\n    '''Not from plain import deco.'''\n",
)
PLAIN = (
    "x = 1\n",
    "import functools\n\n@functools.cache\ndef f(x): ...\n",
    "from plain import Plain, wrap\n\n\nclass More(Plain): ...\n\n\n@wrap\ndef f(x): ...\n",
    "from compat import deco\n\nx = 1\n",
    "class Function: ...\n\n\nclass Cosine(Function): ...\n",
    '"""Words that import the reader into class A(x)."""\n',
)


def may_define(source: str, path: Path) -> bool:
    return words_of(source, path).may_define(path, Leads())


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name, text in BESIDE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path / "model.py"


@pytest.mark.parametrize("source", MARKED)
def test_what_may_define_one_is_looked_into(source: str, place: Path) -> None:
    place.write_text(source)
    assert find_marks(ast.parse(source), place)
    assert may_define(source, place)


@pytest.mark.parametrize("source", ["from.base import Op", "from . base import Op"])
def test_relative_imports_are_followed_however_they_are_spaced(source: str, place: Path) -> None:
    inner = place.parent / "pkg" / "model.py"
    (inner.parent / "base.py").write_text(BESIDE["base.py"])
    text = f"{source}\n\n\nclass Mine(Op): ...\n"
    inner.write_text(text)
    assert find_marks(ast.parse(text), inner)
    assert may_define(text, inner)


def test_a_link_is_read_where_its_file_lies(place: Path) -> None:
    text = "from base import Op\n\n\nclass Mine(Op): ...\n"
    place.write_text(text)
    link = place.parent / "elsewhere" / "link.py"
    link.parent.mkdir()
    link.symlink_to(place)
    assert find_marks(ast.parse(text), link)
    assert may_define(text, link)


def test_a_file_in_another_encoding_leads_on(place: Path) -> None:
    (place.parent / "old.py").write_bytes(
        "# coding: latin-1\n# é\nimport jax\ndeco = jax.custom_vjp\n".encode("latin-1")
    )
    text = "from old import deco\n\n@deco\ndef f(x): ...\n"
    assert may_define(text, place)


def test_a_long_line_of_words_costs_no_time(place: Path) -> None:
    words = "from " * 200_000
    assert not may_define(f"x = '{words}'\n\n@deco\ndef f(): ...\n", place)


@pytest.mark.parametrize("source", PLAIN)
def test_what_cannot_is_not(source: str, place: Path) -> None:
    place.write_text(source)
    assert not find_marks(ast.parse(source), place)
    assert not may_define(source, place)


def test_a_parenthesis_that_never_closes_costs_no_time(place: Path) -> None:
    comments = "# a comment of the usual length\n" * 60
    assert not may_define(
        f"import os  # needed (see #42)\n{comments}f(\n@deco\ndef g(): ...\n", place
    )
    assert not may_define(f"from (a\n{comments}@deco\ndef g(): ...\n", place)
