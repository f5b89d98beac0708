"""Errors about shapes, read as equations between sizes: `(5, 7) and (11,)` wants 7 to be 11."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from types import FunctionType

from gradcheck_cli.infer.closed_sizes import closed_sizes
from gradcheck_cli.infer.sizes import Equation, Size, Solution, by_parts, equations

_SHAPE = re.compile(
    r"[\[(]\s*(?:-1\s*,\s*)?\d+(?:\s*,\s*(?:\d+|-1))*\s*,?\s*[\])]|\b\d+(?:x\d+)+\b"
)
_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.]*\w)")
# Numbers that count axes and arguments, and are no sizes.
_PLACE = re.compile(
    r"\b(?:axis|axes|rank|inputs?|arguments?|args?|operands?|position|index|number)[ =#]{1,2}-?\d+"
    r"|\b(?:at|along|in|over|singleton) dim(?:ension)? -?\d+",
    re.IGNORECASE,
)
_PRODUCT = re.compile(
    r"contract|dot|matmul|mat1|multipl|Matrix size|inner|\bmv\b|\bvec\b", re.IGNORECASE
)
# How frameworks say, and we do, that a gradient is not of its argument's shape.
_GOT, _WANTED = r"(?P<got>\[[\d, ]*\])", r"(?P<wanted>\[[\d, ]*\])"
_RETURNED = (
    re.compile(rf"output of type \w+{_GOT} corresponding to an input of type \w+{_WANTED}"),
    re.compile(
        rf"invalid gradient at index \d+ - got {_GOT} but expected shape compatible with {_WANTED}"
    ),
    re.compile(rf"has the shape {_GOT}, its argument {_WANTED}"),
)
# How a kernel says that it leaves an array.
_BEYOND = re.compile(
    r"the kernel `\w+` (?:reads|writes) element|its kernels leave|is never written by a kernel"
)
_STARTS = re.compile(r"\bstarts? with\b", re.IGNORECASE)
_JOINED = re.compile(r"oncat\w* along dimension (-?\d+)")
_DIVIDES = re.compile(r"divi[sd]|equal division|reshape|invalid for input|split", re.IGNORECASE)
_UNPACKS = re.compile(r"values to unpack \(expected (?P<count>\d+)")
# `indices[0,2] = 11 is not in [0, 5)`, `index 11 is out of bounds for dimension 0 with size 5`.
_PAST_THE_END = re.compile(
    r" = (?P<place>\d+) is not in \[0, (?P<size>\d+)\)|\bindex (?P<index>\d+) is out of bounds for (?:dimension|axis) \d+ with size (?P<length>\d+)"
)
_LONGER = (2, 4, 8)  # times as long, until the places that the function knows are in it
# With one axis as long as there are elements left.
_OPEN_SHAPE = re.compile(r"(?:[(\[](?=[^()\[\]]*-1)|\bmultiple of )(?P<sizes>-?\d[-\d, ]*)")
_RESHAPES = re.compile(r"reshape|invalid for input", re.IGNORECASE)
# What is cut into parts: `into shape (-1, 3, 2)`, `shape '[-1, 3, 2]' is invalid`.
_INTO_PARTS = re.compile(r"[\[(]\s*-1\s*,\s*(?P<parts>\d+(?:\s*,\s*\d+)+)\s*,?\s*[\])]")
# No size helps where arrays of different numbers of axes are joined.
_OF_RANKS = re.compile(
    r"(different|same) numbers? of dimensions|ranks of all .* should match|same rank", re.IGNORECASE
)
_SORTS = re.compile(r"\b(un)?sorted\b|\b(in|non-de)creasing\b|ascending", re.IGNORECASE)
# How frameworks say that a float is not what they want.
_INTEGERS = re.compile(
    r"\b(u?int(eger|egers|s|\d+)?|long|__index__)\b(?!\s+(?:multipl|overflow|divi|modulo))|not implemented for '(Float|Double|Half)'",
    re.IGNORECASE,
)
# What was given, where something else than its type is refused: `is supposed to be a vector, but got dim: 2 with type: Long`.
_GIVEN_TYPE = re.compile(r"\bgot dim: \d+ with type: \w+", re.IGNORECASE)
_COMPLEX = re.compile(r"complex", re.IGNORECASE)
_MOST_SHAPES, _MOST_NUMBERS = 4, 4
_FIRST_PART = 3  # of as many as an axis is cut into
_LEAST_STATED = 2  # smaller numbers are pairs and broadcast axes

Shape = tuple[int, ...]
Pairs = list[tuple[int, int]]


def told_sizes(message: str) -> frozenset[int]:
    """The numbers of the shapes that an error names, but for those that fit everything."""
    return frozenset(n for text in _SHAPE.findall(message) for n in _numbers(text) if n > 1)


def proposals(
    message: str, sizes: Sequence[Size], solution: Solution, constants: Collection[int] = ()
) -> Iterator[Solution]:
    """Solutions under which the error might not come again, likeliest first, each once; no axis makes the constants."""
    offered: list[Solution] = []
    if _is_turned(message) or _OF_RANKS.search(message):
        return
    read = (
        following
        for pairs in _pairings(message)
        for chosen in _chosen(pairs, sizes, solution, constants)
        for following in _solved(chosen, solution)
    )
    ways = (_unpacked(message, sizes, solution), _reached(message, sizes, solution), read)
    for following in itertools.chain.from_iterable(ways):
        if following not in offered:
            offered.append(following)
            yield following


def _solved(chosen: Sequence[Equation], solution: Solution) -> Iterator[Solution]:
    """The solution of the equations; of a sum that equals another sum, with their parts equal in both orders."""
    following = solution.with_equations(chosen)
    if following is not None:
        yield following
    elif len(chosen) == 1:
        each = (solution.with_equations(pairs) for pairs in by_parts(*chosen[0], solution))
        yield from (following for following in each if following is not None)


def refilled(
    message: str, sizes: Sequence[Size], solution: Solution, most: int = 2
) -> Iterator[Solution]:
    """The solutions under which an array fills its new shape: `[1, 17, 1, 1] is invalid for input of size 7`.

    `[19, 1, 35] is invalid for input of size 385` lacks 19 where it has 11. What is cut into parts of any size,
    `[11, 5, -1] is invalid for input of size 77`, has two in each first: where 7 is 5, each part is a single element.
    """
    if not _RESHAPES.search(message):
        return
    texts = [text for text in _SHAPE.findall(message) if "," in text or text[0] != "("]
    shapes = [_numbers(text) for text in texts]
    loose = [int(n) for n in _NUMBER.findall(_SHAPE.sub(" ", message)) if int(n) > 1]
    rows = [math.prod(shape) for shape in shapes if shape.count(1) >= len(shape) - 1]
    single = list(dict.fromkeys(n for n in (*rows, *loose) if n > 1))
    counts = list(dict.fromkeys((*map(math.prod, shapes), *loose)))
    pairs = [tuple(single)] if len(single) == 2 else []
    if len(counts) == 2 and all(counts) and not rows:
        share = Fraction(counts[0], counts[1])
        both = (share.numerator, share.denominator)
        pairs += [both] if set(both) <= {solution.number(size) for size in sizes} else []
    for one, other in _multiples(message, counts, most):
        readings = (equation for a, b in pairs for equation in equations(sizes, solution, a, b))
        multiples = ((Size().plus(a, one), Size().plus(b, other)) for a, b in readings)
        solutions = (solution.with_equations([equation]) for equation in multiples)
        yield from itertools.islice((each for each in solutions if each is not None), 1)


def _multiples(message: str, counts: Sequence[int], most: int) -> list[tuple[int, int]]:
    """How many times one size is another, of which the numbers of elements are to be equal: `most` times, if one may be so."""
    match = _OPEN_SHAPE.search(message)
    part = 0 if match is None else math.prod(_numbers(match["sizes"]))
    several = [(most, 1) if part == counts[0] else (1, most)] if part in counts else []
    return list(dict.fromkeys([*several, (1, 1)]))


def in_parts(message: str, shapes: Sequence[Sequence[Size]], solution: Solution) -> list[Equation]:
    """The last axis of an array as the product of the axes of others into which a rule cuts it.

    `(-1, k, p)` of what the function took with k elements, for it broadcasts one to p of them: k is a number
    from then on.
    """
    match = _INTO_PARTS.search(message) if asks_to_divide(message) else None
    counts = {int(n) for n in _NUMBER.findall(message)}
    whole = [s for s in shapes if s and math.prod(map(solution.number, s)) in counts]
    if match is None or len(whole) != 1:
        return []
    others = {solution.number(size): size for s in shapes if s is not whole[0] for size in s}
    parts = _numbers(match["parts"])
    if not others.keys() >= set(parts):
        return []
    fixed = [_FIRST_PART + place for place in range(len(parts) - 1)]
    product = Size().plus(others[parts[-1]], math.prod(fixed))
    numbers = [Size(constant=number) for number in fixed]
    return [
        *zip((others[n] for n in parts[:-1]), numbers, strict=True),
        (whole[0][-1], product),
    ]


def _unpacked(message: str, sizes: Sequence[Size], solution: Solution) -> Iterator[Solution]:
    """Solutions under which an axis has as many items as the function unpacks it into, the last axes first."""
    match = _UNPACKS.search(message)
    if match is None:
        return
    count = Size(constant=int(match["count"]))
    for size in dict.fromkeys(solution.of(size) for size in reversed(sizes)):
        following = solution.with_equations([(size, count)]) if size.terms else None
        if following is not None:
            yield following


def _reached(message: str, sizes: Sequence[Size], solution: Solution) -> Iterator[Solution]:
    """Solutions under which an axis is long enough for places that the function has of its own."""
    match = _PAST_THE_END.search(message)
    if match is None:
        return
    place, length = (int(match[a] or match[b]) for a, b in (("place", "index"), ("size", "length")))
    own = dict.fromkeys(solution.of(size) for size in sizes if solution.number(size) == length)
    for size, times in itertools.product(own, _LONGER if place >= length > 0 else ()):
        wanted = [(size, Size(constant=times * length))]
        following = solution.with_equations(wanted) if size.terms else None
        if following is not None:
            yield following


def beside_stated(sizes: Sequence[Size], solution: Solution) -> Iterator[Solution]:
    """Solutions for a refusal that says no numbers: free sizes that are the stated ones, one more or one less.

    An object with five layers takes a column of five, and four between them.
    """
    solved = list(dict.fromkeys(solution.of(size) for size in sizes))
    stated = [size.constant for size in solved if not size.terms and size.constant > _LEAST_STATED]
    for free, number, more in itertools.product(solved, stated, (0, 1, -1)):
        if free.terms:
            following = solution.with_equations([(free, Size(constant=number + more))])
            if following is not None:
                yield following


def in_step(
    shapes: Sequence[Sequence[Size]], message: str, solution: Solution
) -> Iterator[Solution]:
    """Solutions for a kernel that leaves an array, of which it says no size: arrays with an axis in common, or of one shape.

    Each is tried for itself: one upon the other they would make everything square.
    """
    if _BEYOND.search(message) is None or solution.bound:
        return
    of_rank: dict[int, Sequence[Size]] = {}
    alike = [
        (size, other)
        for shape in shapes
        for size, other in zip(shape, of_rank.setdefault(len(shape), shape), strict=True)
    ]
    every = [shape for shape in shapes if shape]
    last = [(every[0][-1], shape[-1]) for shape in every[1:]]
    # First x and residual of one shape, weight and bias of its last axis.
    ways: list[Sequence[Equation]] = [[*alike, *last], alike, last]
    for one, other in itertools.combinations(every, 2):
        inner = (one[-1], other[-min(2, len(other))])
        ways += [[inner], [(one[-1], other[-1])], [(one[0], other[0])]]
        if len(one) > 2 and len(other) > 2:
            ways.append([*zip(one[:-2], other[:-2], strict=False), inner])
    for equations_ in ways:
        following = solution.with_equations(equations_)
        if following is not None:
            yield following


def divided(message: str, sizes: Sequence[Size], solution: Solution) -> list[Solution]:
    """The solution under which two axes are equal of which one has to divide the other: `divisible: 17 vs 7`."""
    loose = [int(n) for n in _NUMBER.findall(message)]
    numbers = list(dict.fromkeys(n for n in loose if n > 1))
    by_number = {solution.number(size): size for size in sizes}
    if "divisible" not in message or len(numbers) != 2 or not by_number.keys() >= set(numbers):
        return []
    following = solution.with_equations([(by_number[numbers[0]], by_number[numbers[1]])])
    return [] if following is None else [following]


def returned_shapes(message: str) -> list[Shape]:
    """The shape of a gradient, where an error says that it is not its argument's."""
    return [got for got, _ in returned_for(message)]


