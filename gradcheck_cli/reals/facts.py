"""What each primitive is, one row a primitive: the one table from which the others are derived.

A rule says how a primitive is computed (`tables`, `tables64`); a fact says what is true of it
in every domain. Where the law and a function's name are enough, the rule follows from the row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum, auto


class Law(Enum):
    """How the results of a primitive depend on its operands."""

    UNARY = auto()
    BINARY = auto()
    ELEMENTWISE = auto()  # with a rule of its own
    SPECIAL = auto()
    IDENTITY = auto()
    PART = auto()
    PAIRING = auto()
    COMPARISON = auto()
    LOGIC = auto()
    CHOICE = auto()
    CAST = auto()
    BITS = auto()
    MOVE = auto()
    PICK = auto()  # a move that only restricted programs have
    CREATION = auto()
    INDEXING = auto()
    REDUCTION = auto()
    RUNNING = auto()
    ORDER = auto()
    PRODUCT = auto()
    WINDOW = auto()
    ALGEBRA = auto()
    CONTROL = auto()
    DRAW = auto()


class Effort(IntEnum):
    """Steps of flint for one number, of which a core takes one to four in a microsecond at 128 bits."""

    PLAIN = 1
    FUNCTION = 4
    SLOW = 64  # milliseconds at thousands of bits


_POINTWISE = frozenset(
    {
        Law.UNARY,
        Law.BINARY,
        Law.ELEMENTWISE,
        Law.SPECIAL,
        Law.IDENTITY,
        Law.COMPARISON,
        Law.LOGIC,
        Law.CHOICE,
        Law.CAST,
    }
)


class Trips(Enum):
    """How often the body of a loop runs."""

    COUNTED = auto()
    OPEN = auto()  # until its values say so


@dataclass(frozen=True, slots=True)
class Facts:
    """What is true of a primitive in every domain."""

    law: Law
    function: str | None = None  # what a domain calls it, if not by the primitive's name
    effort: Effort = Effort.PLAIN
    sums: bool = False  # terms may cancel
    steps: bool = False  # constant between jumps
    branches: bool = False  # its derivative may be another than the function's
    spreads: bool = False  # of a single number, a change of shape alone
    trips: Trips | None = None  # of a loop
    sharp: bool = False  # another number where its operand moves by one: it takes all its digits
    normwise: bool = False  # in floats exact for an array near beside its largest element

    @property
    def pointwise(self) -> bool:
        """Does each real result rest on the operands' elements at its own place?"""
        return self.law in _POINTWISE

    @property
    def moves(self) -> bool:
        """Is nothing computed?"""
        return self.law in (Law.MOVE, Law.PICK, Law.CREATION)

    @property
    def smooth(self) -> bool:
        """Is the derivative of the program that of the function, almost everywhere?"""
        return not (self.steps or self.branches)


FUNCTION = Facts(Law.UNARY, effort=Effort.FUNCTION)
SHARP = Facts(Law.UNARY, effort=Effort.FUNCTION, sharp=True)
SPECIAL = Facts(Law.SPECIAL, effort=Effort.SLOW)
IDENTITY = Facts(Law.IDENTITY)
COMPARISON = Facts(Law.COMPARISON)
LOGIC = Facts(Law.LOGIC)
MOVE = Facts(Law.MOVE)
CREATION = Facts(Law.CREATION)
INDEXING = Facts(Law.INDEXING)
ORDER = Facts(Law.ORDER)
NORMWISE = Facts(Law.ALGEBRA, normwise=True)
DRAW = Facts(Law.DRAW)

