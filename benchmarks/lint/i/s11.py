from keras import ops


def distillation_kl(teacher_logits, student_logits, temperature=0.5):
    teacher = ops.softmax(teacher_logits / temperature, axis=-1)
    log_student = ops.log_softmax(student_logits / temperature, axis=-1)
    gap = ops.log(teacher) - log_student
    kl = ops.sum(teacher * gap, axis=-1)
    return temperature**2 * ops.mean(kl)
