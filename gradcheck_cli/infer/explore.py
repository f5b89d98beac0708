"""Exploring: which shapes a function takes, and which of these show the most of its rule.

Every axis begins as an unknown; what the function refuses states which have to be equal. Among the
shapes that function and rule both take, the richest are the likeliest that are meant. Long because it
is one search, whose steps share what was asked before.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from gradcheck_cli.infer.axis_names import axis_names, halves, windows
from gradcheck_cli.infer.candidates import Candidate, Shapes, count_of
from gradcheck_cli.infer.fitted import EMPTY, fitted
from gradcheck_cli.infer.mismatch import (
    asks_to_divide,
    asks_to_sort,
    beside_stated,
    divided,
    in_parts,
    in_step,
    made_for,
    proposals,
    refilled,
    returned_for,
    returned_shapes,
    told_sizes,
    wants_integers,
)
from gradcheck_cli.infer.orders import by_weight
from gradcheck_cli.infer.returned_ranks import Ranks, returned_ranks
from gradcheck_cli.infer.sizes import Size, Solution, unknown
from gradcheck_cli.infer.table_counts import counts, leaves_room, totals
from gradcheck_cli.infer.template import (
    Hole,
    Template,
    agree,
    as_called,
    unknown_shapes,
    unlike_fields,
)
from gradcheck_cli.inputs.signature import Signature
from gradcheck_cli.subject.protocol import CustomGradient, Subject
from gradcheck_cli.subject.refusals import NO_CALL, Furthest, Rejected, RuleError

# Numbers of axes that are tried together: those of most functions first.
_STAGES: tuple[tuple[int, ...], ...] = ((1, 2), (0, 1, 2), (1, 2, 3), (0, 1, 2, 3, 4))
_MOST_CALLS = 160  # of the function
_MOST_RANKS = 40  # in one stage
_MOST_WAYS = 400  # of which some are of arrays that are said to be of one shape, and are not
_MOST_OWN_AXES = 4  # arrays whose axes the rule tells, one after the other
_MOST_STEPS = 10  # towards one solution
_MOST_READS = 24  # of calls that are run to see whether they read beyond an array
_MOST_READ_AT = 1 << 18  # elements of one array, for it runs
_MOST_PROPOSALS = 3  # of one refusal
_FIRST_RULES, _MOST_RULES = 5, 12  # of which the rule is traced
_MOST_NUMBERS = 180  # in all arrays of a call
_MOST_IN_PARTS = 256
_MOST_AT_ALL = 640  # where no sizes make fewer
# Where an axis has to be divided into equal parts, all sizes are so many times larger.
_LARGER = {1: 2, 2: 12}
_SMALLER = {12: 4}  # instead, where arrays of many axes would be too large
_FEW_AXES = 2  # of an array that may be long along each
_MOST_ELEMENTS = 1 << 22  # of one array while shapes are explored: some frameworks make it
_TOO_LARGE = "too large"
_COUNTS = (3, 2)  # what integers are below, where nothing says it
_LEAST_MASKED = 3  # numbers of a row, some of which are masked


def sizes_of(refused: Sequence[tuple[Signature, RuleError]]) -> set[int]:
    """The sizes of all axes of these calls."""
    return {n for signature, _ in refused for leaf in signature.leaves for n in leaf.shape}


def _of_no_array(refused: Sequence[tuple[Signature, RuleError]]) -> set[tuple[int, ...]]:
    """The shapes that rules return, of sizes that no array of the call has."""
    return {
        returned
        for signature, error in refused
        for returned in returned_shapes(error.message)
        if not set(returned) <= {n for leaf in signature.leaves for n in leaf.shape}
    }


def _returned_always(refused: Sequence[tuple[Signature, RuleError]]) -> set[tuple[int, ...]]:
    """The shapes that rules return for arrays of this shape and of that; what is summed over all axes is none."""
    pairs = {pair for _, error in refused for pair in returned_for(error.message)}
    returned = [got for got, _ in pairs]
    return {got for got in returned if returned.count(got) > 1 and got and min(got) > 1}


def _single(shapes: set[tuple[int, ...]]) -> tuple[int, ...] | None:
    return next(iter(shapes)) if len(shapes) == 1 else None


@dataclass(frozen=True, slots=True)
class Exploration:
    """The subject of the richest shapes that function and rule take, and richer ones that the rule refuses."""

    subject: Subject | None = None
    refused: Sequence[tuple[Signature, RuleError]] = ()
    vain: int = 0  # shapes that the function itself refuses
    first_refusal: str = ""  # the first of these, with its reason
    furthest: Furthest = NO_CALL


@dataclass(slots=True)
class Explorer:
    """A search through the shapes of one template; what was asked is not asked again."""

    gradient: CustomGradient
    dtype: str
    template: Template
    prefers: Callable[[Signature], bool] | None = None  # among the sizes of the richest shapes
    calls: int = 0
    hopeless: bool = False  # no shape helps: it wants integers where it gets floats
    steps: int = 0
    refusals: dict[tuple[object, ...], str | None] = field(default_factory=dict)
    reads: dict[tuple[object, ...], str] = field(default_factory=dict)  # beyond an array
    may_overread: bool = False
    parts: int = 2  # elements of each part, where an axis is cut into parts of any size
    cut: bool = False  # was one?
    furthest: Furthest = NO_CALL
    asked: int = 0  # subjects of which it was asked whether they read beyond an array

    def explored(self) -> Exploration:
        """The first stage at which function and rule agree; if at none, what reads beyond an array may mean to."""
        found = self._explored()
        if found.subject is None and any(self.reads.values()):
            self.may_overread = True
            found = self._explored()
        return found

    def _explored(self) -> Exploration:
        refused: list[tuple[Signature, RuleError]] = []
        looked_at: set[tuple[int, ...]] = set()
        for stage in _STAGES:
            ranks = [r for r in self._rank_vectors(stage) if r not in looked_at]
            looked_at |= set(ranks)
            candidates = [c for r in ranks for c in self._solutions(r)]
            subject = self._richest(candidates, refused)
            if subject is None and stage == _STAGES[0]:
                subject = self._richest(list(self._as_returned(refused, looked_at)), refused)
            if subject is not None:
                return Exploration(subject, refused, *self._vain, self.furthest)
        return Exploration(None, refused, *self._vain, self.furthest)

    def _as_returned(
        self, refused: Sequence[tuple[Signature, RuleError]], looked_at: set[tuple[int, ...]]
    ) -> Iterator[Candidate]:
        """Arrays of as many axes as the gradients that the rule returns, where what the sources say allows them."""
        holes = self.template.holes
        for ranks in returned_ranks(refused, [hole.path for hole in holes]):
            allowed = (r in hole.ranks((r,)) for hole, r in zip(holes, ranks.axes, strict=True))
            if all(allowed) and (ranks.column is not None or ranks.axes not in looked_at):
                looked_at.add(ranks.axes)
                shapes = tuple(unknown_shapes(holes, ranks.axes))
                # A few calls more, however many guesses were in vain.
                self.steps, self.calls = 0, min(self.calls, _MOST_CALLS - _MOST_STEPS)
                solved = self._solve(shapes, ranks.bound(shapes), False)
                if isinstance(solved, Candidate) and self._is_meant(ranks, solved):
                    yield self._tied(solved)

    def _is_meant(self, ranks: Ranks, solved: Candidate) -> bool:
        """Does a column go along another axis than the row that it was tried as? If not, its gradient has an axis too many."""
        if ranks.column is None:
            return True
        rows = (
            *ranks.axes[: ranks.column],
            ranks.axes[ranks.column] - 1,
            *ranks.axes[ranks.column + 1 :],
        )
        before = next(self._solutions(rows), None)
        if before is None:
            return True
        shared = _along(before, ranks.column, -1) & _along(solved, ranks.column, -2)
        # Where the row takes these axes longer, it lay along another one.
        longer = [
            tuple(size + 2 * ((k, n) in shared) for n, size in enumerate(shape))
            for k, shape in enumerate(before.at(before.solution))
        ]
        return not shared or self._refusal(longer, before.ascending) is None

    @property
    def _vain(self) -> tuple[int, str]:
        """How many shapes the function refuses; the first of them."""
        vain = [(key[:-1], text) for key, text in self.refusals.items() if text is not None]
        if not vain:
            return 0, ""
        shapes, text = vain[0]
        sizes = zip(self.template.holes, shapes, strict=True)
        return len(vain), f"{', '.join(f'{hole.path} of {shape}' for hole, shape in sizes)}: {text}"

    def _rank_vectors(self, allowed: Sequence[int]) -> list[tuple[int, ...]]:
        options = [hole.ranks(allowed) for hole in self.template.holes]
        every = by_weight(options, _MOST_WAYS)
        fitting = [ranks for ranks in every if agree(self.template.holes, ranks)]
        return sorted(fitting, key=partial(unlike_fields, self.template.holes))[:_MOST_RANKS]

    def _solutions(self, ranks: Sequence[int]) -> Iterator[Candidate]:
        """The first solution of these ranks, if there is one; where an axis is cut into parts, one of single elements, too."""
        shapes = tuple(unknown_shapes(self.template.holes, ranks))
        called = tuple(unknown_shapes(as_called(self.template.holes), ranks))
        for wanted in dict.fromkeys((shapes, called)):
            self.cut, found = False, False
            for self.parts in (2, 1):
                self.steps = 0
                candidate = self._solve(wanted, Solution(), False) or self._with_short_windows(
                    wanted
                )
                if candidate is not None:
                    found = True
                    yield self._tied(candidate)
                if not self.cut:
                    break
            self.parts = 2
            if found:
                return

    def _with_short_windows(self, shapes: Shapes) -> Candidate | None:
        """The solution where all arrays but one are short, the first one, or where nothing comes out another: a window that is spread reaches far."""
        axes = [{u for size in shape for u, _ in size.terms} for shape in shapes]
        if not self._counts_something:
            return None
        for place, first in enumerate(axes):
            if place and not self._gives_nothing(shapes):
                return None
            long = first if len(first) <= _FEW_AXES else set()
            short = set[int]().union(*axes) - first
            self.steps = 0
            solution = Solution(reduced=frozenset(short), enlarged=frozenset(long))
            candidate = self._solve(shapes, solution, False) if short else None
            if candidate is not None:
                return candidate
        return None

    def _gives_nothing(self, shapes: Shapes) -> bool:
        """Does the function take these shapes, and give an array without elements?"""
        return self._refusal([tuple(map(Solution().number, s)) for s in shapes], False) == EMPTY

    def _tied(self, candidate: Candidate) -> Candidate:
        """Tables of integers that may be shorter than an array's rows, but no longer, get its length.

        So does what counts rows that are read one by one, beyond the last one without a word.
        """
        for hole, shape in self._holes(candidate):
            counts = bool(shape) and (len(shape) == 1 or hole.kind == "int")
            if not counts or not self._may_be_no_longer(candidate, shape[0], hole):
                continue
            for rows in self._rows(candidate, hole):
                tied = candidate.solution.with_equations([(shape[0], rows)])
                if tied is None or not self._accepts(candidate, tied):
                    continue
                if not self._overread(candidate.at(tied), candidate.ascending):
                    candidate = replace(candidate, solution=tied)
                    break
        return candidate

    def _may_be_no_longer(self, candidate: Candidate, size: Size, table: Hole) -> bool:
        """Is the size free, and one that is larger than all others refused? Windows are shorter for reasons of their own."""
        size = candidate.solution.of(size)
        if not size.terms or any(u not in candidate.free for u, _ in size.terms):
            return False
        larger = replace(candidate.solution, enlarged=frozenset(u for u, _ in size.terms))
        if table.kind == "int" and not self._accepts(candidate, larger):
            return True
        return bool(self._overread(candidate.at(larger), candidate.ascending))

    def _rows(self, candidate: Candidate, table: Hole) -> Iterator[Size]:
        """What another array has rows of: the first array of floats for a table of integers, else each in turn."""
        others = [s[0] for h, s in self._holes(candidate) if h.kind == "float" and s and h != table]
        yield from others[:1] if table.kind == "int" else others

    def _holes(self, candidate: Candidate) -> Iterator[tuple[Hole, tuple[Size, ...]]]:
        return zip(self.template.holes, candidate.shapes, strict=True)

    def _accepts(self, candidate: Candidate, solution: Solution) -> bool:
        """Does the function take these shapes at another solution?"""
        return self._refusal(candidate.at(solution), candidate.ascending) is None

    def _solve(self, shapes: Shapes, solution: Solution, ascending: bool) -> Candidate | None:
        """Shapes that the function takes, found by doing what its refusals ask for."""
        if self.hopeless or self.steps >= _MOST_STEPS or self.calls >= _MOST_CALLS:
            return None
        self.steps += 1
        numbers = [tuple(map(solution.number, shape)) for shape in shapes]
        refusal = self._refusal(numbers, ascending)
        if refusal is None and not solution.turned and self._meets_by_chance(shapes, solution):
            turned = self._solve(shapes, replace(solution, turned=True), ascending)
            if turned is not None:
                return turned
        if refusal is None:
            refusal = self._overread(numbers, ascending) or None
        if refusal is None:
            return Candidate(shapes, solution, ascending, self.calls)
        if refusal == _TOO_LARGE and solution.scale in _SMALLER:
            return self._solve(shapes, replace(solution, scale=_SMALLER[solution.scale]), ascending)
        if asks_to_sort(refusal) and not ascending:
            return self._solve(shapes, solution, True)
        sizes = [size for shape in shapes for size in shape]
        filled = list(refilled(refusal, sizes, solution, self.parts))
        self.cut |= len(filled) > 1
        filled = filled or divided(refusal, sizes, solution)
        candidate = self._first_of(shapes, filled, ascending)
        if candidate is not None:
            return candidate
        if asks_to_divide(refusal) and solution.scale in _LARGER:
            divisible = replace(solution, scale=_LARGER[solution.scale])
            return self._solve(shapes, divisible, ascending)
        constants = self._constants(refusal, shapes, solution, ascending)
        read = proposals(refusal, sizes, solution, constants)
        ways = list(itertools.islice(read, _MOST_PROPOSALS))
        self.hopeless |= not ways and wants_integers(refusal)
        ways = (
            ways or list(in_step(shapes, refusal, solution)) or list(beside_stated(sizes, solution))
        )
        return self._first_of(shapes, ways, ascending)

    def _constants(
        self, refusal: str, shapes: Shapes, solution: Solution, ascending: bool
    ) -> frozenset[int]:
        """The numbers in a refusal that no axis makes, but the function states: they come again where all axes are of other sizes.

        None of them where a number that is an axis does not turn into what that axis is then: it is made of others by chance.
        """
        told, sizes = told_sizes(refusal), {size for shape in shapes for size in shape}
        known = [size for size in sizes if solution.number(size) in told]
        left = told - {solution.number(size) for size in known}
        if not left:
            return left
        other = replace(solution, turned=not solution.turned)
        numbers = [tuple(map(other.number, shape)) for shape in shapes]
        again = told_sizes(self._refusal(numbers, ascending) or "")
        return left & again if again.issuperset(map(other.number, known)) else frozenset()

    def _meets_by_chance(self, shapes: Shapes, solution: Solution) -> bool:
        """Is an axis that seems free as long as something that the function closes over? Then it may have to be so."""
        free = {size for shape in shapes for size in shape if solution.of(size).terms}
        texts = [f"({solution.number(size)}, 1)" for size in free]
        return bool(made_for(texts, self.gradient.rule_code(), self.template.wholes))

    def _first_of(
        self, shapes: Shapes, solutions: Sequence[Solution], ascending: bool
    ) -> Candidate | None:
        """Shapes that the function takes under the first of these solutions that leads to some."""
        tried = (self._solve(shapes, solution, ascending) for solution in solutions)
        return next((candidate for candidate in tried if candidate is not None), None)

    def _refusal(self, shapes: Sequence[tuple[int, ...]], ascending: bool) -> str | None:
        """How the function refuses these shapes; None if it takes them."""
        if any(math.prod(shape) > _MOST_ELEMENTS for shape in shapes):
            return _TOO_LARGE
        key = (*shapes, ascending)
        if key not in self.refusals:
            few = totals(self.template.holes, shapes, [min(_COUNTS)] * len(shapes))
            self.calls += 1
            self.refusals[key] = self._asked(self.template.at(shapes, few, ascending))
        return self.refusals[key]

    def _asked(self, signature: Signature) -> str | None:
        try:
            fitted(self.gradient, signature, self.dtype)
        except Rejected as error:
            refusal = Furthest(f"{signature.describe()}: {error}", error.progress)
            self.furthest = self.furthest.or_further(refusal)
            return error.detail
        except RuleError:
            pass  # it is the rule that refuses
        return None

    def _overread(self, shapes: Sequence[tuple[int, ...]], ascending: bool) -> str:
        """How the function reads beyond an array of these shapes, if it does; asked a few times, as it is run for that."""
        key = (*shapes, ascending)
        if self.may_overread or any(math.prod(shape) > _MOST_READ_AT for shape in shapes):
            return ""
        if key not in self.reads and len(self.reads) < _MOST_READS:
            few = totals(self.template.holes, shapes, [min(_COUNTS)] * len(shapes))
            signature = self.template.at(shapes, few, ascending)
            try:
                self.reads[key] = fitted(self.gradient, signature, self.dtype).reads_beyond()
            except (Rejected, RuleError):
                self.reads[key] = ""
        return self.reads.get(key, "")

    def _richest(
        self, candidates: Sequence[Candidate], refused: list[tuple[Signature, RuleError]]
    ) -> Subject | None:
        """The richest subject whose rule takes its shapes too; richer ones are noted as refused."""
        richest = sorted(candidates, key=lambda c: c.richness, reverse=True)
        first, rest = richest[:_FIRST_RULES], richest[_FIRST_RULES:]
        # Then arrays of the ranks that the rule's text suggests, and of one shape, which most rules take.
        ordered = [*first, *sorted(rest, key=lambda c: (not self._is_likely(c), c.kinds > 1))]
        # Last those in which arrays of as many axes are of one shape: boxes beside boxes.
        ordered += [alike for c in richest[:_MOST_RULES] if (alike := self._alike(c)) is not None]
        subject = self._first_preferred(self._refined(ordered), refused, 2 * _MOST_RULES)
        if subject is not None:
            return subject
        messages = [error.message for _, error in refused]
        told = made_for(messages, self.gradient.rule_code(), self.template.wholes)
        tried = sizes_of(refused) - {*self._wholes}
        closed = [size for size in told if size not in tried]
        subject = self._first_preferred(self._of_sizes(first, closed), refused, _MOST_RULES)
        if subject is not None:
            refused.clear()  # it is made for what it closes over: that it refuses others says nothing
            return subject
        counts = (*self._wholes, *self.template.numbers_of_objects)
        return (
            self._first_preferred(self._of_sizes(first, counts), refused, _MOST_RULES)
            or self._of_fixed_shape(first, refused)
            or self._of_own_axes(first, refused)
            or self._of_parts(first, refused)
        )

    def _first_preferred(
        self,
        candidates: Iterator[Candidate],
        refused: list[tuple[Signature, RuleError]],
        most: int,
    ) -> Subject | None:
        """The subject of the first candidate that function and rule take, of so many for which the rule is traced."""
        few = itertools.islice(candidates, most)
        tried = (self._preferred(candidate, refused) for candidate in few)
        return next((subject for subject in tried if subject is not None), None)

    def _of_sizes(
        self, candidates: Sequence[Candidate], counts: Sequence[int]
    ) -> Iterator[Candidate]:
        """The candidates with an axis of as many as one of these numbers says: a rule may count on that alone."""
        for candidate, count in itertools.product(candidates, dict.fromkeys(counts)):
            for u in candidate.free if count > 1 else ():
                bound = candidate.solution.with_equations([(unknown(u), Size(constant=count))])
                if bound is not None and self._accepts(candidate, bound):
                    yield replace(candidate, solution=bound)

    def _of_fixed_shape(
        self, candidates: Sequence[Candidate], refused: list[tuple[Signature, RuleError]]
    ) -> Subject | None:
        """The subject with an array of the one shape that the rule returns for it, whatever it is given.

        A rule that takes such an array is made for it: that it refuses others says nothing.
        """
        own = _single(_of_no_array(refused))
        always = _single(_returned_always(refused))
        for wanted, apart in ((own, frozenset[int]()), (always, frozenset(always or ()))):
            offered = () if wanted is None else self._with_array_of(wanted, candidates)
            for candidate in itertools.islice(offered, _MOST_RULES):
                subject = self._preferred(replace(candidate, own=apart), refused)
                if subject is not None:
                    refused.clear()
                    return subject
        return None

    def _of_own_axes(
        self, candidates: Sequence[Candidate], refused: list[tuple[Signature, RuleError]]
    ) -> Subject | None:
        """The subject whose axes are as long as the rule returns them, one array after the other: `points @ m[:2, :2]`."""
        found = (self._made_as_returned(candidate) for candidate in candidates)
        subject = next((each for each in found if each is not None), None)
        if subject is not None:
            refused.clear()
        return subject

    def _of_parts(
        self, candidates: Sequence[Candidate], refused: list[tuple[Signature, RuleError]]
    ) -> Subject | None:
        """The subject of an array that is as long as the parts into which the rule cuts it: the function broadcasts a part of one."""
        for candidate in candidates if any(asks_to_divide(e.message) for _, e in refused) else ():
            numbers = candidate.at(candidate.solution)
            told = in_parts(
                self._objection(candidate, numbers), candidate.shapes, candidate.solution
            )
            bound = Solution().with_equations(told) if told else None
            self.steps = 0
            solved = bound and self._solve(candidate.shapes, bound, candidate.ascending)
            subject = self._preferred(solved, []) if isinstance(solved, Candidate) else None
            if subject is not None:
                return subject
        return None

    def _objection(self, candidate: Candidate, shapes: Sequence[tuple[int, ...]]) -> str:
        """What the rule says against these shapes."""
        few = totals(self.template.holes, shapes, [min(_COUNTS)] * len(shapes))
        signature = self.template.at(shapes, few, candidate.ascending)
        try:
            fitted(self.gradient, signature, self.dtype).traces()
        except RuleError as error:
            return error.message
        except Rejected:
            pass
        return ""

    def _made_as_returned(self, candidate: Candidate) -> Subject | None:
        own: list[tuple[Size, Size]] = []
        for turn in range(_MOST_OWN_AXES):
            again: list[tuple[Signature, RuleError]] = []
            subject = self._preferred(candidate, again)
            if subject is not None or not again:
                return subject
            told = self._axes_returned(candidate, *again[0])
            # A size that another array has may be that of a rule that takes one for the other.
            sizes = {n.constant for _, n in told}
            if not turn and sizes <= sizes_of(again) and not self._returns(candidate, sizes):
                return None
            own += told
            self.steps = 0
            bound = Solution().with_equations(own)
            solved = bound and self._solve(candidate.shapes, bound, candidate.ascending)
            if not isinstance(solved, Candidate):
                return None
            candidate = solved
        return None

    def _returns(self, candidate: Candidate, sizes: set[int]) -> bool:
        """Does the rule return axes of these sizes, too, where no array has any of them?"""
        shapes = candidate.at(candidate.solution)
        got = {n for shape in returned_shapes(self._objection(candidate, shapes)) for n in shape}
        return sizes <= got.difference(*shapes)

    def _axes_returned(
        self, candidate: Candidate, signature: Signature, error: RuleError
    ) -> list[tuple[Size, Size]]:
        """The axes of an array that are of other sizes in the gradient that the rule returns for it, and these sizes."""
        shapes = {leaf.path: leaf.shape for leaf in signature.leaves}
        return [
            (size, Size(constant=n))
            for got, wanted in returned_for(error.message)
            for hole, sizes in self._holes(candidate)
            if len(got) == len(sizes) and shapes.get(hole.path) == wanted
            for size, n, was in zip(sizes, got, wanted, strict=True)
            if n != was
        ]

    def _with_array_of(
        self, wanted: tuple[int, ...], candidates: Sequence[Candidate]
    ) -> Iterator[Candidate]:
        """The candidates, each array of as many axes in turn of this shape."""
        for candidate in candidates:
            for shape in (s for s in candidate.shapes if len(s) == len(wanted)):
                equal = [(s, Size(constant=n)) for s, n in zip(shape, wanted, strict=True)]
                bound = candidate.solution.with_equations(equal)
                if bound is not None and self._accepts(candidate, bound):
                    yield replace(candidate, solution=bound)

    def _alike(self, candidate: Candidate) -> Candidate | None:
        """The candidate with arrays of as many axes tied to one shape, if the function takes that, too."""
        of_rank: dict[int, tuple[Size, ...]] = {}
        equal = [
            (size, other)
            for hole, shape in self._holes(candidate)
            if hole.kind == "float"
            for size, other in zip(shape, of_rank.setdefault(len(shape), shape), strict=True)
            if candidate.solution.of(size) != candidate.solution.of(other)
        ]
        tied = candidate.solution.with_equations(equal) if equal else None
        if tied is None or not self._accepts(candidate, tied):
            return None
        return replace(candidate, solution=tied)

    def _preferred(
        self, candidate: Candidate, refused: list[tuple[Signature, RuleError]]
    ) -> Subject | None:
        """The subject of the first sizes that function and rule take, or of the first of these that are preferred."""
        first: Subject | None = None
        for signature in self._small(candidate):
            if first is not None and not (self.prefers and self.prefers(signature)):
                continue
            try:
                subject = fitted(self.gradient, signature, self.dtype)
                if not self.may_overread and self._reads_on(subject):
                    continue
                subject.traces()
            except Rejected:
                continue
            except RuleError as error:
                refused.append((signature, error))
                return first
            if self.prefers is None or first is not None or self.prefers(signature):
                return subject
            first = subject
        return first

    def _reads_on(self, subject: Subject) -> bool:
        """Does the subject read beyond an array? Of so many only it is asked, since each is compiled and run."""
        self.asked += 1
        return self.asked <= _MOST_READS and bool(subject.reads_beyond())

    def _is_likely(self, candidate: Candidate) -> bool:
        """Has each array as many axes as the gradient that the rule's text returns for it, where that is known?"""
        known = [(h.likely_rank, s) for h, s in self._holes(candidate) if h.likely_rank is not None]
        return bool(known) and all(rank == len(shape) for rank, shape in known)

    def _refined(self, candidates: Sequence[Candidate]) -> Iterator[Candidate]:
        """Each candidate, before it those of which one axis may be twice another: heads that share keys."""
        for candidate in candidates:
            yield from self._doubled(candidate)
            yield candidate

    def _doubled(self, candidate: Candidate) -> Iterator[Candidate]:
        """The candidate with the first axis doubled that may be a multiple, but not one longer.

        What a source calls the same in two arrays is as long in both.
        """
        named = [dim for hole in self.template.holes for dim in hole.dims or ()]
        axes = [(i, a) for i, shape in enumerate(candidate.shapes) for a in range(len(shape))]
        sizes = [candidate.solution.of(candidate.shapes[i][a]) for i, a in axes]
        for place, size in zip(axes, sizes, strict=True):
            dims = self.template.holes[place[0]].dims or ()
            is_shared = place[1] < len(dims) and named.count(dims[place[1]]) > 1
            if sizes.count(size) < 2 or not size.terms or is_shared:
                continue
            twice = candidate.with_axis(place, Size().plus(size, 2))
            longer = candidate.with_axis(place, size.plus(Size(constant=1)))
            if self._accepts(twice, twice.solution) and not self._accepts(longer, longer.solution):
                yield twice
                return

    def _small(self, candidate: Candidate) -> Iterator[Signature]:
        """The call with small sizes, all different; others, and those explored, are there in case that these are refused."""
        names = axis_names(self.template.holes, candidate.shapes, candidate.solution)
        short = windows(self.template.holes, candidate.shapes, candidate.solution)
        half = halves(candidate.shapes, candidate.solution)
        sized = candidate.sized(short, half, slides=self._counts_something, tables=self._has_tables)
        explored = candidate.at(candidate.solution)  # a table that is closed over may be as long
        every = [
            (n, shapes)
            for shapes in (*sized, explored)
            if (n := count_of(shapes)) and all(map(all, shapes))
        ]
        small = [shapes for count, shapes in every if count <= self._most_numbers]
        least, smallest = min(every, key=lambda sized: sized[0], default=(0, None))
        if not small and smallest is not None and least <= _MOST_AT_ALL:
            small = [smallest]
        for shapes in sorted(small, key=lambda each: (self._is_crowded(each), self._is_thin(each))):
            for count in _COUNTS if self._has_tables else _COUNTS[:1]:
                below = counts(self.template.holes, shapes, count)
                yield self.template.at(shapes, below, candidate.ascending, names)

    def _is_crowded(self, shapes: Sequence[tuple[int, ...]]) -> bool:
        """Are there too few places for a table of which no two are to be one?"""
        below = counts(self.template.holes, shapes, _COUNTS[0])
        return not leaves_room(self.template.holes, shapes, below)

    def _is_thin(self, shapes: Sequence[tuple[int, ...]]) -> bool:
        """Does a mask run along an axis of two? One is kept of these, and a softmax of one is 1."""
        masks = (s for h, s in zip(self.template.holes, shapes, strict=True) if h.kind == "bool")
        return any(shape and shape[-1] < _LEAST_MASKED for shape in masks)

    @property
    def _counts_something(self) -> bool:
        """Is there a whole number among the arguments: a window, a step, a number of parts?"""
        defaults = (parameter.default for parameter in self.gradient.parameters())
        return bool(self._wholes) or any(type(v) is int and v > 0 for v in defaults)

    @property
    def _wholes(self) -> list[int]:
        """The positive whole numbers of the call."""
        return list(dict.fromkeys(self.template.wholes.values()))

    @property
    def _most_numbers(self) -> int:
        """How many numbers there may be in all arrays: more where an axis is divided into parts."""
        divided = any("*" in dim for hole in self.template.holes for dim in hole.dims or ())
        return _MOST_IN_PARTS if divided else _MOST_NUMBERS

    @property
    def _has_tables(self) -> bool:
        return any(hole.kind == "int" for hole in self.template.holes)


def _along(candidate: Candidate, place: int, axis: int) -> set[tuple[int, int]]:
    """The axes of other arrays that are as long as this one."""
    sizes = [tuple(map(candidate.solution.of, shape)) for shape in candidate.shapes]
    return {
        (other, n)
        for other, shape in enumerate(sizes)
        for n, size in enumerate(shape)
        if other != place and size == sizes[place][axis]
    }
