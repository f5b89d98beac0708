"""What all pictures of correct bits have in common: their margins, the lines of the bits, marks, and the axis below."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gradcheck_cli.report.markup import Markup, element

WIDTH = 720.0
LEFT, RIGHT = 34.0, WIDTH - 12.0  # between these the argument goes along
_TOP, _BOTTOM = 10.0, 24.0


@dataclass(frozen=True, slots=True)
class Frame:
    """A picture so high, of numbers with so many bits."""

    height: float
    full: float

    def picture(self, about: str, *parts: Markup) -> Markup:
        """The parts as one picture; colours and fonts are the page's."""
        return element(
            "svg", *parts, xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH:g} {self.height:g}", role="img",
            aria_label=about, class_="bits",
        )  # fmt: skip

    def place_of(self, bits: float) -> float:
        """How far below the top so many bits are."""
        return _TOP + (1 - bits / self.full) * self._room

    def mark(self, left: float, right: float, severity: str, least: float) -> Markup:
        """A stretch of the argument where something is wrong, at least so wide."""
        width = max(right - left, least)
        return element(
            "rect", class_=f"fault {severity}", x=left, y=_TOP, width=width, height=self._room
        )

    def levels(self) -> Iterator[Markup]:
        """Lines at no bits, half of them and all."""
        for bits in (0.0, self.full / 2, self.full):
            y = self.place_of(bits)
            yield element("line", class_="grid", x1=LEFT, x2=RIGHT, y1=y, y2=y)
            yield element(
                "text", f"{bits:g}", class_="label", x=LEFT - 6, y=y + 4, text_anchor="end"
            )

    def tick(self, x: float, text: str) -> Iterator[Markup]:
        """A number of the argument, below the lines."""
        bottom = self.height - _BOTTOM
        yield element("line", class_="tick", x1=x, x2=x, y1=bottom, y2=bottom + 4)
        yield element("text", text, class_="label", x=x, y=bottom + 16, text_anchor="middle")

    @property
    def _room(self) -> float:
        return self.height - _TOP - _BOTTOM
