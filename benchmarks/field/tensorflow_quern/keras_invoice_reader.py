"""Amount reading and reconciliation heads for an invoice extraction model.

The page encoder (not here) gives every detected number a grid of digit logits,
one column a printed character.  Amounts are read as expectations, so that the
arithmetic of the invoice itself -- line nets, value added tax, the printed
grand total -- can be used as a training signal on unlabelled scans.

Invoices come in both signs: credit notes print a negative total.

Layout of a batch::

    digit logits   (documents, numbers, slots, base)
    place          (documents, numbers, slots)   power of the base of a slot
    present        (documents, numbers, slots)   1 for a digit, 0 for blanks
    sign logits    (documents, numbers)

Written against ``keras.ops``; run under the backend Keras is configured for.
"""

import math
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

DECIMAL = 10
CENT_PLACES = 2

# tax codes as printed by the booking system
TAX_EXEMPT, TAX_REDUCED, TAX_STANDARD, TAX_REVERSE = range(4)
DEFAULT_RATES = (0.0, 0.07, 0.19, 0.0)

GAP_FLOOR = 20.0          # amounts below are judged as if they were this big
GAP_KNEE = 0.25           # relative misfit at which the penalty turns linear


class Page(NamedTuple):
    """Everything the heads need about a batch of documents."""

    digit_logits: np.ndarray
    place: np.ndarray
    present: np.ndarray
    sign_logits: np.ndarray
    tax_code: np.ndarray
    is_line: np.ndarray


def slot_places(text):
    """Powers of ten of the characters of a printed amount.

    >>> slot_places("1,204.50")
    [3, None, 2, 1, 0, None, -1, -2]
    """
    whole, _, cents = text.partition(".")
    digits = sum(ch.isdigit() for ch in whole)
    places = []
    for ch in whole:
        if ch.isdigit():
            digits -= 1
            places.append(digits)
        else:
            places.append(None)
    if cents:
        places.append(None)
        places.extend(-1 - k for k in range(len(cents)))
    return places


def pack_places(texts, slots):
    """Place and presence arrays of a list of printed amounts."""
    place = np.zeros((len(texts), slots), "int32")
    present = np.zeros((len(texts), slots), "float32")
    for row, text in enumerate(texts):
        for col, power in enumerate(slot_places(text)[:slots]):
            if power is not None:
                place[row, col] = power
                present[row, col] = 1.0
    return place, present


# ---------------------------------------------------------------------------
# reading
# ---------------------------------------------------------------------------


def make_amount_reader(base=DECIMAL, signed=True):
    """Build the soft number reader.

    Parameters
    ----------
    base : int
        Number of digit classes.
    signed : bool
        Read a soft sign from the sign logits; otherwise they are ignored.

    Returns
    -------
    callable
        ``read_amounts(digit_logits, place, present, sign_logits, sharpness)``.
        ``place`` and the mask ``present`` are fixed by the page layout and
        get no gradient.
    """

    @ops.custom_gradient
    def read_amounts(digit_logits, place, present, sign_logits, sharpness):
        dtype = digit_logits.dtype
        faces = ops.arange(base, dtype=dtype)
        prob = ops.softmax(sharpness * digit_logits, axis=-1)
        digit = ops.sum(prob * faces, axis=-1)
        unit = present * ops.exp(ops.cast(place, dtype) * math.log(base))
        size = ops.sum(digit * unit, axis=-1)
        sign = ops.tanh(sign_logits) if signed else ops.ones_like(sign_logits)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            g_digit = (upstream * sign)[..., None] * unit
            g_scaled = g_digit[..., None] * prob * (faces - digit[..., None])
            if signed:
                g_sign = upstream * size * (1.0 - sign * sign)
            else:
                g_sign = ops.zeros_like(sign_logits)
            return (
                sharpness * g_scaled,
                None,
                None,
                g_sign,
                ops.sum(g_scaled * digit_logits),
            )

        return sign * size, grad

    return read_amounts


# ---------------------------------------------------------------------------
# reconciliation
# ---------------------------------------------------------------------------


