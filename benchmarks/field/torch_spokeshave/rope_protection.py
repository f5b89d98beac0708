"""Forces in a climber's chain of protection."""
from dataclasses import dataclass

import torch

GRAVITY = 9.80665


@dataclass(frozen=True)
class Rope:
    modulus_kn: float = 22.0     # force at 100 % stretch, by the standard drop
    give: float = 0.25           # share of the modulus that a dynamic belay takes away


class EffectiveRope(torch.autograd.Function):
    """Length of rope that really stretches in a fall.

    Rope runs from the belayer (segment 0) over pieces to the climber (the last segment). Friction at the piece
    between segments j and j + 1, where the rope turns by angles[..., j] radians, keeps pull from what lies
    behind it, so a segment counts exp(-mu * all angles between it and the climber).

    segments: (..., S) metres; angles: (..., S - 1), empty for a rope that has no piece in it; mu: 0-d tensor.
    """

    @staticmethod
    def _from_climber(angles):
        behind = angles.flip(-1).cumsum(-1).flip(-1)
        return torch.cat([behind, behind.new_zeros(behind.shape[:-1] + (1,))], -1)

    @staticmethod
    def forward(ctx, segments, angles, mu):
        turned = EffectiveRope._from_climber(angles)
        part = segments * torch.exp(-mu * turned)
        ctx.save_for_backward(segments, angles, mu)
        return part.sum(-1)

    @staticmethod
    def backward(ctx, grad):
        segments, angles, mu = ctx.saved_tensors
        turned = EffectiveRope._from_climber(angles)
        w = torch.exp(-mu * turned)
        part = segments * w
        g = grad.unsqueeze(-1)
        return g * w, -mu * g * part.cumsum(-1)[..., :-1], -(g * part * turned).sum()


class FallImpact(torch.autograd.Function):
    """Peak force on the climber and on the top piece, in kN.

    F = W + sqrt(W^2 + 2 W k f), W the weight, f the fall factor (height of the fall / rope that stretches).
    belay: "fixed" (tied off) or "dynamic", where the belayer gives rope and k is lowered by the share `give`.
    The top piece holds the climber's side and, less friction, the belayer's: (1 + carry) F.

    mass (B,) kg, fall (B,), rope (B,) metres, modulus: 0-d or (B,), kN.
    """

    @staticmethod
    def forward(ctx, mass, fall, rope, modulus, belay="fixed", give=0.25, carry=0.6):
        if belay not in ("fixed", "dynamic"):
            raise ValueError(belay)
        weight = mass * GRAVITY / 1000.0
        k = modulus * (1.0 - give) if belay == "dynamic" else modulus
        factor = fall / rope
        root = torch.sqrt(weight**2 + 2 * weight * k * factor)
        ctx.save_for_backward(weight, factor, rope, modulus, k, root)
        ctx.carry = carry
        force = weight + root
        return force, (1 + carry) * force

    @staticmethod
    def backward(ctx, g_climber, g_piece):
        weight, factor, rope, modulus, k, root = ctx.saved_tensors
        g = g_climber + (1 + ctx.carry) * g_piece
        g_weight = g * (1 + (weight + k * factor) / root)
        g_factor = g * weight * k / root
        g_k = g * weight * factor / root
        if modulus.dim() == 0:
            g_k = g_k.sum()
        g_mass = g_weight * GRAVITY / 1000.0
        return g_mass, g_factor / rope, -g_factor * factor / rope, g_k, None, None, None


class AnchorShare(torch.autograd.Function):
    """Tensions of the legs of an anchor and how far its master point moves.

    legs (B, L, dim): directions from master point to bolts, not necessarily of unit length (the length counts: a leg's
    stretch is legs . u); stiffness (L,) or (B, L); load (B, dim), with dim 2 or 3 and L >= dim, legs that span the space.
    Small displacements, no leg goes slack.  The point moves by u with  sum_l k_l n_l n_l^T u = load.

    Returns: tension (B, L) and u (B, dim)
    """

    @staticmethod
    def forward(ctx, legs, stiffness, load):
        k = stiffness.expand(legs.shape[:2])
        frame = torch.einsum("bl,bli,blj->bij", k, legs, legs)
        u = torch.linalg.solve(frame, load)
        stretch = torch.einsum("bli,bi->bl", legs, u)
        ctx.save_for_backward(legs, k, frame, u, stretch)
        ctx.per_load = stiffness.dim() == 2
        return k * stretch, u

    @staticmethod
    def backward(ctx, g_tension, g_u):
        legs, k, frame, u, stretch = ctx.saved_tensors
        pull = g_u + torch.einsum("bl,bli->bi", g_tension * k, legs)
        lam = torch.linalg.solve(frame, pull)
        lam_stretch = torch.einsum("bli,bi->bl", legs, lam)
        g_k = (g_tension - lam_stretch) * stretch
        along_u = k * (g_tension - lam_stretch)
        g_legs = along_u[..., None] * u[:, None] - (k * stretch)[..., None] * lam[:, None]
        return g_legs, g_k if ctx.per_load else g_k.sum(0), lam


def lead_fall(mass, above_piece, segments, angles, mu, rope=Rope(), belay="dynamic"):
    """Force on climber and piece for a leader who is `above_piece` metres over the last piece."""
    stretches = EffectiveRope.apply(segments, angles, mu)
    k = torch.tensor(rope.modulus_kn, dtype=mass.dtype)
    return FallImpact.apply(mass, 2 * above_piece, stretches, k, belay, rope.give)


def main():
    mass = torch.tensor([62.0, 80.0])
    f = lead_fall(mass, torch.tensor([1.5, 3.0]), torch.tensor([[4.0, 3.0, 2.0], [6.0, 5.0, 4.0]]),
                  torch.tensor([[0.3, 0.6], [0.1, 0.9]]), torch.tensor(0.4))
    print("climber %s kN, piece %s kN" % tuple(x.tolist() for x in f))


if __name__ == "__main__":
    main()
