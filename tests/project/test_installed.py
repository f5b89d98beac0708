"""The files of an installed package, and of a module that only shows what others define."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradcheck_cli.project import installed
from gradcheck_cli.project.files import Target, resolve

FILES = {
    "zoo/__init__.py": "from zoo import api as api\n",
    "zoo/api.py": "from zoo.deep.cats import purr as purr\nfrom zoo._middle import bark\nimport json\n",
    "zoo/_middle.py": "from .deep.dogs import bark, growl\n",
    "zoo/deep/cats.py": "def purr(x): return x\n",  # a namespace: it has no __init__
    "zoo/deep/dogs.py": "from zoo.deep.cats import purr\ndef bark(x): return purr(x)\n",
    "zoo/deep/cats_test.py": "from zoo.deep.cats import purr\n",
    "zoo/tests/test_cats.py": "",
}


@pytest.fixture
def zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "site-packages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))
    return tmp_path / "site-packages"


def test_a_package_is_all_its_modules_but_its_tests(zoo: Path) -> None:
    modules = installed.sources("zoo")
    assert list(modules) == ["zoo", "zoo._middle", "zoo.api", "zoo.deep.cats", "zoo.deep.dogs"]
    assert modules["zoo.deep.cats"] == zoo / "zoo" / "deep" / "cats.py"


def test_a_module_that_shows_names_stands_for_what_defines_them(zoo: Path) -> None:
    assert list(installed.sources("zoo.api")) == ["zoo.api", "zoo.deep.cats", "zoo.deep.dogs"]


def test_a_module_that_defines_something_stands_for_itself(zoo: Path) -> None:
    assert list(installed.sources("zoo.deep.dogs")) == ["zoo.deep.dogs"]
    assert resolve(["zoo.deep.dogs"]) == [
        Target(zoo / "zoo" / "deep" / "dogs.py", "zoo.deep.dogs", explicit=True)
    ]


def test_a_module_without_a_source_is_left_to_the_import(zoo: Path) -> None:
    assert resolve(["zoo.made_by_hand"]) == [Target(None, "zoo.made_by_hand")]
