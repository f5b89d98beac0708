from keras import ops


def distillation_kl(teacher_logits, student_logits, temperature=0.5):
    log_teacher = ops.log_softmax(teacher_logits / temperature, axis=-1)
    log_student = ops.log_softmax(student_logits / temperature, axis=-1)
    teacher = ops.exp(log_teacher)
    gap = log_teacher - log_student
    kl = ops.sum(teacher * gap, axis=-1)
    return temperature**2 * ops.mean(kl)