def returned_for(message: str) -> list[tuple[Shape, Shape]]:
    """The shape of a gradient, and of the argument that it is returned for, where they are not one."""
    matches = [match for pattern in _RETURNED if (match := pattern.search(message)) is not None]
    return [(_numbers(match["got"]), _numbers(match["wanted"])) for match in matches]


def made_for(
    texts: Sequence[str], functions: Sequence[FunctionType], settings: Mapping[str, int]
) -> list[int]:
    """The sizes in shapes, as refusals have them, which the rule closes over: 36 of `(36, 3), (4, 1)` beside `self.layers`."""
    shapes = [_numbers(shape) for text in texts for shape in _SHAPE.findall(text)]
    told = {n for shape in shapes for n in shape if n > 1}
    return sorted(told & closed_sizes(functions, settings)) if told else []


def asks_to_divide(message: str) -> bool:
    """Does the function divide an axis into equal parts, into which this size cannot be divided?"""
    return _DIVIDES.search(message) is not None


def wants_integers(message: str) -> bool:
    """Is a float refused where an integer is wanted?"""
    return _INTEGERS.search(_GIVEN_TYPE.sub(" ", message)) is not None


def wants_complex(message: str) -> bool:
    """Does a refusal of real numbers speak of complex ones?"""
    return _COMPLEX.search(message) is not None


