"""Pieces of the object-centric encoder/decoder with hand-written backward passes."""

from functools import partial

import jax
import jax.numpy as jnp


@partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def slot_assign(keys, slots, slot_bias, valid, scale=1.0, eps=1e-8):
    """Weights with which each slot averages the inputs.

    Inputs compete for slots by a softmax over the slots; the result is then
    normalized over the inputs, so that every slot takes a weighted mean.

    Args:
      keys: (batch, inputs, dim).
      slots: (batch, slots, dim) queries.
      slot_bias: (slots,) prior logits, shared by the batch.
      valid: bool (batch, inputs); padding gets no weight.
      scale: multiplies the dot products.
      eps: added to the mass of a slot.

    Returns:
      (batch, inputs, slots).
    """
    return _slot_assign_fwd(keys, slots, slot_bias, valid, scale, eps)[0]


def _slot_assign_fwd(keys, slots, slot_bias, valid, scale, eps):
    logits = scale * jnp.einsum("bnd,bkd->bnk", keys, slots) + slot_bias
    attn = jax.nn.softmax(logits, axis=-1) * valid[..., None]
    mass = attn.sum(axis=1, keepdims=True) + eps
    weights = attn / mass
    return weights, (keys, slots, attn, mass, weights)


def _slot_assign_bwd(scale, eps, res, g):
    keys, slots, attn, mass, weights = res
    g_attn = (g - jnp.sum(g * weights, axis=1, keepdims=True)) / mass
    # attn is zero on padding, so nothing flows back from there
    g_logits = attn * (g_attn - jnp.sum(g_attn * attn, axis=-1, keepdims=True))
    g_keys = scale * jnp.einsum("bnk,bkd->bnd", g_logits, slots)
    g_slots = scale * jnp.einsum("bnk,bnd->bkd", g_logits, keys)
    g_bias = g_logits.sum(axis=1).mean(axis=0)
    return g_keys, g_slots, g_bias, None


slot_assign.defvjp(_slot_assign_fwd, _slot_assign_bwd)


def position_grid(height, width, origin="corner", dtype=jnp.float32):
    y = jnp.linspace(0.0, 1.0, height, dtype=dtype)
    x = jnp.linspace(0.0, 1.0, width, dtype=dtype)
    if origin == "centre":
        y, x = 2.0 * y - 1.0, 2.0 * x - 1.0
    yy, xx = jnp.meshgrid(y, x, indexing="ij")
    far = (-yy, -xx) if origin == "centre" else (1.0 - yy, 1.0 - xx)
    return jnp.stack((yy, xx) + far, axis=-1)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def soft_position(features, kernel, bias, origin="corner"):
    """features (..., H, W, D) plus a linear map of the coordinates, kernel (4, D), bias (D,)."""
    grid = position_grid(*features.shape[-3:-1], origin, features.dtype)
    return features + grid @ kernel + bias


def _soft_position_fwd(features, kernel, bias, origin):
    return soft_position(features, kernel, bias, origin), None


def _soft_position_bwd(origin, _, g):
    grid = position_grid(*g.shape[-3:-1], origin, g.dtype)
    per_pixel = g.reshape((-1,) + g.shape[-3:]).sum(axis=0)
    g_kernel = jnp.einsum("hwc,hwd->cd", grid, per_pixel)
    return g, g_kernel, per_pixel.sum(axis=(0, 1))


soft_position.defvjp(_soft_position_fwd, _soft_position_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def blend_slots(colours, logits, slot_axis=1):
    return _blend_fwd(colours, logits, slot_axis)[0]


def _blend_fwd(colours, logits, slot_axis):
    slot_axis = slot_axis % logits.ndim  # colours carry one more (channel) axis
    alpha = jax.nn.softmax(logits, axis=slot_axis)
    image = jnp.sum(alpha[..., None] * colours, axis=slot_axis)
    return image, (colours, alpha)


def _blend_bwd(slot_axis, res, g):
    colours, alpha = res
    g = jnp.expand_dims(g, slot_axis % alpha.ndim)
    g_colours = alpha[..., None] * g
    g_alpha = jnp.sum(colours * g, axis=-1)
    g_logits = alpha * (g_alpha - jnp.sum(g_alpha * alpha, axis=1, keepdims=True))
    return g_colours, g_logits


blend_slots.defvjp(_blend_fwd, _blend_bwd)


class SlotDecoder:
    """Decoder head: splits (..., C + 1) maps into colours and mask logits."""

    def __init__(self, channels=3, slot_axis=1):
        self.channels = channels
        self.slot_axis = slot_axis

    def __call__(self, maps):
        colours, logits = maps[..., : self.channels], maps[..., self.channels]
        return blend_slots(colours, logits, self.slot_axis)
