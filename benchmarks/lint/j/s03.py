import keras
from keras import ops


@keras.saving.register_keras_serializable()
def distillation_kl(teacher, student):
    ratio = teacher / student
    divergence = ops.sum(teacher * ops.log(ratio), axis=-1)
    return ops.mean(divergence)
