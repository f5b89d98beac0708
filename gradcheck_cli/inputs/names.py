"""Arguments that a parameter's name suggests: an axis, labels, a mask, a key, a size."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gradcheck_cli.inputs.signature import Fixed
from gradcheck_cli.inputs.stand_ins import integers, splits

_AXIS = frozenset({"axis", "axes", "dim"})
_COUNT = frozenset(
    {"n", "num", "k", "order", "degree", "num_classes", "n_iter", "iters", "steps", "size"}
)
_LABELS = frozenset(
    {
        "labels",
        "label",
        "targets",
        "target",
        "ind",
        "inds",
        "idx",
        "index",
        "indices",
        "segment_ids",
        "y",
    }
)
_MASK = frozenset({"mask", "masks", "where"})
# A question that each row answers, or the whole call.
_ASKS = re.compile(r"(?:is|has)_\w+")
_SIGN = re.compile(r"(?:\w+_)?(?:sign|signum|polarity|chirality|handedness|helicity)")
# What was done to each row, and is no number; of others (`fitted`, `observed`) only what a text does says it.
_DONE = re.compile(
    r"(?:\w+_)?(?:billed|masked|censored|treated|flagged|marked|selected|accepted|rejected|included|excluded|allowed|blocked"
    r"|banned|closed|infected|vaccinated|retired|ignored|skipped|muted|dropped|padded|visited|occupied|retained)"
)
_MAY_BE_DONE = re.compile(
    r"(?:\w+_)?(?:[a-z]{2,}ed|a?live|dead|(?:in)?valid|(?:in)?active|present|absent|available|visible|reachable|lit|open|shut|healthy)"
)
_OF_THE_CALL = re.compile(r"is_(?:causal|train\w*|eval\w*|infer\w*|test\w*)|has_(?:bias|aux|mask)")
_KEY = frozenset({"key", "rng", "prng", "prng_key", "rng_key", "seed_key"})
_SMALL = frozenset(
    {"tol", "tolerance", "atol", "rtol", "abs_tol", "rel_tol", "xtol", "ftol", "gtol", "rcond"}
)  # fmt: skip
_GUARDS = frozenset({"eps", "epsilon"})  # what is added to keep something from zero
_FREED = frozenset({"ddof", "correction", "delta_dof"})  # what is taken from a count, of a variance
_BITS = frozenset(
    {"bits", "bit", "bit_num", "num_bits", "n_bits", "nbits", "bitwidth", "bit_width"}
)
_LEFT_OUT = re.compile(
    r"(ignore|pad(ding)?|blank|unk|null|skip)_?(index|idx|id|label|value|token)?$"
)
# What a loss compares with, masks, tables of sines: as a rule it is data, and nobody learns it.
_DATA = re.compile(
    r"(?:\w+_)?(?:labels?|targets?|y_true|ground_truth|gt|events?|censor(?:ed|ing)?|observed|dones?|terminals?|masks?)"
    r"|(?:is|has)_\w+|(?:\w+_)?flags?"
    r"|(?:rope_|rotary_)?(?:cos|sin|freqs)(?:_(?:cis|table|cached?|emb))?"
)
_LEARNED = re.compile(
    r"(?!(?:sample|class|case|row|edge|pos|loss)_weights?\d*$|weight_decay$)(?:\w+_)?"
    r"(?:(?:weights?|bias(?:es)?)(?:_\w+)?|gains?|gamma|beta|scales?|kernels?|params?|parameters|theta|embeddings?|code_?books?|w|b)\d*"
    r"|[wb]_\w+"
)
_SCORES = re.compile(r"(?:\w+_)?(?:logits?|scores?|log_?probs?|pred(?:iction)?s?|y_pred)")
_CLASSES = re.compile(r"(?:\w+_)?(?:labels?|targets?|y_true|ground_truth)")
_PLACES = re.compile(r"(?:\w+_)?(?:ids|indices|indexes|inds|tokens)")
# Where each row of a ragged array begins, and where the last one ends.
_SPLITS = re.compile(r"(?:\w+_)?(?:row_splits|ind_?ptrs?|row_?ptrs?|crow_indices|cu_?seq_?len\w*)")
_WINDOW = re.compile(
    r"(?:\w+_)?(?:kernel|window|pool|frame|patch|filter|win)(?:_?(?:size|length|len|width|shape|dims|dimensions))?"
    r"|k|ksize|n_fft|fft_length|taps|block_size"
)
# Flags, and ways by their names, by which a derivative is meant to be another, or a function to hold for some inputs only.
_ANOTHER = re.compile(
    r"detach|stop|frozen|freeze|straight|(?:^|_)ste(?:$|_)|no_?grad|surrogate|(?:^|_)(?:hold|held|known)(?:$|_)|clip|assume"
)
_ANOTHER_WAY = re.compile(
    r"detach|stop_?grad|straight_?through|(?:^|_)ste(?:$|_)|no_?grad|surrogate"
)
# How many steps an iteration takes at most: it ends before, or nothing is to be learned of it.
_MOST_STEPS = re.compile(
    r"max(?:imum)?_?(?:num(?:ber)?_?(?:of_?)?)?(?:iter(?:s|ations?)?|steps?|sweeps?|evals?)"
)
# How many terms, nodes or trips a result is added up of: with more of them it comes to a limit, or it does not.
_TERMS = re.compile(
    r"(?:(?:n|num|number_of|max)_?)?(?:terms|nodes|iters|iterations|sweeps|intervals)"
)
_TOLERANCE = re.compile(r"(?:\w+_)?[ar]?tol(?:erance)?")
# How a text calls an axis of a kernel.
_EXTENT = re.compile(r"(?:k[hwdtxyz]|k_?\d|k(?:ernel|s|_)\w*|n?_?taps|window\w*)(?:_half)?")
# Arrays that slide over others.
_SLID = re.compile(r"(?:\w+_)?(?:kernels?|windows?|filters?|stencils?|psf|taps)\d?")
_SHAPE = re.compile(
    r"(?:\w+_)?(?:shape|sizes?|dims|perm|permutation|strides?|padding|pads?|dilations?|factors)"
)
_STEP = re.compile(r"(?:\w+_)?(?:strides?|hop|step|shift)(?:_?(?:size|length|len))?")
# What multiplies a whole loss, or sets its shape: one number, wherever nothing says that it is an array.
_SINGLE = re.compile(
    r"(?:\w+_)?(?:lam(?:bda)?|lmbda|l1|l2|reg(?:ul[a-z]*)?|penalty|weight_decay|wd|strength|coeff?(?:icient)?|temp(?:erature)?"
    r"|tau|eps(?:ilon)?|delta|margin|slope|momentum|decay|dt|step_?size|lr|learning_rate|samp(?:le|ling)_?rate)_?\d?"
    r"|log(?:it)?_(?:scale|temp(?:erature)?)|sr|fs"
)
# Beyond what a number is left out, cut off or held: as a rule few are, and a far lower one shows it.
_THRESHOLD = re.compile(
    r"(?:\w+_)?(?:n|num|k)?_?(?:sigmas?|stds?)_?(?:clip|cut)?|(?:\w+_)?(?:thresh(?:old)?|clip|cut_?off|limit|cap)(?:_\w+)?"
)
_FLAG = frozenset({"training", "train", "deterministic", "inplace", "keepdims", "causal"})
# Beside a small number, one that shows where it is added.
_NOT_SMALL = 2.0**-6
# Numbers for arguments of such names, the likeliest first.
_USUAL: tuple[tuple[frozenset[str], tuple[float | bool, ...]], ...] = (
    (_AXIS, (-1, 0)), (_FLAG, (False, True)), (_SMALL, (1e-6,)), (_GUARDS, (1e-6, _NOT_SMALL)), (_BITS, (8,)), (_FREED, (1, 0)),
)  # fmt: skip


def fixed_by_name(
    name: str, shape: tuple[int, ...], make_key: Callable[[], Any] | None
) -> list[Fixed]:
    """Non-float stand-ins that the name suggests, likeliest first."""
    source = f"the name `{name}`"
    lowered = name.lower().strip("_").removesuffix("_inv").removeprefix("inv_")
    if lowered in _KEY and make_key is not None:
        return [Fixed(make_key(), "key(0)", source)]
    if is_splits(name):
        return [splits(shape[:1] or (3,), 3, source)]
    if lowered in _LABELS or lowered.endswith(("_index", "_idx", "_ids", "_labels")):
        return [integers(shape, source), integers(shape[:1], source)]
    asks = _ASKS.fullmatch(lowered) is not None
    if lowered in _MASK or asks:
        size = int(np.prod(shape, dtype=int))
        pattern = (np.arange(size) % 3 != 1).reshape(shape)
        flags = [Fixed(flag, repr(flag), source) for flag in (False, True) if asks]
        rows = Fixed(pattern, f"bool{list(shape)}", source)
        return [*flags, rows] if _OF_THE_CALL.fullmatch(lowered) else [rows, *flags]
    return [Fixed(value, repr(value), source) for value in _plain_values(lowered)]


def _plain_values(lowered: str) -> tuple[float | bool, ...]:
    """Python numbers for an axis, a switch, a tolerance, a size."""
    usual = next((numbers for names, numbers in _USUAL if lowered in names), None)
    if usual is not None:
        return usual
    if _LAST_OF_A_ROW.fullmatch(lowered):
        return (3, 2)
    if lowered.startswith("max") or lowered.endswith("_max"):
        return (200, 100) if ends_iterations(lowered) else _large(lowered)
    if lowered in _COUNT or lowered.startswith(("num_", "n_")):
        return (12, 13) if counts_terms(lowered) else (3, 2)
    if is_window(lowered) or is_step(lowered):
        return (2, 3, 1)
    return ()


_HOW_MANY = re.compile(r"(?:\w+_)?counts?|(?:n|num|nb)_\w+|degrees?|multiplicit(?:y|ies)")
# The last of what is counted or summed one by one: a lag, an order.
_LAST_OF_A_ROW = re.compile(
    r"max_?(?:lags?|orders?|degrees?|shifts?|offsets?|disp(?:arity|lacement)?|hops?|depth|levels?|n|l|m|k|j|power|harmonics?)"
    r"|(?:lag|order|degree|shift|n|l|m|k|j)_?max"
)


def _large(lowered: str) -> tuple[float, ...]:
    """A bound that nothing reaches."""
    return (1000.0, 1000) if "max_" in lowered or "_max" in lowered else ()


def is_guard(name: str) -> bool:
    """Does the name say that the number only keeps something from zero?"""
    return name.lower().strip("_") in _GUARDS


def are_places(name: str) -> bool:
    """Does the name say that the argument is a table of places: `ids`, `token_indices`?"""
    return _PLACES.fullmatch(name.lower().strip("_")) is not None


def leaves_out(name: str) -> bool:
    """Does the name say that the argument is the integer whose rows do not count?"""
    return _LEFT_OUT.search(name.lower()) is not None


def is_data(name: str) -> bool:
    """Does the name say that the argument is given with the data: labels, targets, masks?"""
    return _DATA.fullmatch(name.lower().strip("_")) is not None


def is_learned(name: str) -> bool:
    """Does the name say that the argument is what a model learns: a weight, a bias?"""
    return _LEARNED.fullmatch(name.lower().strip("_")) is not None


def weighs_classes(name: str, names: Iterable[str]) -> bool:
    """Is a `weight` beside scores and labels what a loss weighs its classes by, which nobody learns? A head has a bias."""
    beside = set(names)
    scored = any(map(_SCORES.fullmatch, beside)) and any(map(_CLASSES.fullmatch, beside))
    return name in ("weight", "weights") and scored and "bias" not in beside


def is_single(name: str) -> bool:
    """Does the name say that the argument is one number, as the weight of a penalty is?"""
    return _SINGLE.fullmatch(name.lower().strip("_")) is not None


def is_threshold(name: str) -> bool:
    """Does the name say that the argument is where numbers are cut off, `nsigma` or `clip_value`?"""
    return _THRESHOLD.fullmatch(name.lower().strip("_")) is not None


def ends_iterations(name: str) -> bool:
    """Does the name say that the argument is after how many steps an iteration is given up?"""
    return _MOST_STEPS.fullmatch(name.lower().strip("_")) is not None


def counts_terms(name: str) -> bool:
    """Does the name say that the argument is how many terms a result is added up of?"""
    return _TERMS.fullmatch(name.lower().strip("_")) is not None


def is_shape(name: str) -> bool:
    """Does the name say the axes of something, rather than numbers of their own?"""
    return _SHAPE.fullmatch(name.lower()) is not None


def is_splits(name: str) -> bool:
    """Does the name say that the argument is where the rows of a ragged array begin and end?"""
    return _SPLITS.fullmatch(name.lower().strip("_")) is not None


def is_window(name: str) -> bool:
    """Does the name say that the argument is a window that slides, or how long one is?"""
    return _WINDOW.fullmatch(name.lower().strip("_")) is not None


def is_step(name: str) -> bool:
    """Does the name say that the argument is how far a window slides at once?"""
    return _STEP.fullmatch(name.lower().strip("_")) is not None


def is_tolerance(name: str) -> bool:
    """Does the name say that the argument is how near to its end an iteration stops?"""
    return _TOLERANCE.fullmatch(name.lower().strip("_")) is not None


def means_another(name: str) -> bool:
    """Is it a flag or a way by which the derivative is meant to be another: `detached`, `STRAIGHT_THROUGH`?"""
    return _ANOTHER.search(name.lower()) is not None


def names_another(name: str) -> bool:
    """Does a word of a choice name another derivative: `STRAIGHT_THROUGH`? `FROZEN` and `CLIP` may be phases and edges."""
    return _ANOTHER_WAY.search(name.lower()) is not None


def is_extent(name: str) -> bool:
    """Does a text call the axis of a kernel or a window so, which is short beside what it slides over?"""
    return _EXTENT.fullmatch(name.lower()) is not None


def is_slid(name: str) -> bool:
    """Does the name say that the array is one that slides over another, so that half of it is its centre?"""
    return _SLID.fullmatch(name.lower().strip("_")) is not None


def is_axis(name: str) -> bool:
    """Does the name say that the argument chooses an axis?"""
    return name.lower().strip("_") in _AXIS


def says_a_sign(name: str) -> bool:
    """Does the name say which of two ways: `polarity`, `sign`?"""
    return _SIGN.fullmatch(name.lower().strip("_")) is not None


def counts_bits(name: str) -> bool:
    """Does the name say of how many bits a number is: `bits`, `weight_bits`?"""
    lowered = name.lower().strip("_")
    return lowered in _BITS or lowered.endswith("_bits")


def says_how_many(name: str) -> bool:
    """Does the name say how many there are of something: `counts`, `n_seen`?"""
    return _HOW_MANY.fullmatch(name.lower().strip("_")) is not None


def tells_of_each(name: str) -> bool:
    """Is the name what each row is or is not: `billed`, `censored`, `is_open`?"""
    lowered = name.lower().strip("_")
    asks = _ASKS.fullmatch(lowered) and not _OF_THE_CALL.fullmatch(lowered)
    return bool(asks) or _DONE.fullmatch(lowered) is not None


def may_tell_of_each(name: str) -> bool:
    """Might the name be what each row is or is not, or as well a number: `fitted`, `observed`, `alive`?"""
    return _MAY_BE_DONE.fullmatch(name.lower().strip("_")) is not None


def says_not_a_float(name: str) -> bool:
    """A mask is boolean, an axis an integer, whatever else the function would accept."""
    lowered = name.lower().strip("_")
    return lowered in _MASK | _KEY | _AXIS | _FLAG or _ASKS.fullmatch(lowered) is not None
