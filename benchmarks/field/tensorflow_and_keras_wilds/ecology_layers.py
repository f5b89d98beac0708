"""Population-ecology layers for Keras 3.

Backend neutral: TensorFlow, JAX and torch.  The gradients of the process models are written out with
``keras.ops.custom_gradient``; the gradient functions follow the calling convention of the Keras documentation, i.e. they
take the upstream gradient as the only positional argument or as the keyword ``upstream``.
"""
from __future__ import annotations

from typing import Callable, Optional

import keras
from keras import ops

_EPS = 1e-12


def _upstream(args, upstream):
    if upstream is None:
        (upstream,) = args
    return upstream


# =====================================================================================================================
# feeding
# =====================================================================================================================


def make_functional_response(exponent: float = 1.0) -> Callable:
    """Multi-species functional response of a generalist predator.

    With ``exponent`` 1 this is Holling's type II, above 1 it is the sigmoid type III:

        intake_i = a_i N_i^q / (1 + sum_j a_j h_j N_j^q)

    Args:
        exponent: the exponent ``q``, the same for all prey.

    Returns:
        ``response(density, attack, handling)`` taking ``(batch, prey)`` densities (positive) and the ``(prey,)`` attack
        rates and handling times (positive) to the ``(batch, prey)`` intake.
    """

    @ops.custom_gradient
    def response(density, attack, handling):
        raised = ops.power(density, exponent)
        found = attack * raised
        busy = 1.0 + ops.sum(handling * found, axis=-1, keepdims=True)
        intake = found / busy

        def grad(*args, upstream=None):
            upstream = _upstream(args, upstream)
            shared = ops.sum(upstream * intake, axis=-1, keepdims=True) / busy
            d_found = upstream / busy - handling * shared
            d_density = d_found * attack * ops.power(density, exponent - 1.0)
            d_attack = ops.sum(d_found * raised, axis=0)
            d_handling = -ops.sum(found * shared, axis=0)
            return d_density, d_attack, d_handling

        return intake, grad

    return response


@keras.saving.register_keras_serializable(package="ecology")
class FunctionalResponse(keras.layers.Layer):
    """Intake of every prey from the prey densities, with trainable attack rates and handling times."""

    def __init__(self, exponent: float = 1.0, **kwargs):
        super().__init__(**kwargs)
        self.exponent = float(exponent)
        self._response = make_functional_response(self.exponent)

    def build(self, input_shape):
        prey = input_shape[-1]
        self.log_attack = self.add_weight(shape=(prey,), initializer="zeros", name="log_attack")
        self.log_handling = self.add_weight(shape=(prey,), initializer="zeros", name="log_handling")

    def call(self, density):
        return self._response(density, ops.exp(self.log_attack), ops.exp(self.log_handling))

    def get_config(self):
        return {**super().get_config(), "exponent": self.exponent}


# =====================================================================================================================
# space
# =====================================================================================================================


@ops.custom_gradient
def patch_connectivity(occupancy, area, alpha, distance):
    """Hanski's connectivity of the patches of a metapopulation.

        S[b, i] = sum over j != i of exp(-alpha * distance[i, j]) * area[j] * occupancy[b, j]

    Args:
        occupancy: ``(batch, patches)`` probability that a patch is occupied.
        area: ``(patches,)`` patch areas.
        alpha: scalar tensor, inverse of the mean dispersal distance.
        distance: ``(patches, patches)`` distance, first index the target; need not be symmetric (rivers, wind). The
            diagonal is not used.
    """
    others = 1.0 - ops.eye(distance.shape[0], dtype=ops.dtype(distance))
    kernel = ops.exp(-alpha * distance) * others
    source = area * occupancy
    connectivity = ops.einsum("ij,bj->bi", kernel, source)

    def grad(*args, upstream=None):
        upstream = _upstream(args, upstream)
        d_source = ops.einsum("bi,ij->bj", upstream, kernel)
        d_kernel = ops.einsum("bi,bj->ij", upstream, source) * kernel
        d_alpha = -ops.sum(d_kernel * distance)
        return (
            d_source * area,
            ops.sum(d_source * occupancy, axis=0),
            ops.reshape(d_alpha, ops.shape(alpha)),
            -alpha * d_kernel,
        )

    return connectivity, grad


