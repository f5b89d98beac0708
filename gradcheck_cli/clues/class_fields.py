"""What is said of the fields of a class: comments beside them, its docstring, and the objects that its file makes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from gradcheck_cli.clues.annotations import clues_of_texts
from gradcheck_cli.clues.call_sites import clues_of_fields
from gradcheck_cli.clues.classes import field_names, field_texts
from gradcheck_cli.clues.docstrings import read_text
from gradcheck_cli.clues.documentation import text_of_class
from gradcheck_cli.clues.prose.said_of_several import NOT_OF_ALL
from gradcheck_cli.inputs.clue import Clue, Kind
from gradcheck_cli.project.users import root_of

_AXES = re.compile(r"\[([^\[\]]*)\]")
_ELEMENTS = {Kind.FLAG: Kind.BOOLS, Kind.WHOLE: Kind.INTEGERS}  # `bool, False for padding`
_NAME = re.compile(r"[^\W\d]\w*")


def clues_of_objects(wanted: Mapping[str, type], taken: Collection[str]) -> dict[str, list[Clue]]:
    """The clues of the fields of each argument that is an object, by their paths: `params.w`.

    `taken` are names of dimensions that other sources use: sizes that the makers of objects call by these
    names may be other ones.
    """
    return {
        f"{name}.{field}": clues
        for name, cls in wanted.items()
        for field, clues in _of_class(cls, taken).items()
    }


def with_signs_of_fields(
    clues: Mapping[str, list[Clue]], wanted: Mapping[str, type]
) -> dict[str, list[Clue]]:
    """The clues; what is said of all inputs is said of no field of a class whose text speaks of signs itself."""
    signed = {name for name, cls in wanted.items() if NOT_OF_ALL.search(text_of_class(cls).text)}
    return {
        name: [replace(c, for_all=False) for c in each] if name in signed else each
        for name, each in clues.items()
    }


def names_of_dimensions(clues: Mapping[str, Collection[Clue]]) -> set[str]:
    """The names of all dimensions that the clues speak of."""
    specs = (clue.spec for of_path in clues.values() for clue in of_path)
    return {name for spec in specs for axes in _AXES.findall(spec) for name in _NAME.findall(axes)}


def _of_class(cls: type, taken: Collection[str]) -> dict[str, list[Clue]]:
    names = field_names(cls)
    written = read_text(text_of_class(cls), names)
    annotated = clues_of_texts(field_texts(cls))
    written = {name: _of_array(annotated.get(name), clue) for name, clue in written.items()}
    sources = [annotated, written, _made(cls, taken)]
    found = {name: [s[name] for s in sources if name in s] for name in names}
    return {name: clues for name, clues in found.items() if clues}


def _of_array(annotation: Clue | None, said: Clue) -> Clue:
    """What is said of a field, as of the elements of an array where its annotation says that it is one."""
    kind = _ELEMENTS.get(said.kind)
    is_array = annotation is not None and annotation.kind is Kind.ARRAY
    return replace(said, spec="", values=(), kind=kind) if kind is not None and is_array else said


def _made(cls: type, taken: Collection[str]) -> dict[str, Clue]:
    """What the objects that the file of the class makes say, with names for sizes that nothing else has."""
    try:
        path = Path(inspect.getfile(cls)).resolve()
    except (OSError, TypeError):
        return {}
    found = clues_of_fields(path, root_of(path), cls.__qualname__)
    return {name: replace(clue, spec=_apart(clue.spec, taken)) for name, clue in found.items()}


def _apart(spec: str, taken: Collection[str]) -> str:
    """The spec with other names for dimensions whose names are taken."""
    return _AXES.sub(
        lambda axes: _NAME.sub(lambda m: f"{m[0]}_" if m[0] in taken else m[0], axes[0]), spec
    )