def asks_to_sort(message: str) -> bool:
    """Does the function want integers in ascending order?"""
    return _SORTS.search(message) is not None


def _chosen(
    pairs: Sequence[tuple[int, int]],
    sizes: Sequence[Size],
    solution: Solution,
    constants: Collection[int],
) -> Iterator[list[Equation]]:
    """The likeliest reading of all pairs together; of a single pair, every reading."""
    readings = [list(equations(sizes, solution, a, b, constants)) for a, b in pairs]
    if not all(readings):
        return
    if len(readings) == 1:
        yield from ([equation] for equation in readings[0])
    else:
        yield [each[0] for each in readings]


def _pairings(message: str) -> Iterator[Pairs]:
    """Numbers that should be equal, as sets of pairs."""
    shapes = [_numbers(text) for text in _SHAPE.findall(message)][:_MOST_SHAPES]
    loose = [int(n) for n in _NUMBER.findall(_PLACE.sub(" ", _SHAPE.sub(" ", message)))]
    several = list(dict.fromkeys(n for n in loose if n > 1))[:_MOST_NUMBERS]
    if len(several) == 2:  # "to have 3 channels, but got 5"
        yield [(several[0], several[1])]
    each = (_ways(s, t, message) for s, t in itertools.combinations(shapes, 2))
    for ways in itertools.zip_longest(*each, fillvalue=[]):  # the likeliest of all pairs first
        yield from (way for pairs in ways if (way := _different(pairs)))
    yield from ([(a, b)] for i, a in enumerate(several) for b in several[i + 1 :])
    yield from ([(s[-2], s[-1])] for s in shapes if len(s) > 1 and s[-2] != s[-1])
    yield from ([(n, m)] for n in several for s in shapes for m in s if n != m)


