"""Sherry from a solera.

The casks of a solera stand in tiers.  Wine for bottling is drawn from the oldest tier, which is topped up from the next
younger one, and so on up to the youngest, which gets new wine; no tier is ever emptied.  The cellar book therefore
fixes how old, how woody and how dry the bottled wine is, and the questions of the cellar master ("what if we had drawn
a little less in March?") are derivatives of that book.

Written against `keras.ops` alone.
"""
from dataclasses import dataclass, field
from typing import Sequence

from keras import ops


def _upstream(args, upstream):
    if upstream is None:
        (upstream,) = args
    return upstream


def make_solera(book: Sequence[str]):
    """Composition of the tiers after the events of the cellar book.

    Args:
        book: events in order of time.  "draw" is a saca: the fraction f of every tier moves one tier on.  "stir" is a
            blending of all tiers towards their common mean by f (done when a bodega levels its casks).

    Returns:
        A function of
          tiers (components, tiers), youngest tier first,
          sobretabla (components,), the composition of new wine, and
          fractions (events,), in 0..1, one for each entry of the book,
        giving the composition (components, tiers) at the end.
    """
    unknown = set(book) - {"draw", "stir"}
    if unknown:
        raise ValueError(f"unknown events {sorted(unknown)}")

    @ops.custom_gradient
    def tier_composition(tiers, sobretabla, fractions):
        new = ops.expand_dims(sobretabla, -1)
        now = tiers
        gaps = []
        for t, event in enumerate(book):
            if event == "draw":
                source = ops.concatenate([new, now[:, :-1]], axis=1)
            else:
                source = ops.sum(now, axis=1, keepdims=True) / now.shape[1] + ops.zeros_like(now)
            gaps.append(source - now)
            now = now + fractions[t] * gaps[-1]

        def grad(*args, upstream=None):
            back = _upstream(args, upstream)
            d_new = ops.zeros_like(sobretabla)
            d_fractions = []
            for t in range(len(book) - 1, -1, -1):
                d_fractions.insert(0, ops.sum(back * gaps[t]))
                moved = fractions[t] * back
                stay = back - moved
                if book[t] == "draw":
                    d_new = d_new + moved[:, 0]
                    back = stay + ops.concatenate([moved[:, 1:], ops.zeros_like(moved[:, :1])], axis=1)
                else:
                    back = stay + ops.sum(moved, axis=1, keepdims=True) / moved.shape[1]
            slope = ops.stack(d_fractions) if d_fractions else ops.zeros_like(fractions)
            return back, d_new, slope

        return now, grad

    return tier_composition


def make_oak_uptake(fills: int = 0):
    """Wood compounds that a wine takes from its cask.

    A cask gives up its extractables with a first order rate.  `fills` is how many wines lay in the cask before this one;
    each of them lay as long as this one does, and took its part: a cask of second fill (fills=1) starts with what the
    first wine left.

    The function takes stock (compounds,) in mg/l of a new cask, rate (compounds,) a month, and months (casks,).  It
    returns mg/l of shape (casks, compounds).
    """

    @ops.custom_gradient
    def oak_uptake(stock, rate, months):
        spent = ops.expand_dims(months, -1) * rate
        left = ops.exp(-fills * spent)
        taken = 1.0 - ops.exp(-spent)
        out = stock * left * taken

        def grad(*args, upstream=None):
            g = _upstream(args, upstream)
            d_stock = ops.sum(g * left * taken, axis=0)
            d_spent = g * stock * left * ops.exp(-spent)
            d_rate = ops.sum(d_spent * ops.expand_dims(months, -1), axis=0)
            d_months = ops.sum(d_spent * rate, axis=-1)
            return d_stock, d_rate, d_months

        return out, grad

    return oak_uptake


@dataclass
class Bodega:
    """One solera with the casks in which its new wine waits."""

    stock: Sequence[float]
    rate: Sequence[float]
    fills: int = 0
    book: Sequence[str] = field(default_factory=list)

    def bottled(self, tiers, months, fractions):
        """Composition (compounds,) of the oldest tier, new wine being the mean of casks that lay for `months`."""
        wood = make_oak_uptake(self.fills)(
            ops.convert_to_tensor(self.stock, dtype=tiers.dtype), ops.convert_to_tensor(self.rate, dtype=tiers.dtype), months)
        return make_solera(self.book)(tiers, ops.mean(wood, axis=0), fractions)[:, -1]


def main():
    bodega = Bodega([40.0, 6.0], [0.08, 0.15], fills=2, book=["draw", "stir", "draw"])
    tiers = ops.convert_to_tensor([[5.0, 9.0, 14.0], [1.0, 1.5, 2.0]], dtype="float32")
    print(bodega.bottled(tiers, ops.convert_to_tensor([6.0, 9.0], dtype="float32"),
                         ops.convert_to_tensor([0.3, 0.1, 0.25], dtype="float32")))


if __name__ == "__main__":
    main()
