"""NMR observables used as restraint terms in structure refinement."""
from __future__ import annotations

import numpy as np
import tensorflow as tf

# Wang & Bax style parameters (Hz): one row per residue class.
DEFAULT_KARPLUS = np.array(
    [
        [6.98, -1.38, 1.72],  # generic
        [7.90, -1.05, 0.65],  # beta-branched
        [6.51, -1.76, 1.60],  # glycine
    ]
)


@tf.custom_gradient
def karplus_coupling(phi, table, phase, residue_class):
    """Three-bond J coupling from backbone torsions (Karplus relation).

    Computes ``J = A cos^2(phi + phase) + B cos(phi + phase) + C`` where the
    triple ``(A, B, C)`` is looked up per residue.

    Parameters
    ----------
    phi : tf.Tensor, shape (..., R)
        Torsion angles in radians.  Leading axes are models of an ensemble.
    table : tf.Tensor, shape (T, 3)
        Karplus parameters, one row per residue class.
    phase : tf.Tensor, shape ()
        Offset between the torsion and the H-N-C-H dihedral, in radians.
    residue_class : tf.Tensor of int, shape (R,)
        Row of `table` used by each residue.  Rows may be used many times or
        not at all.  Not differentiable.

    Returns
    -------
    tf.Tensor, shape (..., R)
        Couplings in Hz.  Gradients flow to `phi`, `table` and `phase`.
    """
    abc = tf.gather(table, residue_class)
    a, b, c = tf.unstack(abc, axis=-1)
    cos = tf.cos(phi + phase)
    coupling = (a * cos + b) * cos + c

    def grad(upstream):
        slope = -upstream * (2.0 * a * cos + b) * tf.sin(phi + phase)
        flat_up = tf.reshape(upstream, [-1, tf.shape(a)[0]])
        flat_cos = tf.reshape(cos, tf.shape(flat_up))
        per_residue = tf.stack(
            [
                tf.reduce_sum(flat_up * flat_cos**2, axis=0),
                tf.reduce_sum(flat_up * flat_cos, axis=0),
                tf.reduce_sum(flat_up, axis=0),
            ],
            axis=-1,
        )
        d_table = tf.math.unsorted_segment_sum(per_residue, residue_class, tf.shape(table)[0])
        return slope, d_table, tf.reduce_sum(slope), None

    return coupling, grad


def noe_distance(coords: tf.Tensor, pairs: tf.Tensor, restraint: tf.Tensor, num_restraints: int, average: str = "sum"):
    """Effective r^-6 NOE distance per restraint over its ambiguous atom pairs, r^-6 "sum" or "mean"."""
    if average not in ("sum", "mean"):
        raise ValueError(f"average must be 'sum' or 'mean', got {average!r}")

    @tf.custom_gradient
    def rule(xyz):
        delta = tf.gather(xyz, pairs[:, 0]) - tf.gather(xyz, pairs[:, 1])
        dist2 = tf.reduce_sum(delta * delta, axis=-1)
        inv6 = dist2**-3
        pool = tf.math.unsorted_segment_mean if average == "mean" else tf.math.unsorted_segment_sum
        effective = pool(inv6, restraint, num_restraints) ** (-1.0 / 6.0)

        def grad(upstream):
            # d r_eff / d r_k = (r_eff / r_k)^7
            outer = tf.gather(upstream * effective**7, restraint)
            pull = (outer * dist2**-4)[:, None] * delta
            n = tf.shape(xyz)[0]
            return tf.math.unsorted_segment_sum(pull, pairs[:, 0], n) - tf.math.unsorted_segment_sum(
                pull, pairs[:, 1], n
            )

        return effective, grad

    return rule(coords)


@tf.custom_gradient
def residual_dipolar(vectors, saupe, d_max):
    x, y, z = tf.unstack(vectors, axis=-1)
    szz, sdiff, sxy, sxz, syz = tf.unstack(saupe)
    r2 = x * x + y * y + z * z
    basis = tf.stack(
        [z * z - 0.5 * (x * x + y * y), 0.5 * (x * x - y * y), 2.0 * x * y, 2.0 * x * z, 2.0 * y * z],
        axis=-1,
    )
    form = tf.reduce_sum(basis * saupe, axis=-1)
    inv5 = r2**-2.5
    coupling = d_max * form * inv5

    def grad(upstream):
        weight = upstream * inv5
        nabla = tf.stack(
            [
                (sdiff - szz) * x + 2.0 * (sxy * y + sxz * z),
                -(sdiff + szz) * y + 2.0 * (sxy * x + syz * z),
                2.0 * (szz * z + sxz * x + syz * y),
            ],
            axis=-1,
        )
        d_vec = d_max * weight[..., None] * (nabla - 5.0 * (form / r2)[..., None] * vectors)
        axes = list(range(len(vectors.shape) - 1))
        d_saupe = d_max * tf.reduce_sum(weight[..., None] * basis, axis=axes)
        return d_vec, d_saupe, tf.reduce_sum(weight * form)

    return coupling, grad


def restraint_energy(coords, pairs, restraint, upper, k=1.0, average="sum"):
    """Flat-bottom penalty on the effective distances."""
    d = noe_distance(coords, pairs, restraint, int(upper.shape[0]), average=average)
    return 0.5 * k * tf.reduce_sum(tf.nn.relu(d - upper) ** 2)