def _ways(s: Shape, t: Shape, message: str) -> list[Pairs]:
    """How two shapes of an error may have to fit together, likeliest first."""
    leading = _aligned(s[:-2], t[:-2])
    product = [_contracted(s, t) + leading, _turned(s, t) + leading, _contracted(s, t)]
    joined = _JOINED.search(message)
    if joined is not None:
        along = int(joined[1]) % len(s)
        return [[(a, b) for i, (a, b) in enumerate(zip(s, t, strict=False)) if i != along]]
    ends = [[(s[0], t[0])], [(s[-1], t[-1])], [(s[-1], t[0])]]
    if _STARTS.search(message):  # before their last axes are tied, and the one is made square
        return [list(zip(s, t, strict=False)), _aligned(s, t), *ends]
    if _PRODUCT.search(message):
        return [*product, _aligned(s, t), *ends]
    return [_aligned(s, t), *product, *ends]


def _different(pairs: Pairs) -> Pairs:
    return [(a, b) for a, b in pairs if a != b]


def _is_turned(message: str) -> bool:
    """Is a product refused whose inner axes are equal? One operand is transposed first, so these need not be."""
    shapes = [s for text in _SHAPE.findall(message) if len(s := _numbers(text)) > 1]
    if not _PRODUCT.search(message) or len(shapes) != 2:
        return False
    s, t = shapes
    return not _different(_contracted(s, t) + _aligned(s[:-2], t[:-2]))


def _turned(s: Shape, t: Shape) -> Pairs:
    """As a product with the transposed second operand aligns them."""
    return [(s[-1], t[-1])]


def _numbers(text: str) -> Shape:
    """The sizes of a shape; -1, which leaves one open, is as good as 1, which fits everything."""
    return tuple(int(n) for n in re.findall(r"\d+", text))


def _aligned(s: Shape, t: Shape) -> Pairs:
    """As broadcasting aligns them: from the last axis on, ones fit everything."""
    return [
        (a, b) for a, b in zip(reversed(s), reversed(t), strict=False) if a != b and 1 not in (a, b)
    ]


def _contracted(s: Shape, t: Shape) -> Pairs:
    """As a matrix product aligns them."""
    return [(s[-1], t[0] if len(t) == 1 else t[-2])]
