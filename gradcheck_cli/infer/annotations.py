"""Annotations as specs: jaxtyping's `Float[Array, "b n"]`, and plain `int` and `bool`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gradcheck_cli.inputs.signature import Parameter

_KINDS = {
    "f32": ("Float", "Float16", "Float32", "Float64", "BFloat16", "Num", "Inexact", "Real", "Shaped"),
    "i32": ("Int", "Int8", "Int16", "Int32", "Int64", "UInt", "UInt8", "UInt16", "UInt32", "UInt64", "Integer"),
    "bool": ("Bool",),
}  # fmt: skip
_KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names}
_JAXTYPING = re.compile(
    r"(?:^|[.|\[\s])(?P<kind>[A-Z]\w*)\[[^,\[\]]+,\s*['\"](?P<dims>[^'\"]*)['\"]\]"
)
_PLAIN = {"int": "3", "bool": "False"}
_ANY_NUMBER = re.compile(r"\*\w*|\.\.\.")


def annotated(parameters: Sequence[Parameter]) -> dict[str, str]:
    """Annotations of the parameters, as specs in text."""
    specs = {p.name: _spec(p.annotation or "") for p in parameters}
    return {name: spec for name, spec in specs.items() if spec}


def _spec(annotation: str) -> str:
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    match = _JAXTYPING.search(annotation)
    kind = _KIND_OF.get(match["kind"]) if match else None
    if match is None or kind is None:
        return ""
    dims = [_dim(token) for token in match["dims"].split() if not _ANY_NUMBER.fullmatch(token)]
    return f"{kind}[{' '.join(dims)}]" if all(dims) else ""


def _dim(token: str) -> str:
    """`#b`, `?b`, `name=3` and `_` are dimensions like others; sums of dimensions are not understood."""
    token = token.lstrip("#?").rpartition("=")[2]
    return token if token.isidentifier() or token.isdigit() else ""
