import math
from collections import Counter


class UnigramModel:
    def __init__(self, corpus):
        self.counts = Counter(corpus)
        self.total = sum(self.counts.values())

    def prob(self, word):
        return (self.counts[word] + 1) / (self.total + len(self.counts) + 1)

    def score(self, words):
        likelihood = 0.0
        for w in words:
            likelihood += math.log(self.prob(w))
        return likelihood
