import keras
from keras import ops


@keras.saving.register_keras_serializable()
def distillation_kl(teacher, student):
    teacher = ops.clip(teacher, 1e-7, 1.0)
    student = ops.clip(student, 1e-7, 1.0)
    ratio = teacher / student
    divergence = ops.sum(teacher * ops.log(ratio), axis=-1)
    return ops.mean(divergence)
