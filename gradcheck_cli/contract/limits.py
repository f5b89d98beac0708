"""Every number that a verdict hangs on: how big it is, of what, which section of SEMANTICS asks for it, and why so big.

Formula and linearity are decided over the reals: no row below lets a wrong formula pass. What floats
are forgiven is measured at each point (A2); the rows say how. Rooms from the numbers up to the worker
need these, so they stand below all of them. `docs/limits.md` is made from this file by
`scripts/limits`, and the trials that can be run again are in `benchmarks/limits.py`. Long because it is one table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T", int, float, tuple[int, ...], tuple[float, ...])


@dataclass(frozen=True, slots=True)
class Limit(Generic[T]):
    """A number, its unit, its section of SEMANTICS (none: a matter of cost or of words), and its trial."""

    value: T
    unit: str
    section: str
    trial: str


def half_of_the_digits(eps: float) -> float:
    """√eps: the relative error above which a float has lost more than half of its digits."""
    return math.sqrt(eps)


# -- A: floats beside the truth ---------------------------------------------------------

MOVE_ULP = Limit(
    4, "ulp of each input", "A2",
    "Convention: an input is itself the result of a few roundings. Forgives relu(3x − 1) at float32(⅓), "
    "and floor(10x) at the 78 of 199 grid points at which floats and reals fall on two sides.",
)  # fmt: skip
MOVES = Limit(
    (8, 32), "random moves of a row", "A2",
    "benchmarks/limits.py `margin`: 8 moves of a linear function reach 80 % of its range in the median, "
    "32 reach 95 %; the 32 are made only where 8 leave a question.",
)  # fmt: skip
MARGIN = Limit(
    0.25, "of the range, on each side", "A2",
    "benchmarks/limits.py `margin`: with it, 32 moves cover 112 % of a linear function's range in the "
    "worst of a thousand draws; without it 75 %, and a right float would fail now and then.",
)  # fmt: skip
JUMP = Limit(
    16.0, "times the change that the gradients there explain", "A2",
    "Softmax of logits near 1e8: two are equal in floats and 50 apart a few ulp away, where every gradient is "
    "0; between them it is as large as the value's change. A smooth function's change is explained by "
    "its gradients to a factor of two.",
)  # fmt: skip
UNITS = Limit(
    1.0, "units of a number that a float still tells apart", "A2",
    "Convention: an exponential or a sine of a number above 1/eps (8.4e6 in float32) is luck. The rest of large terms "
    "that a saturated softmax leaves there (1.2 where the truth is 0) every program has.",
)  # fmt: skip
ROUNDING_ULP = Limit(
    4, "eps of the number", "A2",
    "Convention: half an ulp for each of the handful of operations that no move of an input shows.",
)  # fmt: skip
FLUSH = Limit(
    2**10, "smallest normal numbers", "A5",
    "Convention: subnormals on the way act as 0 (XLA on the CPU flushes them), so an absolute error of "
    "this size says nothing of the rule.",
)  # fmt: skip
LAST_DIGITS = Limit(
    2**4, "smallest subnormal numbers", "A5",
    "Convention, for float16, which keeps subnormals everywhere: there an underflow takes half of the last digit, in "
    "each of a handful of operations.",
)  # fmt: skip
TINY_AT_ONCE = Limit(
    1e-9, "the size below which an argument is tiny", "A5",
    "The reach turned over. One argument alone may be as small as 2√tiny; a product of three such numbers "
    "underflows in whatever rule multiplies them, and no model meets them at once.",
)  # fmt: skip
HEADROOM = Limit(
    2.0**-4, "of the largest number", "A5",
    "Convention: a derivative may overflow before a cotangent below 1 brings it back; the base "
    "cotangents go down to 1/4.",
)  # fmt: skip
EVERYDAY = Limit(
    (1e-4, 1e4), "the sizes of everyday numbers", "A4",
    "Convention: what the function or autodiff does alike beyond them is a note, where several arguments have each its own "
    "unit (a range of 1e-6 metres to the fourth power); in float64 from half of its digits on. Tried on the right rules of benchmarks/field that were called unstable.",
)  # fmt: skip
EXPONENT = Limit(
    50.0, "the size up to which an exponent is an everyday one", "A4",
    "Convention: what the function or autodiff does alike where an argument is raised to a larger one is a note, unless somebody "
    "says that it may be so large (`x ** power` at a power of 100).",
)  # fmt: skip
MODERATE = Limit(
    16.0, "the size up to which a number is moderate", "A4",
    "Convention: what several arguments bring about together is a note where one of them is larger; "
    "0/0 where two moderate ones are equal stays an error.",
)  # fmt: skip
WIDE = Limit(
    1e30, "the largest number of a format whose range nobody fills", "A5",
    "float32 and bfloat16 end at 3.4e38, float16 at 65504, which sums of products reach.",
)  # fmt: skip
NEAR_THE_END = Limit(
    0.875, "of the exponents", "A5",
    "Convention: 5e33 in float32; not in float16, whose range is filled. What a truth so large is made of is beyond the range "
    "somewhere; nobody's model is well there. (|stress/strength|^19 · rate in float32: a truth of 2e37.)",
)  # fmt: skip
HALF_THE_DIGITS = Limit(
    0.5, "of the dtype's digits (√eps)", "A4, F",
    "Tried on 23 scalar rules against 120 digits: inside their domains no right rule had an error, "
    "every rule that breaks where it matters did.",
)  # fmt: skip
MUCH_WORSE = Limit(
    16, "times as far off", "A4",
    "Convention: where neither the rule nor autodiff has a right digit, one that is less far off than this is no better. "
    "Seen at a softmax whose logits are 1e8: 3.0 and 1.2, where the truth is 0.6.",
)  # fmt: skip
WARNING_EPS = Limit(
    2**6, "eps at the local scale", "A4",
    "The 23 rules again: what was lost beyond what the rounding of the inputs explains, and below this were tails (saturated sigmoids).",
)  # fmt: skip
SCALE_FACTORS = Limit(
    (1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 3 / 2, 2), "times the input", "A3",
    "Convention: nearby, and on the same side of 0, since a mirrored scale hides one-sided faults.",
)  # fmt: skip
DWARFED = Limit(
    2.0**-8, "of the scale of all arguments", "A3, F",
    "Convention: an argument whose gradients are so much smaller, at a point and mostly, has a unit of its own (a volume hangs on a "
    "pressure by 1e-12, on a temperature by 1e-7), and its formula is measured by them.",
)  # fmt: skip
SPARE_BITS = Limit(
    16, "bits beyond those of the dtype", "A2, G",
    "Convention: the truth's own error is 2⁻¹⁶ ulp. A truth in floats must be so much finer than what "
    "it judges, or digits are not judged.",
)  # fmt: skip
SWEEP_REACH_ULP = Limit(
    5.0, "ulp of the input", "A2",
    "MOVE_ULP with its margin: what a walk would forgive a single float, a whole block is forgiven at once.",
)  # fmt: skip
SWEEP_OPEN_PART = Limit(
    2.0**-8, "of the rounding that is forgiven", "A2",
    "Convention: so much of it may be the truth's own doubt. What is wider is asked again in balls.",
)  # fmt: skip

# -- B and E: formulas, kinks, holes, poles ---------------------------------------------

FORMULA_EPS = Limit(
    4, "eps at the local scale", "A5",
    "A gap between two formulas that no float of the dtype shows. Not a tolerance of the comparison, "
    "which is exact: the gap is there, and is no finding.",
)  # fmt: skip
CONSTANTS_REACH = Limit(
    64, "times as far as constants at the ends of their half ulp move it", "B2",
    "A gap that balls around rounded constants excuse is one of the formula where it is larger: for x·(1/3)·(1/7)·21 it is "
    "0.8 times as large, for a wrong gradient of a root after sixty written steps of Newton's method 10⁶ times.",
)  # fmt: skip
NUDGES = Limit(
    (2000, 4000), "−log₂ of the distance from the point", "E2",
    "Two, since one nudge takes √x′ = 6e29 for a limit. benchmarks/limits.py `nudges`: those of a "
    "removable hole agree to 2⁻⁴⁰⁰⁰, of 1 + √x to 2⁻¹⁰⁰⁰, of 1 + x^0.2 to 2⁻⁴⁰⁰.",
)  # fmt: skip
LIMIT_BITS = Limit(
    300, "bits in which both nudges agree", "E2",
    "Below the 400 of 1 + x^0.2, above the 0 of log x, which doubles.",
)  # fmt: skip
DECAY_BITS = Limit(
    100, "bits by which the nearer nudge is smaller", "E2",
    "benchmarks/limits.py `nudges`: x^0.5 shrinks by 1000 bits, x^0.1 by 200, x^0.05 by 100. "
    "A slower power is `undecided`, never wrong.",
)  # fmt: skip
POLE_GROWTH = Limit(
    1.5, "times as large at the nearer nudge", "E2",
    "benchmarks/limits.py `nudges`: log x grows by 2. A slower pole (log log) is `undecided`, never wrong.",
)  # fmt: skip
VANISHING_BITS = Limit(
    1200, "−log₂ of what a nudge cannot tell from 0", "E2",
    "Above the 2⁻²⁰⁰⁰ of the nudge itself, below the 2⁻¹⁰⁷⁴ of any float: no dtype could show it.",
)  # fmt: skip
SAME_LIMIT_BITS = Limit(
    100, "bits in which a limit and a formula agree", "E2",
    "A limit is known to 300 bits and a formula beside it to those of its walk; 100 are more than any "
    "dtype has.",
)  # fmt: skip
DIRECTIONS = Limit(
    8, "directions of a nudge", "E3",
    "`For each of 8 or more directions`: max of three equal numbers has a unit vector on each side.",
)  # fmt: skip
MOST_TIED = Limit(
    4, "elements at whose ties a rule is judged", "E3",
    "Of more, a few directions miss some sides of a kink and would call it a limit; such ties are not "
    "judged.",
)  # fmt: skip
DIRECTIONS_OF_MANY = Limit(
    6, "directions of a nudge of more elements", "E2", "Convention: only holes are asked about there.",
)  # fmt: skip
MORE_WAYS = Limit(
    3, "moves beside the one way into the domain", "E2",
    "One way in says nothing of all sides: with three more, a limit that hangs on the way shows.",
)  # fmt: skip
BESIDE_A_WAY = Limit(
    1 / 16, "part by which these differ from it at most", "E2",
    "Convention: small enough to stay in a domain that is open there, large enough to show.",
)  # fmt: skip
ASIDE = Limit(
    2.0**-60, "of the input", "E2",
    "Convention: nearer than two floats of any dtype, so that a mask or a tie is left and nothing else "
    "changes.",
)  # fmt: skip
ASIDE_BITS = Limit(
    256, "−log₂ of the distance from a tie", "E3",
    "Convention: so near that each piece has the gradient that it has at the tie, in 100 bits and more.",
)  # fmt: skip
TIED_DIRECTIONS = Limit(
    3, "directions", "E3", "Each has both sides: with three, a third piece shows in most cases."
)
TIED_OUTPUTS = Limit(8, "outputs, each alone", "E3", "Convention, a matter of cost.")
TIED_ROWS = Limit(4, "rows with a tied pair", "E3", "Convention, a matter of cost.")
PIECES_BITS = Limit(
    16, "bits in which the pieces of an approximation meet", "E3",
    "Convention: at the seam of two polynomials their slopes are a kink that nobody means. Only a note "
    "hangs on it.",
)  # fmt: skip
JUMP_BITS = Limit(
    100, "−log₂ of a jump of the value", "E3",
    "As SAME_LIMIT_BITS: a value that differs from its neighbours by less is theirs.",
)  # fmt: skip
RADIUS = Limit(
    1e-3, "distance from a pole or kink", "F",
    "Convention of SEMANTICS, for x/(‖x‖ + 1e-6): where the formula leaves the truth only so near, it "
    "is a note that names the radius. The one limit that lets a formula deviate by more than √eps.",
)  # fmt: skip
EVERYWHERE = Limit(
    0.9, "of the probes", "",
    "Convention: above it the message does not say `at some inputs`. No verdict hangs on it.",
)  # fmt: skip

# -- F: the third opinion ---------------------------------------------------------------

SEGMENTS = Limit(
    (2.0**-12, 2.0**-9, 2.0**-6, 2.0**-4, 2.0**-2), "of the input's size", "F",
    "Convention: three that agree are needed, up to five are tried, from below an iteration's tolerance "
    "to where most functions bend.",
)  # fmt: skip
GROWTH = Limit(
    8, "times, from the first segment to the last", "F",
    "benchmarks/limits.py `integral`: residuals of rules that are off by 10 %, 1 % or 0.01 % grow by "
    "210 and more, that of a right rule of a bisection stopped at 2⁻¹⁰ by 7.6 at most. Right rules of "
    "smooth functions stay at 2.5e-13 of the change.",
)  # fmt: skip
NODES = Limit(
    24, "Gauss nodes in each of four panels (of fewer first, in loops)", "F",
    "benchmarks/limits.py `integral`: the integral's own error is 2.5e-13 of the change, far below √eps.",
)  # fmt: skip
OPINIONS = Limit(
    3, "points at which the integral is taken", "F",
    "Convention, a matter of cost: each takes up to 500 walks of the rule. One `wrong` is enough.",
)  # fmt: skip
ORDINARY = Limit(
    (1e-2, 1e2), "size of a point", "F", "Convention: points within are asked first.",
)  # fmt: skip

STANDS_FOR_INFINITY = Limit(
    1e15, "size of an argument", "F",
    "Convention: what a formula has wrong only beyond it is a note. Numbers that stand for infinity, as the -1e30 of "
    "masked scores does, are exceeded there, and are none any more.",
)  # fmt: skip
CHOSEN_INFINITY = Limit(
    1e6, "size of a constant", "F",
    "Convention: a constant of such a size that only stands beside what is computed, where one of both is chosen, stands for "
    "infinity, as the -1e9 of masked scores does. Where what is computed is as large, and the formula is right as soon as the "
    "constant is 2^200 times as large, what it has wrong is a note.",
)  # fmt: skip

OWN_SLOPE = Limit(
    0.25, "of the truth", "F",
    "Convention: a rule that is further off where the function itself moves as the truth says, within a quarter "
    "of that, is wrong there, however small the region. Approximations by tables or polynomials are nearer.",
)  # fmt: skip
OWN_STEPS = Limit(
    (2.0**-60, 2.0**-70), "steps along which the function is asked", "F",
    "Convention: far below the segments, and inside any region that a float's neighbours can tell apart.",
)  # fmt: skip

# -- G: float64 and differences in the place of the reals -------------------------------

FLOAT64_ULP = Limit(
    16, "ulp of float64 that inputs are moved by", "G",
    "Convention: more than a program's own rounding, so that what it amplifies becomes the radius.",
)  # fmt: skip
FLOAT64_MOVES = Limit(4, "moves of a row", "G", "Convention, a matter of cost: each is a run.")
DOUBTED_BITS = Limit(
    10, "last bits of a float64 result", "G",
    "benchmarks/limits.py `float64`: values and gradients of nine functions lose 4.5 bits at most.",
)  # fmt: skip
FLOAT64_SIDES = Limit(
    2.0**-28, "of the input, to either side", "G",
    "Convention: half of float64's digits, where a smooth gradient hardly changes and is not yet noise.",
)  # fmt: skip
FLOAT64_KINK = Limit(
    2.0**-10, "relative change of a gradient between the sides", "G",
    "benchmarks/limits.py `sides`: smooth functions 6.0e-7, tanh(1000(x − 1)) 2.3e-5; slopes 0.99 and 1 "
    "beside each other 1.0e-2. What is taken for a kink is not judged.",
)  # fmt: skip
FIRST_STEP = Limit(
    2.0**-3, "of the input; each next step is a quarter of it", "G",
    "Convention: Richardson's rule finds the step by itself; the three that agree best count.",
)  # fmt: skip
DIFFERENCES_TRUST = Limit(
    8.0, "times the disagreement of neighbouring steps", "G",
    "Convention: that is the radius of a slope. Three steps agree by chance more seldom than two.",
)  # fmt: skip
DIFFERENCES_KINK = Limit(
    2.0**-3, "relative gap of the slopes on two sides", "G",
    "benchmarks/limits.py `differences`: none of 81 points of smooth functions is taken for a kink; "
    "slopes 0.85 and 1 are one, 0.9 and 1 are not told apart.",
)  # fmt: skip
DIFFERENCES_ROWS = Limit(
    30_000, "values of a function for all points", "G",
    "Convention, a matter of cost: half a minute at a millisecond a call. A point takes some 34 values for "
    "each number in it; of more points than that allows, as many are left out evenly and are `undecided`.",
)  # fmt: skip
QUITE_ANOTHER = Limit(
    0.5, "relative gap of a value in float64", "G",
    "benchmarks/limits.py `apart`: iterations that converge differ by 2.8e-7 at most, 100 steps of "
    "4y(1 − y) by 0.66 in the median. Such points are left open, never wrong.",
)  # fmt: skip
SETTLED = Limit(
    2.0**-20, "relative gap after more trips of a loop", "B6",
    "Convention: float64 has 32 bits more, of which a derivative through 300 trips may lose some. Decides "
    "whether there is a limit, and whether a rule is its derivative; 0.9 times the right one is far apart.",
)  # fmt: skip
NEAR_ITS_LIMIT = Limit(
    2.0**-8, "relative gap of a value and its limit", "B6",
    "Convention: iterations that users stop at 1e-3 are at their limit; ten steps of an integrator are not.",
)  # fmt: skip
SEEKING = Limit(
    0.25, "share of the values at ordinary points", "B6",
    "Convention: a root of a positive number has no limit at half of the points.",
)  # fmt: skip
FEWEST_TRIPS = Limit(
    8, "trips of a loop", "B6",
    "Convention: fewer may be layers or terms. What stops after so few, and is not at its limit by then, is a program "
    "of so many steps: the derivative of the limit is none of its own.",
)  # fmt: skip
UNTRUE_VALUE = Limit(
    2.0**-16, "relative gap", "G",
    "Convention: values of a call, in its own floats and in float64, that are further than this from those of its program, "
    "at most ordinary points, are another function's. Decides that a trace is not believed, never what is right.",
)  # fmt: skip
UNTRUE_TRACE = Limit(
    2.0**-6, "relative gap", "G",
    "Convention: floats within 1/64 of the truth, of a rule whose program over the reals is more than 1/64 "
    "away, are no accident. Decides that a trace is not believed, never what is right.",
)  # fmt: skip
TAME = Limit(
    8.0, "size of each number of a point", "G",
    "Convention: numbers at which no value loses all its digits. There a trace is held to the call.",
)  # fmt: skip

# -- other calls, intents, records ------------------------------------------------------

SECOND_ORDER = Limit(
    2.0**-12, "of the largest number", "G",
    "Half of a float32's digits. benchmarks/limits.py `calls`: products in another order differ by "
    "7.2e-7 of the largest. Decides whether a second derivative is worth a look.",
)  # fmt: skip
ROW_ALONE = Limit(
    2.0**-16, "of each number", "A1",
    "benchmarks/limits.py `calls`: elementwise functions give the same alone. Cancelling rows of "
    "products do not (1.6e-3): then each row is run alone, which costs time and no verdict.",
)  # fmt: skip
SIGMAS = Limit(
    5.0, "standard errors of a mean", "G",
    "benchmarks/limits.py `sigmas`: of 100,000 right estimators 2 are beyond with 48 keys (409 beyond "
    "3), none with 384; a bias of one standard deviation is seen in 96 % and in all.",
)  # fmt: skip
ESTIMATOR_KEYS = Limit((48, 384), "keys", "G", "As SIGMAS; the more where the fewer are too noisy.")
ESTIMATOR_STEP = Limit(
    2.0**-4, "of the argument's size", "G",
    "Convention: half of it tells how far the difference itself is off, and that is allowed for.",
)  # fmt: skip
ESTIMATOR_TELLING = Limit(
    0.5, "of the slope", "G", "Convention: an interval that is wider says nothing, and says so.",
)  # fmt: skip
GAUGE_TELLING = Limit(
    2.0**-30, "of the largest gradient", "G",
    "Convention: balls wider than that could overlap by accident; 30 bits make it one in a billion.",
)  # fmt: skip
SPHERE = Limit(
    1e-3, "of unit length", "G",
    "Convention: only so near to the sphere tangency is asked for; a float16 unit vector is off by some 5e-4.",
)  # fmt: skip
STRUCTURE = Limit(
    1e-3, "of the sums of recorded rows", "",
    "benchmarks/limits.py `recorded`: softmax rows sum to 1 within 2.9e-4 in float16 (2.4e-3 in "
    "bfloat16: not seen); two rows of random numbers do in 1.6e-5 of cases. A guess of inputs only.",
)  # fmt: skip

# -- explanations -----------------------------------------------------------------------

SCREEN = Limit(
    2.0**-8, "of the largest component", "",
    "Convention: a change of the rule's text that misses by more is not walked over the reals, where "
    "it is decided. Coarser than the rounding of bfloat16.",
)  # fmt: skip
ROUNDINGS = Limit(
    2, "bits of a float", "",
    "Convention: where floats show a fault, a change of the rule's text may miss the truth by so little of an array's "
    "largest component: constants that it names are rounded, and functions of a library are, too. `--fix` judges the file again.",
)  # fmt: skip
LEAST_LOSS = Limit(
    4.0, "bits that one step loses", "",
    "Convention: steps that lose less are not looked at for the cause.",
)  # fmt: skip

# -- C: where cgcheck stops asking, and says so -----------------------------------------

START_BITS = Limit(
    128, "bits of a ball, doubled while undecided", "C3", "Convention: enough for most."
)
MOST_BITS = Limit(
    8192, "bits of a ball", "C3",
    "SEMANTICS: beyond, rows are walked without radii at two precisions, as `multiprecision`.",
)  # fmt: skip
TIE_BITS = Limit(
    2048, "bits that a doubt survives", "C2", "Convention: then it is an exact tie in disguise.",
)  # fmt: skip
FLOAT_TRIPS = Limit(
    256, "trips of a loop that waits for a float", "B4",
    "Convention: what runs longer over the reals waits for what never comes (Newton until equality).",
)  # fmt: skip
COUNTED_TRIPS = Limit(4096, "trips of a loop that counts", "B4", "Convention, a matter of cost.")
WALK_STEPS = Limit(
    60_000_000, "steps of flint for one program", "C3", "About a minute at 1 to 2 µs a step.",
)  # fmt: skip
DEAR_STEPS = Limit(
    100_000, "steps of flint for a row", "C3", "A tenth of a second: such rows are few."
)
PART_STEPS = Limit(
    40_000_000, "steps of flint for all rows of a gradient", "C3",
    "About a minute: beyond, every component is looked at in float64 balls and some are walked.",
)  # fmt: skip
PART_BALLS = Limit(
    2_000_000, "components that are kept as balls", "C3", "About a quarter of a gigabyte."
)
PART_FLOATS = Limit(50_000_000, "floats of all probes", "C3", "400 MB a mode, in float64.")
PART_SUSPECT = Limit(
    2.0**-12, "relative error of a component", "",
    "Half of a float32's digits: such a component is looked at even if it is small beside others. "
    "Chooses a sample; what is chosen is judged like any.",
)  # fmt: skip
PART_EACH = Limit(
    16, "components: the worst of each argument, and as many at random", "",
    "Convention, a matter of cost.",
)  # fmt: skip

# -- H: what the inputs could have shown ------------------------------------------------

CHANGE_SHOWN = Limit(
    1e-3, "relative change of a gradient", "H",
    "What F calls an approximation (√eps) is below: such a change is an error wherever it shows.",
)  # fmt: skip
CHANGE_FORGIVEN = Limit(
    1e-7, "relative change of a gradient", "H", "Convention: below, a change is taken for equal."
)
CHANGE_STEP = Limit(
    2.0**-17, "of an argument", "H", "Central differences in float64 are then right to ten digits."
)
CHANGE_NOISE = Limit(
    1e-4, "relative error of differences", "H",
    "Rows at which differences are no better (a kink nearby, a stopped gradient) are not asked.",
)  # fmt: skip
CHANGE_ROUNDING = Limit(
    1e-9, "of the value", "H", "What float64 differences lose, with a digit to spare."
)
CHANGE_ROWS = Limit(24, "judged rows", "H", "Convention, a matter of cost.")
CHANGES_OF_PRIMAL = Limit(34, "changes", "H", "Convention, a matter of cost: 60 for a signature.")
CHANGES_OF_RULE = Limit(26, "changes", "H", "Convention, a matter of cost: 60 for a signature.")
CHANGE_SECONDS = Limit(
    0.5, "seconds, as estimated from the size of the program", "H",
    "Convention, a matter of cost: of what takes longer, fewer changes are tried.",
)  # fmt: skip
CHANGE_POINTS = Limit(32, "random points", "H", "What is equal there too is equal so far.")

# -- seeds: of no meaning, fixed so that a run can be repeated --------------------------

BEYOND_SEED = Limit(1, "seed", "A5", "The numbers of points beyond reach.")
NUDGE_SEED = Limit(12345, "seed", "E2", "The generic directions of a nudge.")
FLOAT64_SEED = Limit(2024, "seed", "G", "The moves of inputs in float64.")
SIDES_SEED = Limit(2025, "seed", "G", "The two sides of a point in float64.")
JOINT_SEED = Limit(2026, "seed", "G", "The joint direction of differences.")
CHANGE_SEED = Limit(
    20, "seed", "H", "Directions and random points at which changes are looked for."
)
DRAWS_SEED = Limit(2026, "seed", "B3", "Where each call's own draws start.")
