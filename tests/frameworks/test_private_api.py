"""What a framework does not promise is used in one file of its folder."""

from __future__ import annotations

import ast
import re
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "gradcheck_cli/frameworks"
PRIVATE = re.compile(r"(jax|tf2jax)\._src|jaxlib|tensorflow\.python|keras\.src|torch\.(\w+\.)*_\w+")


def test_private_modules_are_imported_in_one_file() -> None:
    offenders = []
    for file in sorted(FOLDER.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{a.name}" for a in node.names]
            if file.name != "private_api.py" and any(map(PRIVATE.match, names)):
                offenders.append(f"{file.relative_to(FOLDER)}:{node.lineno}")
    assert offenders == []
