"""Energy terms for the coarse screening runs (eV / angstrom; the solvent term is in kcal/mol)."""

import tensorflow as tf

COULOMB_KCAL = 332.0637

# Reduced second-moment parametrisation shared by all species; only the cohesive amplitude is fitted per species.
_R0 = 2.556
_BETA = 4.56
_ALPHA = 10.96
_REPULSION = 0.0855
_CUTOFF = 6.0


def _taper(r):
    """C1 switch (1 - (r / rc)^2)^2 inside the cutoff and its derivative."""
    q = 1.0 - tf.square(r / _CUTOFF)
    inside = tf.cast(r < _CUTOFF, r.dtype)
    return inside * tf.square(q), inside * q * (-4.0 * r / _CUTOFF**2)


def _tapered_exponential(r, steepness):
    s, ds = _taper(r)
    e = tf.exp(-steepness * (r / _R0 - 1.0))
    return e * s, e * (ds - steepness / _R0 * s)


@tf.custom_gradient
def embedded_atom_energy(positions, amplitude, species, pairs):
    """Cohesive energy of a cluster in the second-moment (Gupta) embedded-atom form.

        E = sum_pairs phi(r_ij) - sum_i A[species_i] * sqrt(rho_i),     rho_i = sum_j psi(r_ij)

    positions : (N, 3)
    amplitude : (S,) embedding amplitude per species, eV
    species   : (N,) int, index into ``amplitude``
    pairs     : (P, 2) int half neighbour list, every pair once in either order; rows of -1 are padding

    Distinct atoms never coincide. An atom without neighbours has no embedding energy.
    """
    live = pairs[:, 0] >= 0
    index = tf.where(live[:, tf.newaxis], pairs, tf.zeros_like(pairs))
    i, j = index[:, 0], index[:, 1]
    n = tf.shape(positions)[0]
    keep = tf.cast(live, positions.dtype)

    sep = tf.gather(positions, i) - tf.gather(positions, j)
    dist = tf.sqrt(tf.where(live, tf.reduce_sum(sep * sep, axis=-1), tf.ones_like(keep)))
    phi, d_phi = _tapered_exponential(dist, _ALPHA)
    psi, d_psi = _tapered_exponential(dist, _BETA)
    psi, d_psi = psi * keep, d_psi * keep
    phi, d_phi = 2.0 * _REPULSION * phi * keep, 2.0 * _REPULSION * d_phi * keep

    rho = tf.math.unsorted_segment_sum(psi, i, n) + tf.math.unsorted_segment_sum(psi, j, n)
    bound = rho > 0
    root = tf.where(bound, tf.sqrt(tf.where(bound, rho, tf.ones_like(rho))), tf.zeros_like(rho))
    amp = tf.gather(amplitude, species)
    energy = tf.reduce_sum(phi) - tf.reduce_sum(amp * root)

    def grad(upstream):
        d_embed = tf.where(bound, -0.5 * amp / tf.where(bound, root, tf.ones_like(root)), tf.zeros_like(root))
        # half list: each bond feeds the density at both of its ends
        pull = d_phi + 2.0 * tf.gather(d_embed, i) * d_psi
        force = upstream * (pull / dist)[:, tf.newaxis] * sep
        d_pos = tf.math.unsorted_segment_sum(force, i, n) - tf.math.unsorted_segment_sum(force, j, n)
        d_amp = -upstream * tf.math.unsorted_segment_sum(root, species, tf.shape(amplitude)[0])
        return d_pos, d_amp, None, None

    return energy, grad


def _born_kernel(radii, positions, mask):
    real = tf.cast(mask, positions.dtype)
    r = tf.where(mask, radii, tf.ones_like(radii))
    sep = positions[:, :, tf.newaxis] - positions[:, tf.newaxis]
    r2 = tf.reduce_sum(sep * sep, axis=-1)
    prod = r[:, :, tf.newaxis] * r[:, tf.newaxis]
    u = r2 / (4.0 * prod)
    screen = tf.exp(-u)
    f2 = r2 + prod * screen
    return real, r, sep, u, screen, f2


@tf.custom_gradient
def generalized_born_energy(charges, radii, positions, dielectric, mask):
    """Generalized Born polarisation energy (Still et al.) of a padded batch of solutes.

    E_b = -C/2 (1 - 1/eps) sum_{i,j} q_i q_j / f_ij,   f_ij^2 = r_ij^2 + R_i R_j exp(-r_ij^2 / (4 R_i R_j))

    The double sum includes i = j, where f_ii = R_i. Nothing quadratic in the number of atoms is kept for the backward
    pass; the kernel is evaluated again there.

    :param charges: partial charges, ``(B, N)``
    :param radii: effective Born radii, ``(B, N)``; positive for real atoms, anything (usually 0) for padding
    :param positions: ``(B, N, 3)``
    :param dielectric: scalar, relative permittivity of the solvent
    :param mask: bool ``(B, N)``, True for real atoms
    :return: energies ``(B,)``, kcal/mol
    """
    prefactor = -0.5 * COULOMB_KCAL * (1.0 - 1.0 / dielectric)
    real, _, _, _, _, f2 = _born_kernel(radii, positions, mask)
    q = charges * real
    pair_sum = tf.einsum("bi,bij,bj->b", q, tf.math.rsqrt(f2), q)
    del f2

    def grad(upstream):
        real, r, sep, u, screen, f2 = _born_kernel(radii, positions, mask)
        inv = tf.math.rsqrt(f2)
        up = upstream * prefactor
        d_charges = 2.0 * up[:, tf.newaxis] * real * tf.einsum("bij,bj->bi", inv, q)
        d_f2 = -0.5 * up[:, tf.newaxis, tf.newaxis] * q[:, :, tf.newaxis] * q[:, tf.newaxis] * inv**3
        d_radii = 2.0 * real * tf.einsum("bij,bj->bi", d_f2 * screen * (1.0 + u), r)
        d_r2 = d_f2 * (1.0 - 0.25 * screen)
        d_positions = 4.0 * tf.einsum("bij,bijk->bik", d_r2, sep)
        d_dielectric = -0.5 * COULOMB_KCAL * tf.reduce_sum(upstream * pair_sum) / tf.square(dielectric)
        return d_charges, d_radii, d_positions, d_dielectric, None

    return prefactor * pair_sum, grad


@tf.custom_gradient
def cap_atom_forces(positions, cap):
    """Return ``positions`` untouched, but cap the force that flows back through them.

    This is not the derivative of the identity: on the way back the gradient vector of every atom (last axis) is scaled
    down to length ``cap`` where it is longer. It keeps the first steps of a relaxation from flying apart when atoms of
    the starting geometry overlap. ``cap`` (positive scalar) is a setting and gets a zero gradient.
    """

    def grad(upstream):
        length = tf.norm(upstream, axis=-1, keepdims=True)
        shrink = tf.where(length > cap, cap / tf.where(length > cap, length, tf.ones_like(length)), tf.ones_like(length))
        return upstream * shrink, tf.zeros_like(cap)

    return tf.identity(positions), grad


def relax(positions, amplitude, species, pairs, steps=50, rate=0.01, cap=5.0):
    """Crude capped steepest descent; good enough to remove clashes before the real optimiser takes over."""
    pos = tf.Variable(positions)
    cap = tf.cast(cap, pos.dtype)
    for _ in range(steps):
        with tf.GradientTape() as tape:
            energy = embedded_atom_energy(cap_atom_forces(pos, cap), amplitude, species, pairs)
        pos.assign_sub(tf.cast(rate, pos.dtype) * tape.gradient(energy, pos))
    return tf.convert_to_tensor(pos)
