"""A bug of ours looks like one: nothing of ours believes whatever an exception says."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import gradcheck_cli

PACKAGE = Path(gradcheck_cli.__file__).parent
BROAD = ("Exception", "BaseException")
# Where, and why a broad `except` is right there.
ALLOWED = {
    "subject/user_code.py:calling_user_code": "what this is about",
    "reals/inner_jaxprs.py:wrapped_up": "what JAX wraps up as a whole holds functions of the user",
    "check/one_gradient.py:check_gradient": "the worker's top loop: a bug becomes a finding, `internal-error`",
    "check/module.py:imported": "a module may raise what is no Exception, as pytest's Skipped",
    "check/attempt.py:attempt": "a bug becomes a finding, and other signatures are still judged",
    "check/asked_laws.py:judgements_of_laws": "a bug becomes a finding, and other laws still judge",
    "run/linting.py:_read_source": "a bug becomes a finding, and other files are still read",
    "run/mending.py:mend": "nothing stays written that was not checked, and it is raised on",
    "run/mending.py:_tried": "nothing stays written that was not checked, and it is raised on",
    "record/in_process.py:imported": "in the user's own process: it runs on, whatever we lack",
    "workers/worker.py:check": "a bug becomes a finding, and is raised on",
    "workers/server.py:main": "the server's top: the command line is told why there is none",
}


def test_broad_excepts_stand_where_they_are_allowed() -> None:
    found = {place for file in PACKAGE.rglob("*.py") for place in broad(file)}
    assert found == set(ALLOWED)


def broad(file: Path) -> Iterator[str]:
    """Functions of a file that catch, or suppress, whatever is raised."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and any(map(_is_broad, ast.walk(function))):
            yield f"{file.relative_to(PACKAGE).as_posix()}:{function.name}"


def _is_broad(node: ast.AST) -> bool:
    if isinstance(node, ast.ExceptHandler):
        kinds = [node.type]
    elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress"):
        kinds = list(node.args)
    else:
        return False
    names = [n for kind in kinds for n in (ast.walk(kind) if kind is not None else [None])]
    return any(name is None or (isinstance(name, ast.Name) and name.id in BROAD) for name in names)


def test_the_search_sees_each_way_of_writing_it() -> None:
    ways = (
        "try: pass\n    except Exception: pass",
        "try: pass\n    except (OSError, BaseException): pass",
        "try: pass\n    except: pass",
        "with contextlib.suppress(Exception): pass",
    )
    for way in ways:
        assert any(map(_is_broad, ast.walk(ast.parse(f"def f():\n    {way}")))), way
    narrow = "def f():\n    try: pass\n    except OSError: pass"
    assert not any(map(_is_broad, ast.walk(ast.parse(narrow))))
