import keras
from keras import ops


class PosteriorHead(keras.layers.Layer):
    def __init__(self, latent_dim, **kwargs):
        super().__init__(**kwargs)
        self.mean_proj = keras.layers.Dense(latent_dim)
        self.scale_proj = keras.layers.Dense(latent_dim)

    def kl_to_prior(self, mean, raw):
        sigma = ops.relu(raw)
        kl = 0.5 * (ops.square(mean) + ops.square(sigma) - 1.0) - ops.log(sigma)
        return ops.mean(ops.sum(kl, axis=-1))

    def call(self, hidden):
        mean = self.mean_proj(hidden)
        self.add_loss(self.kl_to_prior(mean, self.scale_proj(hidden)))
        return mean
