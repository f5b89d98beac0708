import jax
import jax.numpy as jnp
import numpy as np

LINE_PENALTY = 10.0
CONTRAST = 30.0


def unbroadcast(ct, like):
    shape = jnp.shape(like)
    lead = ct.ndim - len(shape)
    ct = ct.sum(tuple(range(lead)))
    ones = tuple(i for i, n in enumerate(shape) if n == 1 and ct.shape[i] != 1)
    return ct.sum(ones, keepdims=True) if ones else ct


@jax.custom_gradient
def badness(natural, stretch, shrink, width):
    slack = width - natural
    give = jnp.where(slack >= 0, stretch, shrink)
    r = slack / give
    out = 100.0 * jnp.abs(r) ** 3

    def pull(g):
        dr = 300.0 * g * r * jnp.abs(r) / give
        dgive = -dr * r
        loose = slack >= 0
        return (
            unbroadcast(-dr, natural),
            unbroadcast(jnp.where(loose, dgive, 0.0), stretch),
            unbroadcast(jnp.where(loose, 0.0, dgive), shrink),
            unbroadcast(dr, width),
        )

    return out, pull


@jax.custom_vjp
def line_widths(advance, kern, size, glyphs, length):
    return _widths_fwd(advance, kern, size, glyphs, length)[0]


def _widths_fwd(advance, kern, size, glyphs, length):
    at = jnp.arange(glyphs.shape[1])
    ink = at < length[:, None]
    left, right = glyphs[:, :-1], glyphs[:, 1:]
    pair = ink[:, 1:]
    ems = jnp.sum(advance[glyphs] * ink, 1) + jnp.sum(kern[left, right] * pair, 1)
    return size * ems, (ems, ink, advance, kern, size, glyphs)


def _widths_bwd(res, g):
    ems, ink, advance, kern, size, glyphs = res
    h = (g * size)[:, None] * ink
    d_adv = jnp.zeros_like(advance).at[glyphs].add(h)
    n = kern.shape[0]
    flat = glyphs[:, :-1] * n + glyphs[:, 1:]
    d_kern = jnp.zeros(n * n, kern.dtype).at[flat].add(h[:, 1:]).reshape(n, n)
    return d_adv, d_kern, unbroadcast(g * ems, size), None, None


line_widths.defvjp(_widths_fwd, _widths_bwd)


@jax.custom_vjp
def demerits(bad, penalty, ratio, lines):
    return _dem_fwd(bad, penalty, ratio, lines)[0]


def _dem_fwd(bad, penalty, ratio, lines):
    live = jnp.arange(bad.shape[1]) < lines[:, None]
    cost = LINE_PENALTY + bad
    # a bonus (penalty < 0) is taken off, a cost is put on
    sq = jnp.where(penalty >= 0, penalty**2, -(penalty**2))
    jump = jnp.where(live[:, 1:], jnp.diff(ratio, axis=1), 0.0)
    total = jnp.sum(jnp.where(live, cost**2 + sq, 0.0), 1)
    return total + CONTRAST * jnp.sum(jump**2, 1), (cost, penalty, jump, live)


def _dem_bwd(res, g):
    cost, penalty, jump, live = res
    h = 2.0 * jnp.where(live, g[:, None], 0.0)
    d_jump = 2.0 * CONTRAST * g[:, None] * jump
    d_ratio = jnp.pad(d_jump, ((0, 0), (1, 0))) - jnp.pad(d_jump, ((0, 0), (0, 1)))
    return h * cost, h * penalty, d_ratio, None


demerits.defvjp(_dem_fwd, _dem_bwd)


class Face:
    def __init__(self, n_glyphs, seed=0):
        rng = np.random.default_rng(seed)
        self.params = {
            "advance": jnp.asarray(rng.uniform(0.3, 0.9, n_glyphs)),
            "kern": jnp.asarray(rng.normal(0.0, 0.02, (n_glyphs, n_glyphs))),
            "size": jnp.asarray(10.0),
        }

    def loss(self, params, para):
        P, L, N = para["glyphs"].shape
        nat = line_widths(
            params["advance"],
            params["kern"],
            params["size"],
            para["glyphs"].reshape(P * L, N),
            para["length"].reshape(P * L),
        )
        b = badness(nat, para["stretch"].reshape(-1), para["shrink"].reshape(-1), para["measure"])
        r = (para["measure"] - nat).reshape(P, L) / para["stretch"]
        return demerits(b.reshape(P, L), para["penalty"], r, para["lines"]).mean()


def example_paragraphs(n_glyphs=40, P=3, L=5, N=24, seed=1):
    rng = np.random.default_rng(seed)
    return {
        "glyphs": jnp.asarray(rng.integers(0, n_glyphs, (P, L, N))),
        "length": jnp.asarray(rng.integers(N // 2, N + 1, (P, L))),
        "stretch": jnp.asarray(rng.uniform(20.0, 40.0, (P, L))),
        "shrink": jnp.asarray(rng.uniform(10.0, 20.0, (P, L))),
        "penalty": jnp.asarray(rng.choice([-50.0, 0.0, 50.0], (P, L))),
        "lines": jnp.asarray(rng.integers(2, L + 1, P)),
        "measure": jnp.asarray(130.0),
    }


def main():
    face = Face(40)
    para = example_paragraphs()
    value, slope = jax.value_and_grad(face.loss)(face.params, para)
    print(float(value), {k: float(jnp.abs(v).max()) for k, v in slope.items()})


if __name__ == "__main__":
    main()
