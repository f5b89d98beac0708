"""A draft of a small change: in words, and how it is made; the program with it is built only if it is tried.

A draft without a plan is one that the shapes at hand do not allow: a sum of one number is its own mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from gradcheck_cli.adequacy.change import Kind
from gradcheck_cli.adequacy.edited import Editor, made
from gradcheck_cli.adequacy.plain_steps import SPREAD
from gradcheck_cli.adequacy.scene import Scene
from gradcheck_cli.reals.program import Program, Slot, Step

Steps = Mapping[int, Sequence[Step]]
Plan = Callable[[Editor], Steps]


@dataclass(frozen=True, slots=True)
class Draft:
    """A change of the step with this number, in words, and how it is made."""

    index: int
    kind: Kind
    words: str
    plan: Plan | None = None
    mark: str | None = None  # what tells it from others of its step, if the words hold sizes
    inner: tuple[int, Draft, Program] | None = None  # in a program that the step holds
    table: str | None = None  # the argument of integers that alone decides whether it shows

    def program(self, whole: Program) -> Program | None:
        """The whole program with this change."""
        if self.inner is not None:
            number, draft, program = self.inner
            changed = draft.program(program)
            step = whole.steps[self.index]
            if changed is None:
                return None
            subs = tuple(changed if i == number else s for i, s in enumerate(step.subs))
            return Editor(whole).done({self.index: (replace(step, subs=subs),)})
        if self.plan is None:
            return None
        editor = Editor(whole)
        return editor.done(self.plan(editor))


@dataclass(frozen=True, slots=True)
class Place:
    """A step in its scene."""

    scene: Scene
    index: int

    @property
    def step(self) -> Step:
        return self.scene.program.steps[self.index]

    def name(self, number: int) -> str:
        """What the user calls the operand with this number."""
        return self.scene.name(self.step.ins[number])

    def number(self, number: int) -> float | None:
        """The number that the operand is, if it is a constant."""
        return self.scene.constant(self.step.ins[number])

    def draft(
        self, kind: Kind, words: str, plan: Plan | None = None, mark: str | None = None
    ) -> Draft:
        return Draft(self.index, kind, words, plan, mark)

    def instead(
        self, kind: Kind, words: str, name: str, ins: Sequence[Slot], **params: object
    ) -> Draft:
        """Another primitive in the place of the step."""
        new = made(self.step, name, params, ins)
        return self.draft(kind, words, lambda editor: {self.index: (new,)}, f"{name} {len(ins)}")

    def operand(self, kind: Kind, words: str, number: int) -> Draft:
        """An operand in the place of the result."""
        new = made(self.step, SPREAD, {}, (self.step.ins[number],))
        return self.draft(kind, words, lambda editor: {self.index: (new,)}, f"operand {number}")

    def with_ins(self, kind: Kind, words: str, ins: Sequence[Slot]) -> Draft:
        """The step with other operands."""
        new = replace(self.step, ins=tuple(ins))
        mark = words if kind is Kind.OPERAND else kind.value
        return self.draft(kind, words, lambda editor: {self.index: (new,)}, mark)

    def with_params(self, kind: Kind, words: str, **params: object) -> Draft:
        new = replace(self.step, params={**self.step.params, **params})
        return self.draft(kind, words, lambda editor: {self.index: (new,)})
