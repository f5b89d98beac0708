"""Strength checks of composite coupons, backend-agnostic."""

from keras import ops


def _upstream(args, upstream):
    return upstream if upstream is not None else args[0]


def make_tsai_wu(interaction=-0.5):
    """Tsai-Wu failure index of a plane-stress ply.

    The returned function takes

    - ``stress``: ``(..., 3)``, in-plane ``(s1, s2, t12)`` in ply axes,
    - ``strengths``: ``(5,)``, positive ``(Xt, Xc, Yt, Yc, S)``, shared by all points,

    and returns the index ``(...)``; failure at 1. ``interaction`` is the normalised
    F12 coefficient, F12 = interaction * sqrt(F11 F22), and must lie in (-1, 1).
    """

    @ops.custom_gradient
    def tsai_wu(stress, strengths):
        s1, s2, t12 = stress[..., 0], stress[..., 1], stress[..., 2]
        xt, xc, yt, yc, sh = (strengths[i] for i in range(5))
        f1, f2 = 1.0 / xt - 1.0 / xc, 1.0 / yt - 1.0 / yc
        f11, f22, f66 = 1.0 / (xt * xc), 1.0 / (yt * yc), 1.0 / (sh * sh)
        f12 = interaction * ops.sqrt(f11 * f22)
        index = (
            f1 * s1
            + f2 * s2
            + f11 * s1 * s1
            + f22 * s2 * s2
            + f66 * t12 * t12
            + 2.0 * f12 * s1 * s2
        )

        def grad(*args, upstream=None):
            g = _upstream(args, upstream)
            d_stress = ops.stack(
                [
                    g * (f1 + 2.0 * f11 * s1 + 2.0 * f12 * s2),
                    g * (f2 + 2.0 * f22 * s2 + 2.0 * f12 * s1),
                    g * 2.0 * f66 * t12,
                ],
                axis=-1,
            )
            m1, m2 = ops.sum(g * s1), ops.sum(g * s2)
            # quadratic terms; the cross term goes as (Xt Xc Yt Yc)^(-1/2)
            cross = ops.sum(g * s1 * s2) * f12
            q1 = ops.sum(g * s1 * s1) * f11 + cross
            q2 = ops.sum(g * s2 * s2) * f22 + cross
            q6 = ops.sum(g * t12 * t12) * f66
            d_strengths = ops.stack(
                [
                    -m1 / (xt * xt) - q1 / xt,
                    m1 / (xc * xc) - q1 / xc,
                    -m2 / (yt * yt) - q2 / yt,
                    m2 / (yc * yc) - q2 / yc,
                    -2.0 * q6 / sh,
                ]
            )
            return d_stress, d_strengths

        return index, grad

    return tsai_wu


def _ply_matrix(slope):
    """Voigt stress transformation, laminate to ply axes, (..., 3, 3), for fibres along y = slope * x."""
    c = 1.0 / ops.sqrt(1.0 + slope * slope)
    s = slope * c
    cc, ss, cs = c * c, s * s, c * s
    rows = [
        ops.stack([cc, ss, 2.0 * cs], axis=-1),
        ops.stack([ss, cc, -2.0 * cs], axis=-1),
        ops.stack([-cs, cs, cc - ss], axis=-1),
    ]
    return ops.stack(rows, axis=-2)


@ops.custom_gradient
def ply_stress(stress, slope):
    """Laminate stress (N, 3) and fibre slopes dy/dx of steered plies (P,) to ply stresses (N, P, 3)."""
    rot = _ply_matrix(slope)
    local = ops.einsum("pij,nj->npi", rot, stress)

    def grad(*args, upstream=None):
        g = _upstream(args, upstream)
        back = _ply_matrix(-slope)
        d_stress = ops.einsum("pij,npj->ni", back, g)
        # a small turn moves (s1, s2, t12) by (2 t12, -2 t12, s2 - s1)
        l1, l2, l12 = local[..., 0], local[..., 1], local[..., 2]
        turn = ops.sum(2.0 * l12 * (g[..., 0] - g[..., 1]) + (l2 - l1) * g[..., 2], axis=0)
        return d_stress, turn / (1.0 + slope * slope)

    return local, grad


class HotWetKnockdown:
    def __init__(self, tg_dry=190.0, t_ref=23.0, plasticising=(-0.1, 0.005), exponent=0.5):
        self.tg_dry = tg_dry
        self.t_ref = t_ref
        self.plasticising = plasticising
        self.exponent = exponent

    def __call__(self, temperature, moisture):
        b1, b2 = self.plasticising
        temperature = temperature + ops.zeros_like(moisture)
        moisture = moisture + ops.zeros_like(temperature)
        tg0, t_ref, n = self.tg_dry, self.t_ref, self.exponent

        @ops.custom_gradient
        def knockdown(temp, moist):
            tg_wet = tg0 * (1.0 + b1 * moist + b2 * moist * moist)
            room = tg_wet - temp
            live = room > 0.0
            ratio = ops.where(live, room, ops.ones_like(room)) / (tg0 - t_ref)
            factor = ops.where(live, ratio**n, ops.zeros_like(ratio))

            def grad(*args, upstream=None):
                g = _upstream(args, upstream)
                slope = n * ratio ** (n - 1.0) / (tg0 - t_ref)
                g_room = ops.where(live, g * slope, ops.zeros_like(g))
                return -g_room, g_room * tg0 * (b1 + 2.0 * b2 * moist)

            return factor, grad

        return knockdown(temperature, moisture)