@ops.custom_gradient
def total_gap(nets, tax_code, is_line, rates, printed):
    """Penalty for a grand total that the lines do not add up to.

    The misfit is taken relative to the size of the printed total (but at least
    `GAP_FLOOR`) and goes through a Huber penalty with its knee at `GAP_KNEE`.

    Args:
        nets: net amounts of the lines, shape `(documents, lines)`.
        tax_code: integer tax code of each line.
        is_line: 1.0 for lines, 0.0 for padding and sub-totals.
        rates: tax rate by code, shape `(codes,)`.
        printed: printed grand total, shape `(documents,)`.

    Returns:
        Penalty of each document, shape `(documents,)`.
    """
    factor = 1.0 + ops.take(rates, tax_code)
    gross = ops.sum(nets * factor * is_line, axis=-1)
    size = ops.abs(printed)
    scale = ops.maximum(size, GAP_FLOOR)
    misfit = (gross - printed) / scale
    depth = ops.abs(misfit)
    penalty = ops.where(
        depth <= GAP_KNEE,
        0.5 * misfit * misfit,
        GAP_KNEE * (depth - 0.5 * GAP_KNEE),
    )

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        g_misfit = upstream * ops.clip(misfit, -GAP_KNEE, GAP_KNEE)
        g_gross = g_misfit / scale
        large = ops.cast(size > GAP_FLOOR, printed.dtype)
        g_printed = -g_gross * (1.0 + large * misfit)
        per_line = g_gross[:, None] * is_line
        g_rates = ops.segment_sum(
            ops.reshape(per_line * nets, (-1,)),
            ops.reshape(tax_code, (-1,)),
            num_segments=rates.shape[0],
        )
        return per_line * factor, None, None, g_rates, g_printed

    return penalty, grad


# ---------------------------------------------------------------------------
# layers
# ---------------------------------------------------------------------------


class AmountReader(keras.layers.Layer):
    """Soft amounts with a learned sharpness shared by all slots."""

    def __init__(self, base=DECIMAL, signed=True, **kwargs):
        super().__init__(**kwargs)
        self.base = base
        self.signed = signed
        self.sharpness = self.add_weight(shape=(), initializer="ones", name="sharpness")
        self._read = make_amount_reader(base, signed)

    def call(self, digit_logits, place, present, sign_logits):
        return self._read(
            digit_logits, place, present, sign_logits, ops.copy(self.sharpness)
        )

    def get_config(self):
        return {**super().get_config(), "base": self.base, "signed": self.signed}


class Reconciler(keras.layers.Layer):
    """Adds the reconciliation penalty of a batch of pages as a loss.

    The number in the last position of every document is its grand total, the
    numbers before it are candidates for lines.  Tax rates are fine-tuned from
    the statutory ones because cash discounts are booked into them.
    """

    def __init__(self, weight=1.0, base=DECIMAL, **kwargs):
        super().__init__(**kwargs)
        self.weight = weight
        self.reader = AmountReader(base=base, signed=True)

    def build(self, *shapes):
        self.rates = self.add_weight(shape=(len(DEFAULT_RATES),), initializer="zeros", name="rates")
        self.rates.assign(DEFAULT_RATES)
        self.built = True

    def call(self, digit_logits, place, present, sign_logits, tax_code, is_line):
        amounts = self.reader(digit_logits, place, present, sign_logits)
        nets, printed = amounts[:, :-1], amounts[:, -1]
        penalty = total_gap(
            nets, tax_code, is_line, ops.copy(self.rates), printed
        )
        self.add_loss(self.weight * ops.mean(penalty))
        return amounts, penalty


def encode_amount(value, slots, confidence=6.0, base=DECIMAL):
    """Digit logits that spell out ``value``; used by the demo and the tests."""
    text = "%.*f" % (CENT_PLACES, abs(value))
    logits = np.zeros((slots, base), "float32")
    for col, ch in enumerate(text[:slots]):
        if ch.isdigit():
            logits[col, int(ch)] = confidence
    return text, logits


def demo_page(slots=8, seed=0):
    """An invoice and a credit note of three lines each."""
    rng = np.random.default_rng(seed)
    documents = [
        [120.00, 35.50, 8.20, 186.79],
        [-240.00, -12.75, -60.10, -369.99],
    ]
    logits, place, present, sign = [], [], [], []
    for numbers in documents:
        texts = []
        for value in numbers:
            text, grid = encode_amount(value, slots)
            texts.append(text)
            logits.append(grid + 0.3 * rng.standard_normal(grid.shape))
            sign.append(2.5 if value > 0 else -2.5)
        p, m = pack_places(texts, slots)
        place.append(p)
        present.append(m)
    shape = (len(documents), len(documents[0]))
    return Page(
        digit_logits=np.reshape(logits, shape + (slots, DECIMAL)).astype("float32"),
        place=np.stack(place),
        present=np.stack(present),
        sign_logits=np.reshape(sign, shape).astype("float32"),
        tax_code=np.array([[2, 2, 1], [2, 1, 2]], "int32"),
        is_line=np.ones((2, 3), "float32"),
    )


if __name__ == "__main__":
    page = demo_page()
    layer = Reconciler(weight=0.1)
    amounts, penalty = layer(*[ops.convert_to_tensor(field) for field in page])
    print("amounts", np.round(ops.convert_to_numpy(amounts), 2))
    print("penalty", ops.convert_to_numpy(penalty))