FACTS: dict[str, Facts] = {
    # y = f(x)
    "abs": Facts(Law.UNARY),
    "acos": FUNCTION,
    "acosh": FUNCTION,
    "asin": FUNCTION,
    "asinh": FUNCTION,
    "atan": FUNCTION,
    "atanh": FUNCTION,
    "cbrt": FUNCTION,
    "ceil": Facts(Law.UNARY, steps=True),
    "cos": SHARP,
    "cosh": SHARP,
    "digamma": Facts(Law.UNARY, effort=Effort.SLOW),
    "erf": FUNCTION,
    "erf_inv": Facts(Law.UNARY, effort=Effort.SLOW),
    "erfc": FUNCTION,
    "exp": SHARP,
    "exp2": SHARP,
    "expm1": SHARP,
    "floor": Facts(Law.UNARY, steps=True),
    "lgamma": Facts(Law.UNARY, effort=Effort.SLOW),
    "log": FUNCTION,
    "log1p": FUNCTION,
    "log2": FUNCTION,
    "logistic": SHARP,
    "neg": Facts(Law.UNARY),
    "one_minus_square": Facts(Law.UNARY),
    "rsqrt": FUNCTION,
    "sign": Facts(Law.UNARY, steps=True),
    "sin": SHARP,
    "sinh": SHARP,
    "sqrt": FUNCTION,
    "tan": SHARP,
    "tanh": SHARP,
    # y = f(x, n), with n a parameter
    "clamp": Facts(Law.ELEMENTWISE),
    "integer_pow": Facts(Law.ELEMENTWISE),
    "round": Facts(Law.ELEMENTWISE, steps=True),
    "square": Facts(Law.ELEMENTWISE),
    # y = f(a, b)
    "add": Facts(Law.BINARY, sums=True),
    "add_any": Facts(Law.BINARY, function="add", sums=True),
    "atan2": Facts(Law.BINARY),
    "div": Facts(Law.BINARY),
    "max": Facts(Law.BINARY),
    "min": Facts(Law.BINARY),
    "mul": Facts(Law.BINARY),
    "pow": Facts(Law.BINARY, effort=Effort.FUNCTION),
    "rem": Facts(Law.BINARY),
    "sub": Facts(Law.BINARY, sums=True),
    # special functions of one or more real arguments
    "bessel_i0e": SPECIAL,
    "bessel_i1e": SPECIAL,
    "igamma": SPECIAL,
    "igamma_grad_a": SPECIAL,
    "igammac": SPECIAL,
    "polygamma": SPECIAL,
    "random_gamma_grad": SPECIAL,
    "regularized_incomplete_beta": SPECIAL,
    "zeta": SPECIAL,
    # parts of complex numbers; a real number is its own conjugate
    "conj": Facts(Law.PART),
    "imag": Facts(Law.PART),
    "real": Facts(Law.PART),
    "complex": Facts(Law.PAIRING),
    # y = x: casts and barriers change the float, never the real number
    "copy": IDENTITY,
    "copy_p": IDENTITY,
    "dce_sink": IDENTITY,
    "device_put": IDENTITY,
    "layout_constraint": IDENTITY,
    "name": IDENTITY,
    "optimization_barrier": IDENTITY,
    "pbroadcast": IDENTITY,
    "pvary": IDENTITY,
    "reduce_precision": IDENTITY,
    "reduced_vary_cast_p": IDENTITY,
    "relayout": IDENTITY,
    "reshard": IDENTITY,
    "sharding_constraint": IDENTITY,
    "stop_gradient": IDENTITY,
    "tie": IDENTITY,
    "vary_unreduced_cast_p": IDENTITY,
    "with_memory_space_constraint": IDENTITY,
    "xla_metadata_value": IDENTITY,
    # truth
    "eq": COMPARISON,
    "ge": COMPARISON,
    "gt": COMPARISON,
    "le": COMPARISON,
    "lt": COMPARISON,
    "ne": COMPARISON,
    "eq_to": Facts(Law.COMPARISON, function="eq"),
    "le_to": Facts(Law.COMPARISON, function="le"),
    "lt_to": Facts(Law.COMPARISON, function="lt"),
    "and": LOGIC,
    "not": LOGIC,
    "or": LOGIC,
    "xor": LOGIC,
    "is_finite": Facts(Law.CHOICE),
    "select_n": Facts(Law.CHOICE, branches=True),
    # from one kind of number to another
    "convert_element_type": Facts(Law.CAST, branches=True),
    "sign_bit": Facts(Law.BITS),
    # elements change places
    "broadcast_in_dim": Facts(Law.MOVE, spreads=True),
    "concatenate": MOVE,
    "expand_dims": MOVE,
    "pad": MOVE,
    "reshape": Facts(Law.MOVE, spreads=True),
    "rev": MOVE,
    "slice": MOVE,
    "split": MOVE,
    "squeeze": Facts(Law.MOVE, spreads=True),
    "stack": MOVE,
    "tile": MOVE,
    "transpose": MOVE,
    "unstack": MOVE,
    "pick": Facts(Law.PICK),
    # elements from nothing
    "empty": CREATION,
    "empty2": CREATION,
    "iota": Facts(Law.CREATION, spreads=True),
    # elements at computed places
    "dynamic_slice": INDEXING,
    "dynamic_update_slice": INDEXING,
    "gather": Facts(Law.INDEXING, branches=True),
    "scatter": INDEXING,
    "scatter-add": INDEXING,
    "scatter-max": INDEXING,
    "scatter-min": INDEXING,
    "scatter-mul": INDEXING,
    "scatter-sub": INDEXING,
    "scatter_add": INDEXING,
    "scatter_mul": INDEXING,
    # x₁ ∘ x₂ ∘ …
    "reduce_and": Facts(Law.REDUCTION, function="and"),
    "reduce_max": Facts(Law.REDUCTION, function="max"),
    "reduce_min": Facts(Law.REDUCTION, function="min"),
    "reduce_or": Facts(Law.REDUCTION, function="or"),
    "reduce_prod": Facts(Law.REDUCTION, function="mul"),
    "reduce_sum": Facts(Law.REDUCTION, function="add", sums=True),
    # x₁, x₁ ∘ x₂, …
    "cumlogsumexp": Facts(Law.RUNNING, function="logaddexp"),
    "cummax": Facts(Law.RUNNING, function="max"),
    "cummin": Facts(Law.RUNNING, function="min"),
    "cumprod": Facts(Law.RUNNING, function="mul"),
    "cumsum": Facts(Law.RUNNING, function="add", sums=True),
    # which is the largest
    "approx_top_k": ORDER,
    "argmax": Facts(Law.ORDER, branches=True),
    "argmin": Facts(Law.ORDER, branches=True),
    "sort": Facts(Law.ORDER, branches=True),
    "top_k": ORDER,
    # Σ aᵢ bᵢ
    "conv_general_dilated": Facts(Law.PRODUCT),
    "dot_general": Facts(Law.PRODUCT, sums=True),
    "fft": Facts(Law.PRODUCT, normwise=True),
    "ragged_dot_general": Facts(Law.PRODUCT),
    # over windows, or by a function of the user's
    "reduce": Facts(Law.WINDOW),
    "reduce_window": Facts(Law.WINDOW),
    "reduce_window_max": Facts(Law.WINDOW),
    "reduce_window_min": Facts(Law.WINDOW),
    "reduce_window_sum": Facts(Law.WINDOW),
    "select_and_gather_add": Facts(Law.WINDOW),
    "select_and_scatter_add": Facts(Law.WINDOW),
    # A = L U and its like
    "cholesky": NORMWISE,
    "eig": NORMWISE,
    "eigh": NORMWISE,
    "geqp3": NORMWISE,
    "geqrf": NORMWISE,
    "hessenberg": NORMWISE,
    "lu": NORMWISE,
    "qr": NORMWISE,
    "schur": NORMWISE,
    "svd": NORMWISE,
    "tridiagonal": NORMWISE,
    # of matrices, known element by element
    "cholesky_update": Facts(Law.ALGEBRA),
    "householder_product": Facts(Law.ALGEBRA),
    "ormqr": Facts(Law.ALGEBRA),
    "symmetric_product": Facts(Law.ALGEBRA),
    "triangular_solve": Facts(Law.ALGEBRA),
    "tridiagonal_solve": Facts(Law.ALGEBRA),
    "custom_linear_solve": Facts(Law.ALGEBRA, branches=True),
    # programs inside
    "cond": Facts(Law.CONTROL, branches=True),
    "scan": Facts(Law.CONTROL, branches=True, trips=Trips.COUNTED),
    "while": Facts(Law.CONTROL, branches=True, trips=Trips.OPEN),
    # random bits, which have no rule: keys are integers, and run natively
    "random_bits": DRAW,
    "random_gamma": DRAW,
    "rng_bit_generator": DRAW,
    "rng_uniform": DRAW,
    "threefry2x32": DRAW,
}


def named(fact: Callable[[Facts], bool]) -> frozenset[str]:
    """Names of the primitives of which this is true."""
    return frozenset(name for name, row in FACTS.items() if fact(row))


def functions(law: Law, facts: Mapping[str, Facts] = FACTS) -> dict[str, str]:
    """For each primitive of a law: what a domain calls its function."""
    return {name: row.function or name for name, row in facts.items() if row.law is law}


LOOPS = named(lambda facts: facts.trips is not None)
OPEN_LOOPS = named(lambda facts: facts.trips is Trips.OPEN)
