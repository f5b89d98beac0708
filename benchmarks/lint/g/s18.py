import torch
import torch.nn.functional as F


class SelfDistillation(torch.nn.Module):
    def __init__(self, teacher_temp=0.04, student_temp=0.1):
        super().__init__()
        self.teacher_temp = teacher_temp
        self.student_temp = student_temp

    def forward(self, student, teacher, center):
        log_p = F.log_softmax((teacher.detach() - center) / self.teacher_temp, dim=-1)
        log_q = F.log_softmax(student / self.student_temp, dim=-1)
        return (log_p.exp() * (log_p - log_q)).sum(dim=-1).mean()
