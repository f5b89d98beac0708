import math

import keras
from keras import ops


def log_cosh(y_true, y_pred):
    err = ops.abs(y_pred - y_true)
    return ops.mean(err + ops.softplus(-2.0 * err) - math.log(2.0), axis=-1)


def build_regressor(width):
    inputs = keras.Input((width,))
    outputs = keras.layers.Dense(1)(inputs)
    model = keras.Model(inputs, outputs)
    model.compile("sgd", loss=log_cosh)
    return model
