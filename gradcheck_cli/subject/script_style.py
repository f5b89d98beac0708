"""How a script in a framework is written."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ScriptStyle:
    """How a script in this framework is written.

    `array` makes one of {values} and {dtype}. `gradients` are lines that turn the function `call` and
    the lists `leaves` and `cotangents` into the lists `values` and `gradients`. `pair` makes complex
    numbers of {real} and {imag}.
    """

    imports: tuple[str, ...]
    array: str
    gradients: tuple[str, ...]
    pair: str = ""
    jitted: str = ""  # `run`, which holds these lines, compiled; nothing if it runs eagerly
    spellings: dict[str, str] = field(default_factory=dict)  # texts of fixed arguments, as code
