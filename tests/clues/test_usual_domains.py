"""What names suggest."""

from __future__ import annotations

import pytest

from gradcheck_cli.clues.usual_domains import clues, named


@pytest.mark.parametrize(
    ("function", "name", "domain"),
    [
        ("kernel", "sigma", "in [1e-6, 1e6]"),
        ("kernel", "noise_std", "in [1e-6, 1e6]"),
        ("energy", "masses", "in [1e-6, 1e6]"),
        ("energy", "mass", "in [1e-6, 1e6]"),
        ("layer_norm", "scale", ""),
        ("gamma_logpdf", "scale", "in [1e-3, 1e4]"),
        ("beta_log_prob", "alpha", "in [1e-3, 1e4]"),
        ("mix", "alpha", ""),
        ("gaussian_nll", "log_std", "in [-20, 20]"),
        ("clip_loss", "log_t", "in [-20, 20]"),
        ("weibull", "log_shape", "in [-20, 20]"),
        ("growth", "log_k", "in [-20, 20]"),
        ("meter", "source_db", "in [-200, 200]"),
        ("meter", "thickness", "in [1e-6, 1e6]"),
        ("ageing", "q10", "in [1e-6, 1e6]"),
        ("hmm", "log_A", ""),
        ("votes", "log_sharpness", "in [-20, 20]"),
        ("mixing", "log_tokens", "in [-20, 20]"),
        ("kernel", "log_band", "in [-20, 20]"),
        ("survival", "log_hazard", ""),
        ("choice", "log_class_probs", ""),
        ("choice", "logits", ""),
        ("layer", "x", ""),
        ("kumaraswamy_from_uniform", "u", "in (0, 1)"),
        ("GeneralizedParetoFromUniformFunction", "scale", "in [1e-3, 1e4]"),
        ("beta_icdf", "p", "in (0, 1)"),
        ("quantile_huber", "q", ""),
        ("matvec", "u", ""),
        ("FakeQuantSte", "scale", "in [1e-6, 1e6]"),
        ("lsq_round", "step", "in [1e-6, 1e6]"),
        ("make_step", "step", ""),
        ("solve", "jitter", "in [1e-6, 1e6]"),
        ("dispersal", "distance", "in [0, 1e6]"),
        ("tally", "cell_areas", "in [0, 1e6]"),
        ("page", "pages", ""),
        ("average", "average", ""),
        ("gp", "params['log_amplitude']", "in [-20, 20]"),
        ("mix", "params['log_scale']", "in [-20, 20]"),
        ("energy", "state.mass", "in [1e-6, 1e6]"),
    ],
)
def test_domains_by_name(function: str, name: str, domain: str) -> None:
    found = clues(function, [name])
    assert (found[name].domain if name in found else "") == domain


def test_a_step_is_a_single_number() -> None:
    assert clues("euler", ["dt"])["dt"].spec == "f32[]"


class FromUniformFunction:
    def forward(self, u: float) -> float:
        return u


def test_the_call_of_a_class_is_named_by_it() -> None:
    assert named(FromUniformFunction.forward) == "FromUniformFunction"
    assert named(clues) == "clues"
