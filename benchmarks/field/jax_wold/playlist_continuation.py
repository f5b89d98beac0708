"""Playlist continuation: ragged listening histories in, a ranking of the catalogue out."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp


@dataclasses.dataclass
class PlaylistConfig:
    num_tracks: int = 5000
    num_artists: int = 800
    width: int = 64
    temperature: float = 1.0
    reduction: str = "pairs"


# --- history -----------------------------------------------------------------------------------------------------


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def faded_history(emb, rate, gap, owner, num_playlists):
    """Weighted mean of the plays of each playlist, with weights that fade with age at a rate per feature.

    emb (T, D) are the plays of all playlists, in any order; gap (T,) their age >= 0; owner (T,) the playlist of a play;
    rate (D,) any real, made positive by a softplus.  A playlist with no plays gets zeros.
    """
    return _faded(emb, rate, gap, owner, num_playlists)[0]


def _faded(emb, rate, gap, owner, num_playlists):
    speed = jax.nn.softplus(rate)
    # the youngest play of a playlist gets weight one, which leaves the mean as it is
    youngest = jax.ops.segment_min(gap, owner, num_playlists)
    age = gap - youngest[owner]
    w = jnp.exp(-age[:, None] * speed)
    mass = jax.ops.segment_sum(w, owner, num_playlists)
    mass = jnp.where(mass > 0, mass, 1.0)
    mean = jax.ops.segment_sum(w * emb, owner, num_playlists) / mass
    return mean, (w / mass[owner], mean, speed)


def _faded_fwd(emb, rate, gap, owner, num_playlists):
    mean, (share, mean_, speed) = _faded(emb, rate, gap, owner, num_playlists)
    return mean, (emb, rate, gap, owner, share, mean_, speed)


def _faded_bwd(num_playlists, res, g):
    emb, rate, gap, owner, share, mean, speed = res
    g_play = g[owner] * share
    g_log_w = g_play * (emb - mean[owner])
    g_speed = -(g_log_w * gap[:, None]).sum(0)
    g_gap = -(g_log_w * speed).sum(1)
    return g_play, g_speed * jax.nn.sigmoid(rate), g_gap, None


faded_history.defvjp(_faded_fwd, _faded_bwd)


# --- scores ------------------------------------------------------------------------------------------------------


@jax.custom_vjp
def catalogue_scores(hidden, track, artist, bias, log_scale, artist_of_track):
    """Scores of all tracks; a track is its own vector plus that of its artist.

    hidden           (B, D)
    track            (V, D)
    artist           (A, D)
    bias             (V,)
    log_scale        ()
    artist_of_track  (V,) int, -1 for a track without an artist credit
    """
    table = _track_table(track, artist, artist_of_track)
    return jnp.exp(log_scale) * (hidden @ table.T) + bias


def _track_table(track, artist, artist_of_track):
    credited = (artist_of_track >= 0)[:, None]
    return track + jnp.where(credited, artist[artist_of_track], 0.0)


def _scores_fwd(hidden, track, artist, bias, log_scale, artist_of_track):
    table = _track_table(track, artist, artist_of_track)
    scale = jnp.exp(log_scale)
    dots = hidden @ table.T
    return scale * dots + bias, (hidden, table, artist, scale, dots, artist_of_track)


def _scores_bwd(res, g):
    hidden, table, artist, scale, dots, artist_of_track = res
    g_hidden = scale * (g @ table)
    g_table = scale * (g.T @ hidden)
    g_artist = jnp.zeros_like(artist).at[artist_of_track].add(g_table)
    return g_hidden, g_table, g_artist, g.sum(0), scale * (g * dots).sum(), None


catalogue_scores.defvjp(_scores_fwd, _scores_bwd)


# --- loss --------------------------------------------------------------------------------------------------------


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def pairwise_order_loss(scores, kept, skipped, valid, reduction="pairs"):
    """Kept tracks should score above skipped ones.

    scores (B, V); kept (B, P) and skipped (B, N) are track ids, which may repeat; valid (B, P, N) bool marks the pairs
    that count.  ``reduction`` is "sum", "pairs" (mean over the pairs that count) or "playlists" (mean over pairs within
    a playlist, then over the playlists that have any).
    """
    return _order_fwd(scores, kept, skipped, valid, reduction)[0]


def _order_fwd(scores, kept, skipped, valid, reduction):
    high = jnp.take_along_axis(scores, kept, axis=1)
    low = jnp.take_along_axis(scores, skipped, axis=1)
    gap = high[:, :, None] - low[:, None, :]
    pair = jnp.where(valid, jax.nn.softplus(-gap), 0.0)
    per_row = pair.sum((1, 2))
    count = valid.sum((1, 2))
    if reduction == "sum":
        loss = per_row.sum()
    elif reduction == "pairs":
        loss = per_row.sum() / jnp.maximum(count.sum(), 1)
    elif reduction == "playlists":
        rows = jnp.maximum((count > 0).sum(), 1)
        loss = (per_row / jnp.maximum(count, 1)).sum() / rows
    else:
        raise ValueError(f"unknown reduction {reduction!r}")
    return loss, (scores, kept, skipped, valid, gap, count)


def _order_bwd(reduction, res, g):
    scores, kept, skipped, valid, gap, count = res
    slope = -jnp.where(valid, jax.nn.sigmoid(-gap), 0.0) * g
    if reduction == "pairs":
        slope = slope / jnp.maximum(count.sum(), 1)
    elif reduction == "playlists":
        slope = slope / jnp.maximum(count, 1)[:, None, None] / scores.shape[0]
    rows = jnp.arange(scores.shape[0])[:, None]
    g_scores = jnp.zeros_like(scores)
    g_scores = g_scores.at[rows, kept].add(slope.sum(2))
    g_scores = g_scores.at[rows, skipped].add(-slope.sum(1))
    return g_scores, None, None, None


pairwise_order_loss.defvjp(_order_fwd, _order_bwd)


class PlaylistModel:
    """History encoder, tied catalogue and loss."""

    def __init__(self, config: PlaylistConfig, artist_of_track):
        self.config = config
        self.artist_of_track = jnp.asarray(artist_of_track)

    def init(self, key):
        c = self.config
        k1, k2 = jax.random.split(key)
        return {
            "track": 0.02 * jax.random.normal(k1, (c.num_tracks, c.width)),
            "artist": 0.02 * jax.random.normal(k2, (c.num_artists, c.width)),
            "bias": jnp.zeros(c.num_tracks),
            "rate": jnp.zeros(c.width),
            "log_scale": -jnp.log(c.temperature),
        }

    def scores(self, params, plays, gap, owner, num_playlists):
        emb = params["track"][plays]
        hidden = faded_history(emb, params["rate"], gap, owner, num_playlists)
        return catalogue_scores(
            hidden,
            params["track"],
            params["artist"],
            params["bias"],
            params["log_scale"],
            self.artist_of_track,
        )

    def loss(self, params, batch, num_playlists):
        s = self.scores(params, batch["plays"], batch["gap"], batch["owner"], num_playlists)
        return pairwise_order_loss(
            s, batch["kept"], batch["skipped"], batch["valid"], self.config.reduction
        )
