"""What the frameworks call the functions that terms are made of.

A name is followed through its import; then the last part of it says what it is: `jnp.log`, `tf.math.log`,
`torch.log`, `K.log` and the method `x.log()` are `log`.
"""

from __future__ import annotations

import re

# Modules whose functions compute elementwise, reduce, or build arrays; the longest first.
MODULES = (
    "jax.numpy.linalg", "jax.numpy", "jax.nn", "jax.lax", "jax.scipy.special", "jax.scipy.linalg", "jax.scipy.stats.norm",
    "numpy.linalg", "numpy", "scipy.special", "scipy.stats.norm", "scipy.linalg", "math", "cmath",
    "torch.nn.functional", "torch.special", "torch.linalg", "torch.distributions", "torch",
    "tensorflow.compat.v1.math", "tensorflow.compat.v1.nn", "tensorflow.compat.v1.linalg", "tensorflow.compat.v1",
    "tensorflow.math.special", "tensorflow.math", "tensorflow.nn", "tensorflow.linalg", "tensorflow.keras.backend",
    "tensorflow.keras.ops", "tensorflow.keras.activations", "tensorflow.experimental.numpy", "tensorflow",
    "keras.ops", "keras.backend", "keras.activations", "keras.src.ops", "autograd.numpy", "cupy",
)  # fmt: skip
FRAMEWORKS = frozenset(m.partition(".")[0] for m in MODULES)
# Frameworks that differentiate, and what is built on them; in a file that imports none of them only values count.
DIFFERENTIATE = FRAMEWORKS - {"numpy", "scipy", "math", "cmath", "cupy"} | {
    "flax", "equinox", "optax", "haiku", "pytorch_lightning", "lightning", "tensorflow_probability", "distrax", "numpyro",
}  # fmt: skip
_PACKAGES = re.compile(rf"\b(?:{'|'.join(sorted(FRAMEWORKS | DIFFERENTIATE))})\b")


_BLANKS = 200  # between a base and its power, at most


def computes(source: str) -> bool:
    """Does a source name a package whose functions are known here, or raise to a power? Of another there is nothing to tell."""
    named = any(name in source for name in FRAMEWORKS | DIFFERENTIATE)  # the fast way to a no
    return (named and _PACKAGES.search(source) is not None) or _raises(source)


def _raises(source: str) -> bool:
    """Do two stars stand behind a name, a number or a bracket? `f(**options)` is no power."""
    at = source.find("**")
    while at != -1:
        before = source[max(at - _BLANKS, 0) : at].rstrip()[-1:]
        if before.isalnum() or before in ("_", ")", "]"):
            return True
        at = source.find("**", at + 2)
    return False


# Other names of one function; a name that stands in no row is its own head.
_HEADS = {
    "abs": "absolute fabs",
    "arccos": "acos",
    "arcsin": "asin",
    "arctan2": "atan2",
    "arcsinh": "asinh",
    "arccosh": "acosh",
    "arctanh": "atanh",
    "cast": "astype to type",
    "clip": "clamp clip_by_value",
    "det": "matrix_determinant",
    "divide": "div truediv true_divide realdiv",
    "divide_no_nan": "div_no_nan",
    "eigh": "self_adjoint_eig",
    "eq": "equal",
    "ge": "greater_equal",
    "gammaln": "lgamma loggamma",
    "gt": "greater",
    "inv": "matrix_inverse",
    "le": "less_equal",
    "log_ndtr": "logcdf",
    "logsumexp": "reduce_logsumexp",
    "lt": "less",
    "log_sigmoid": "logsigmoid",
    "matmul": "dot mm bmm vdot inner einsum tensordot matvec outer",
    "max": "reduce_max amax nanmax",
    "maximum": "fmax",
    "mean": "reduce_mean nanmean average",
    "min": "reduce_min amin nanmin",
    "minimum": "fmin",
    "multiply": "mul",
    "ndtr": "cdf",
    "ne": "not_equal",
    "negative": "neg",
    "norm": "vector_norm global_norm",
    "power": "pow float_power",
    "prod": "reduce_prod",
    "sigmoid": "expit logistic",
    "std": "reduce_std nanstd",
    "subtract": "sub",
    "sum": "reduce_sum nansum",
    "var": "reduce_variance nanvar",
    "where": "select",
}
_ALIAS = {alias: head for head, names in _HEADS.items() for alias in names.split()}

# Calls of methods that are meant so on any array.
_METHODS = """
abs absolute acos acosh add arccos arccosh asin asinh astype atan atan2 atanh bfloat16 bmm clamp clamp_max
clamp_min clip clone contiguous copy cos cosh cpu cuda cumprod cumsum det detach diag diag_part diagonal digamma div div_
divide dot double erf erfc erfinv exp exp2 expand expand_as expm1 flatten float gather half index_select inverse
lgamma log log10
log1p log2 log_softmax logaddexp logdet logit logsumexp masked_fill matmul max mean min mm mul multiply neg
norm normalize numpy permute pow prod ravel reciprocal relu repeat reshape rsqrt sigmoid sign sin sinh slogdet
softmax softplus sqrt square squared_difference squeeze std sub subtract sum swapaxes t take_along_dim tan tanh to
transpose
type unsqueeze var view where
"""
METHODS = frozenset(_METHODS.split())
# What hands its first operand on: shapes, copies, devices, and what stops a gradient.
_SAME_VALUES = """
array as_tensor asarray atleast_1d block_until_ready broadcast_to clone contiguous convert_to_tensor copy cpu
cuda detach diag diag_part diagonal double expand expand_as expand_dims flatten float float32 float64 identity mT
moveaxis numpy permute ravel repeat reshape squeeze stop_gradient swapaxes t tensor tile transpose unsqueeze
view
"""
SAME_VALUES = frozenset(_SAME_VALUES.split())
_TRAILING = re.compile(r"(?<=[a-z0-9])_$")  # of what torch does in place


def head_of(bare: str) -> str:
    """The head of a function by the last part of its name."""
    plain = _TRAILING.sub("", bare)
    return _ALIAS.get(plain, plain)


# Uniform random numbers; what else random modules have is no function of its arguments: `random.gamma`.
DRAWS = ("rand", "uniform", "random_uniform", "rand_like", "random_sample", "random")


def bare_name(full: str) -> str | None:
    """The last part of a function's whole name, if it is one of the frameworks'."""
    if ".random." in full:
        last = full.rpartition(".")[2]
        return last if last in DRAWS else None
    for module in MODULES:
        if full.startswith(module + "."):
            return full[len(module) + 1 :].rpartition(".")[2]
    return None


LOW = {"float16": 11, "half": 11, "bfloat16": 8, "f16": 11, "bf16": 8}  # bits of the significand
FLOATS = LOW | {"float32": 24, "float": 24, "f32": 24, "float64": 53, "double": 53, "f64": 53}
DOUBLE = frozenset({"float64", "double", "f64", "complex128"})
SMALL = frozenset({"uint8", "int8", "uint16", "int16", "byte", "short"})
WHOLE = frozenset({"int", "int32", "int64", "long", "uint32", "uint64", "bool", "i32", "i64"})
DTYPES = frozenset(FLOATS) | DOUBLE | SMALL | WHOLE