@keras.saving.register_keras_serializable(package="ecology")
class IncidenceFunction(keras.layers.Layer):
    """One generation of the incidence-function model, ``p' = p (1 - e) + (1 - p) S^2 / (S^2 + y^2)``."""

    def __init__(self, area, distance, half_saturation: float = 1.0, **kwargs):
        super().__init__(**kwargs)
        self.area, self.distance = area, distance
        self.half_saturation = half_saturation

    def build(self, input_shape):
        self.log_alpha = self.add_weight(shape=(), initializer="zeros", name="log_alpha")
        self.logit_extinction = self.add_weight(shape=(input_shape[-1],), initializer="zeros", name="logit_extinction")

    def call(self, occupancy):
        area = ops.convert_to_tensor(self.area, dtype=self.compute_dtype)
        distance = ops.convert_to_tensor(self.distance, dtype=self.compute_dtype)
        s2 = ops.square(patch_connectivity(occupancy, area, ops.exp(self.log_alpha), distance))
        colonised = s2 / (s2 + self.half_saturation**2)
        return occupancy * (1.0 - ops.sigmoid(self.logit_extinction)) + (1.0 - occupancy) * colonised


# =====================================================================================================================
# observation
# =====================================================================================================================


@ops.custom_gradient
def occupancy_loglik(psi, detection, history, visited):
    """Site-occupancy log likelihood with imperfect detection.

    A site is occupied with probability ``psi``; on a visit to an occupied site the species is seen with probability
    ``detection``. Sites were not all visited equally often.

    Args:
        psi: ``(sites,)`` in (0, 1).
        detection: ``(sites, visits)`` in (0, 1).
        history: ``(sites, visits)`` integers, 1 where the species was seen.
        visited: ``(sites, visits)`` integers, 1 where the visit took place. Entries of ``history`` at visits that did
            not take place are ignored.

    Returns:
        ``(sites,)`` log likelihood.
    """
    dtype = ops.dtype(psi)
    m = ops.cast(visited, dtype)
    y = ops.cast(history, dtype) * m
    log_seen = ops.sum(m * (y * ops.log(detection) + (1.0 - y) * ops.log1p(-detection)), axis=1)
    never = ops.cast(ops.sum(y, axis=1) == 0, dtype)
    present = psi * ops.exp(log_seen)
    total = present + never * (1.0 - psi)

    def grad(*args, upstream=None):
        upstream = _upstream(args, upstream)
        occupied = present / total  # posterior probability that the site is occupied
        d_psi = upstream * (occupied / psi - (1.0 - occupied) / (1.0 - psi))
        score = y / detection - (1.0 - y) / (1.0 - detection)
        d_detection = ops.expand_dims(upstream * occupied, 1) * score
        return d_psi, d_detection, None, None

    return ops.log(total), grad


class OccupancyLoss(keras.layers.Layer):
    """Negative mean log likelihood from logits. Inputs: a dict with psi_logit, p_logit, history and visited."""

    def call(self, inputs):
        psi, detection = ops.sigmoid(inputs["psi_logit"]), ops.sigmoid(inputs["p_logit"])
        return -ops.mean(occupancy_loglik(psi, detection, inputs["history"], inputs["visited"]))


# =====================================================================================================================
# age structure
# =====================================================================================================================


def _advance(n, fecundity, survival):
    newborn = ops.sum(n * fecundity, axis=1, keepdims=True)
    return ops.concatenate([newborn, n[:, :-1] * survival], axis=1)


def project_cohorts(cohorts, fecundity, survival, years: int = 1):
    """Leslie projection over several years; ``(batch, ages)``, ``(ages,)`` and ``(ages - 1,)``, at least two ages."""

    @ops.custom_gradient
    def _project(cohorts, fecundity, survival):
        track = [cohorts]
        for _ in range(years):
            track.append(_advance(track[-1], fecundity, survival))

        def grad(*args, upstream=None):
            value = _upstream(args, upstream)  # reproductive value
            d_fecundity, d_survival = ops.zeros_like(fecundity), ops.zeros_like(survival)
            for n in reversed(track[:-1]):
                first, rest = value[:, :1], value[:, 1:]
                d_fecundity = d_fecundity + ops.sum(first * n, axis=0)
                d_survival = d_survival + ops.sum(rest * n[:, :-1], axis=0)
                aged = ops.concatenate([rest * survival, ops.zeros_like(first)], axis=1)
                value = first * fecundity + aged
            return value, d_fecundity, d_survival

        return track[-1], grad

    return _project(cohorts, fecundity, survival)


class LeslieLayer(keras.layers.Layer):
    def __init__(self, ages: int, years: int = 1, name: Optional[str] = None):
        super().__init__(name=name)
        self.ages, self.years = ages, years
        self.log_fecundity = self.add_weight(shape=(ages,), initializer="zeros", name="log_fecundity")
        self.logit_survival = self.add_weight(shape=(ages - 1,), initializer="zeros", name="logit_survival")

    def call(self, cohorts):
        fecundity, survival = ops.exp(self.log_fecundity), ops.sigmoid(self.logit_survival)
        return ops.log(project_cohorts(cohorts, fecundity, survival, self.years) + _EPS)
