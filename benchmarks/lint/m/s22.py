import keras
from keras import ops


def log_cosh(y_true, y_pred):
    err = y_pred - y_true
    return ops.mean(ops.log(ops.cosh(err)), axis=-1)


def build_regressor(width):
    inputs = keras.Input((width,))
    outputs = keras.layers.Dense(1)(inputs)
    model = keras.Model(inputs, outputs)
    model.compile("sgd", loss=log_cosh)
    return model
