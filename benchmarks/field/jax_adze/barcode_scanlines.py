"""Model-based reading of EAN-13 barcodes from blurred scan lines.

Camera images of curved or badly printed labels are read by synthesis: bar
edges are proposed, the scan line they would give is rendered with the blur of
the optics, and edges and blur are refined by gradient descent on the misfit.
Edge positions are then turned to module widths, widths to digit evidence, and
the evidence of the six left digits to the hidden first digit, which EAN-13
codes only by the parity pattern of those six.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

MODULES_PER_SYMBOL = 95
MODULES_PER_DIGIT = 7
NARROWEST, WIDEST = 1.0, 4.0
SQRT_HALF = 0.7071067811865476
INV_SQRT_TWO_PI = 0.3989422804014327

# Parity of left digits 1..6 for first digit 0..9; 0 is set L, 1 is set G.
PARITY_PATTERNS = np.array(
    [
        [0, 0, 0, 0, 0, 0],
        [0, 0, 1, 0, 1, 1],
        [0, 0, 1, 1, 0, 1],
        [0, 0, 1, 1, 1, 0],
        [0, 1, 0, 0, 1, 1],
        [0, 1, 1, 0, 0, 1],
        [0, 1, 1, 1, 0, 0],
        [0, 1, 0, 1, 0, 1],
        [0, 1, 0, 1, 1, 0],
        [0, 1, 1, 0, 1, 0],
    ],
    dtype=np.int32,
)

# Widths (space, bar, space, bar) of set L; set G has them in reverse order.
WIDTHS_L = np.array(
    [
        [3, 2, 1, 1],
        [2, 2, 2, 1],
        [2, 1, 2, 2],
        [1, 4, 1, 1],
        [1, 1, 3, 2],
        [1, 2, 3, 1],
        [1, 1, 1, 4],
        [1, 3, 1, 2],
        [1, 2, 1, 3],
        [3, 1, 1, 2],
    ],
    dtype=np.float64,
)
WIDTHS_G = WIDTHS_L[:, ::-1].copy()


class ScanFit(NamedTuple):
    """State refined against the observed lines."""

    edges: jnp.ndarray      # (lines, edges) pixels, increasing
    blur: jnp.ndarray       # (lines,) pixels
    contrast: jnp.ndarray   # (edges,) signed step of reflectance


# -----------------------------------------------------------------------------
# Rendering
# -----------------------------------------------------------------------------


def _normal_cdf(u):
    return 0.5 * (1.0 + jax.lax.erf(u * SQRT_HALF))


@jax.custom_jvp
def blurred_bars(edges, contrast, blur, pixels):
    """Reflectance along scan lines: a sum of Gaussian-blurred steps.

    edges : (lines, edges)
    contrast : (edges,), shared by all lines
    blur : (lines,), standard deviation of the point spread
    pixels : (samples,)
    returns (lines, samples)
    """
    u = (pixels[None, None, :] - edges[:, :, None]) / blur[:, None, None]
    return jnp.einsum("e,les->ls", contrast, _normal_cdf(u))


@blurred_bars.defjvp
def _blurred_bars_jvp(primals, tangents):
    edges, contrast, blur, pixels = primals
    d_edges, d_contrast, d_blur, d_pixels = tangents
    u = (pixels[None, None, :] - edges[:, :, None]) / blur[:, None, None]
    step = _normal_cdf(u)
    bell = INV_SQRT_TWO_PI * jnp.exp(-0.5 * u * u)
    line = jnp.einsum("e,les->ls", contrast, step)
    d_u = (
        d_pixels[None, None, :] - d_edges[:, :, None] - u * d_blur[:, None, None]
    ) / blur[:, None, None]
    d_line = jnp.einsum("e,les->ls", d_contrast, step)
    d_line = d_line + jnp.einsum("e,les->ls", contrast, bell * d_u)
    return line, d_line


def alternating_contrast(n_edges, depth=0.8):
    """White-to-black, black-to-white, and so on, starting in the quiet zone."""
    return depth * jnp.where(jnp.arange(n_edges) % 2 == 0, -1.0, 1.0)


def line_misfit(fit: ScanFit, observed, white=0.9):
    """Mean squared difference of rendered and observed reflectance."""
    pixels = jnp.arange(observed.shape[1], dtype=observed.dtype)
    rendered = white + blurred_bars(fit.edges, fit.contrast, fit.blur, pixels)
    return jnp.mean((rendered - observed) ** 2)


def refine(fit: ScanFit, observed, rates: ScanFit, iterations=20):
    """Gradient descent with one rate for each field of the state."""
    def body(_, state):
        grads = jax.grad(line_misfit)(state, observed)
        return jax.tree_util.tree_map(lambda p, r, g: p - r * g, state, rates, grads)

    return jax.lax.fori_loop(0, iterations, body, fit)


# -----------------------------------------------------------------------------
# Widths
# -----------------------------------------------------------------------------


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def module_widths(edges, modules, right_to_left=False):
    """Element widths in modules.

    Args:
      edges: edge positions along the scan, last axis, increasing.
      modules: number of modules between the first and the last edge.
      right_to_left: whether the label was scanned upside down; the widths then
        come out in reading order, i.e. the last element scanned first.

    Returns:
      Widths, one fewer than the edges, adding up to ``modules``.
    """
    raw = jnp.diff(edges, axis=-1)
    widths = modules * raw / jnp.sum(raw, axis=-1, keepdims=True)
    return widths[..., ::-1] if right_to_left else widths


def _module_widths_fwd(edges, modules, right_to_left):
    widths = module_widths(edges, modules, right_to_left)
    span = edges[..., -1:] - edges[..., :1]
    return widths, (widths, span)


def _module_widths_bwd(modules, right_to_left, saved, g):
    widths, span = saved
    if right_to_left:
        g = g[..., ::-1]
    common = jnp.sum(g * widths, axis=-1, keepdims=True)
    g_raw = (modules * g - common) / span
    zero = jnp.zeros_like(span)
    g_edges = jnp.concatenate([zero, g_raw], axis=-1) - jnp.concatenate(
        [g_raw, zero], axis=-1
    )
    return (g_edges,)


module_widths.defvjp(_module_widths_fwd, _module_widths_bwd)


@jax.custom_vjp
def snap_to_modules(widths):
    """Nearest legal whole width, 1 to 4 modules.

    Straight-through: the cotangent passes unchanged where the width is within
    half a module of the legal range, [0.5, 4.5], and is stopped elsewhere.
    """
    return jnp.clip(jnp.round(widths), NARROWEST, WIDEST)


def _snap_to_modules_fwd(widths):
    legal = (widths >= NARROWEST - 0.5) & (widths <= WIDEST + 0.5)
    return jnp.clip(jnp.round(widths), NARROWEST, WIDEST), legal


def _snap_to_modules_bwd(legal, g):
    return (jnp.where(legal, g, 0.0),)


snap_to_modules.defvjp(_snap_to_modules_fwd, _snap_to_modules_bwd)


def digit_evidence(widths, templates, spread=0.35):
    """Log evidence of every digit of one character set.

    widths [..., 4], templates [10, 4]; result [..., 10].
    """
    gap = widths[..., None, :] - jnp.asarray(templates, widths.dtype)
    return -0.5 * jnp.sum((gap / spread) ** 2, axis=-1)


def left_half_evidence(widths, spread=0.35):
    """Log evidence of sets L and G for the six left digits.

    ``widths`` is [labels, 24]; each digit is marginalised, so the result is
    [labels, 6, 2] with the set on the last axis.
    """
    per_digit = widths.reshape(widths.shape[0], 6, 4)
    set_l = jax.nn.logsumexp(digit_evidence(per_digit, WIDTHS_L, spread), axis=-1)
    set_g = jax.nn.logsumexp(digit_evidence(per_digit, WIDTHS_G, spread), axis=-1)
    return jnp.stack([set_l, set_g], axis=-1)


# -----------------------------------------------------------------------------
# First digit
# -----------------------------------------------------------------------------


def _pattern_totals(evidence, patterns):
    position = jnp.arange(patterns.shape[1])
    return jnp.sum(evidence[:, position[None, :], patterns], axis=-1)


@jax.custom_vjp
def first_digit_posterior(evidence, log_prior, patterns):
    """Log posterior of the first digit from the parity of the left half.

    evidence [labels, 6, 2], log_prior [10], patterns [10, 6]; result [labels, 10].
    """
    return jax.nn.log_softmax(_pattern_totals(evidence, patterns) + log_prior, axis=-1)


def _first_digit_posterior_fwd(evidence, log_prior, patterns):
    out = first_digit_posterior(evidence, log_prior, patterns)
    return out, (out, evidence, patterns)


def _first_digit_posterior_bwd(saved, g):
    log_post, evidence, patterns = saved
    g_total = g - jnp.exp(log_post) * jnp.sum(g, axis=-1, keepdims=True)
    position = jnp.arange(patterns.shape[1])
    spread_out = jnp.broadcast_to(
        g_total[:, :, None], g_total.shape + (patterns.shape[1],)
    )
    g_evidence = jnp.zeros_like(evidence)
    g_evidence = g_evidence.at[:, position[None, :], patterns].add(spread_out)
    return g_evidence, jnp.sum(g_total, axis=0), None


first_digit_posterior.defvjp(_first_digit_posterior_fwd, _first_digit_posterior_bwd)


# -----------------------------------------------------------------------------
# Reader
# -----------------------------------------------------------------------------


class LeftHalfReader:
    """Calibrates element widths so that known labels read correctly."""

    def __init__(self, country_counts, upside_down=False):
        counts = np.asarray(country_counts, dtype=float) + 1.0
        self.log_prior = jnp.log(jnp.asarray(counts / counts.sum()))
        self.upside_down = bool(upside_down)

    def widths(self, edges, ink_gain):
        """Widths of the 24 left elements, corrected for ink spread.

        Bars print ``ink_gain`` modules too wide and spaces as much too narrow.
        """
        raw = module_widths(edges, 6 * MODULES_PER_DIGIT, self.upside_down)
        sign = jnp.where(jnp.arange(raw.shape[-1]) % 2 == 0, 1.0, -1.0)
        return raw + ink_gain * sign

    def log_posterior(self, edges, ink_gain):
        evidence = left_half_evidence(self.widths(edges, ink_gain))
        return first_digit_posterior(
            evidence, self.log_prior, jnp.asarray(PARITY_PATTERNS)
        )

    def loss(self, edges, ink_gain, first_digits):
        table = self.log_posterior(edges, ink_gain)
        rows = jnp.arange(table.shape[0])
        snapped = snap_to_modules(self.widths(edges, ink_gain))
        uneven = jnp.sum(snapped.reshape(snapped.shape[0], 6, 4), axis=-1)
        balance = jnp.mean((uneven - MODULES_PER_DIGIT) ** 2)
        return -jnp.mean(table[rows, first_digits]) + 0.1 * balance


def synthetic_left_half(first_digit, digits, origin=30.0, pitch=2.3):
    """Edge positions in pixels of the left half of a perfect label."""
    rows = [
        (WIDTHS_G if PARITY_PATTERNS[first_digit, i] else WIDTHS_L)[d]
        for i, d in enumerate(digits)
    ]
    widths = np.concatenate(rows)
    return origin + pitch * np.concatenate([[0.0], np.cumsum(widths)])


if __name__ == "__main__":
    labels = np.stack(
        [
            synthetic_left_half(4, [0, 0, 6, 3, 8, 1]),
            synthetic_left_half(9, [7, 8, 0, 2, 0, 1]),
        ]
    )
    noisy = jnp.asarray(labels + np.random.default_rng(3).normal(0, 0.2, labels.shape))
    reader = LeftHalfReader(np.ones(10))
    value, grads = jax.value_and_grad(reader.loss, argnums=(0, 1))(
        noisy, jnp.array(0.05), jnp.array([4, 9])
    )
    print("loss", float(value), "ink gain slope", float(grads[1]))
    lines = 0.9 + blurred_bars(
        jnp.asarray(labels), alternating_contrast(25), jnp.array([1.1, 1.4]),
        jnp.arange(180.0),
    )
    start = ScanFit(noisy, jnp.array([1.5, 1.5]), alternating_contrast(25))
    rates = ScanFit(40.0, 5.0, 0.02)
    print("misfit", float(line_misfit(start, lines)),
          float(line_misfit(refine(start, lines, rates), lines)))
