import torch
import torch.nn.functional as F


class Distillation(torch.nn.Module):
    def __init__(self, teacher_temp=0.04, student_temp=0.1):
        super().__init__()
        self.teacher_temp = teacher_temp
        self.student_temp = student_temp

    def forward(self, student, teacher, center):
        p = F.softmax((teacher.detach() - center) / self.teacher_temp, dim=-1)
        q = F.softmax(student / self.student_temp, dim=-1)
        return (p * torch.log(p / q)).sum(dim=-1).mean()
