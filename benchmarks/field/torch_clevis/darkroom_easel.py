# Planning a black-and-white print before any paper is spent.
#
# Cards are held in the light to keep parts of the sheet pale (dodging) or to give other parts more (burning).
# The planner finds seconds and card shapes by gradient descent on the wanted densities.

import torch
import torch.nn.functional as F


def sheet_grid(height, width, pitch_cm, like):
    ys = (torch.arange(height, dtype=like.dtype, device=like.device) - (height - 1) / 2) * pitch_cm
    xs = (torch.arange(width, dtype=like.dtype, device=like.device) - (width - 1) / 2) * pitch_cm
    return ys[:, None], xs[None, :]


class DodgeBurn(torch.autograd.Function):
    """Exposure of the sheet below the enlarger.

    seconds      prints x strokes
    cards        strokes x rows x columns, the share of light that a card lets through
    lamp_height  cm above the easel, a scalar
    lamp_centre  (y, x) in cm from the middle of the sheet
    returns      prints x rows x columns
    """

    @staticmethod
    def forward(ctx, seconds, cards, lamp_height, lamp_centre, pitch_cm):
        ys, xs = sheet_grid(cards.shape[1], cards.shape[2], pitch_cm, cards)
        reach = lamp_height ** 2 + (ys - lamp_centre[0]) ** 2 + (xs - lamp_centre[1]) ** 2
        light = 1.0e3 * lamp_height ** 2 / reach ** 2     # cosine to the fourth over height squared
        passed = torch.einsum("ps,shw->phw", seconds, cards)
        ctx.save_for_backward(seconds, cards, lamp_height, lamp_centre, reach, light, passed)
        ctx.pitch_cm = pitch_cm
        return passed * light

    @staticmethod
    def backward(ctx, grad):
        seconds, cards, lamp_height, lamp_centre, reach, light, passed = ctx.saved_tensors
        ys, xs = sheet_grid(cards.shape[1], cards.shape[2], ctx.pitch_cm, cards)
        lit = grad * light
        g_seconds = torch.einsum("phw,shw->ps", lit, cards)
        g_cards = torch.einsum("phw,ps->shw", lit, seconds)
        g_light = (grad * passed).sum(0) * light
        g_height = (g_light * (2 / lamp_height - 4 * lamp_height / reach)).sum()
        g_centre = torch.stack([
            (g_light * 4 * (ys - lamp_centre[0]) / reach).sum(),
            (g_light * 4 * (xs - lamp_centre[1]) / reach).sum(),
        ])
        return g_seconds, g_cards, g_height, g_centre, None


class SoftFilter(torch.autograd.Function):
    """Spread of the light by a diffusing filter, in whatever direction the filter was breathed on.

    image (prints, rows, columns), spread (odd, odd).  No light comes from outside of the sheet.
    out[y, x] = sum of spread[j, i] * image[y + j - middle, x + i - middle]
    """

    @staticmethod
    def forward(ctx, image, spread):
        ctx.save_for_backward(image, spread)
        pad = (spread.shape[0] // 2, spread.shape[1] // 2)
        return F.conv2d(image.unsqueeze(1), spread[None, None], padding=pad).squeeze(1)

    @staticmethod
    def backward(ctx, grad):
        image, spread = ctx.saved_tensors
        rows, columns = spread.shape
        pad = (rows // 2, columns // 2)
        g_image = g_spread = None
        if ctx.needs_input_grad[0]:
            g_image = F.conv2d(grad.unsqueeze(1), spread[None, None], padding=pad).squeeze(1)
        if ctx.needs_input_grad[1]:
            patches = F.unfold(image.unsqueeze(1), (rows, columns), padding=pad)
            g_spread = torch.einsum("pkn,pn->k", patches, grad.reshape(grad.shape[0], -1)).view(rows, columns)
        return g_image, g_spread


class PaperTone(torch.autograd.Function):
    """Density of the developed paper, from the decimal log of the exposure.

    Below the speed point the curve has the grade `toe`, above it the grade `shoulder`; warm-tone papers have a soft toe.
    speed, toe, shoulder, base and black are scalars.
    """

    @staticmethod
    def forward(ctx, log_exposure, speed, toe, shoulder, base, black):
        over = log_exposure - speed
        grade = torch.where(over < 0, toe, shoulder)
        s = torch.sigmoid(grade * over)
        ctx.save_for_backward(over, s, toe, shoulder, base, black)
        return base + (black - base) * s

    @staticmethod
    def backward(ctx, grad):
        over, s, toe, shoulder, base, black = ctx.saved_tensors
        low = over < 0
        inner = grad * (black - base) * s * (1 - s)
        zero = torch.zeros_like(inner)
        g_log = inner * torch.where(low, toe, shoulder)
        g_speed = -(inner * toe).sum()
        g_toe = torch.where(low, inner * over, zero).sum()
        g_shoulder = torch.where(low, zero, inner * over).sum()
        return g_log, g_speed, g_toe, g_shoulder, (grad * (1 - s)).sum(), (grad * s).sum()


def make_paper(speed=1.2, grade=3.0, toe=None, base=0.06, black=2.1):
    """A paper as a function of the exposure; `toe` is the grade itself unless the data sheet gives another."""
    toe = grade if toe is None else toe

    def density(exposure):
        numbers = [exposure.new_tensor(v) for v in (speed, toe, grade, base, black)]
        return PaperTone.apply(torch.log10(exposure), *numbers)

    return density


class PrintPlan(torch.nn.Module):
    def __init__(self, prints, strokes, rows, columns, pitch_cm=0.5, paper=None):
        super().__init__()
        self.log_seconds = torch.nn.Parameter(torch.zeros(prints, strokes))
        self.card_logits = torch.nn.Parameter(torch.zeros(strokes, rows, columns))
        self.height = torch.nn.Parameter(torch.tensor(45.0))
        self.register_buffer("centre", torch.zeros(2))
        self.pitch_cm = pitch_cm
        self.paper = paper or make_paper()

    def forward(self, negative, spread):
        light = DodgeBurn.apply(self.log_seconds.exp(), torch.sigmoid(self.card_logits), self.height, self.centre,
                                self.pitch_cm)
        return self.paper(SoftFilter.apply(light * negative, spread).clamp(min=1e-4))
