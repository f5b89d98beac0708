from math import comb


def hit_probability(k, total, marked, drawn):
    ways = comb(marked, k) * comb(total - marked, drawn - k)
    return ways / comb(total, drawn)


def at_least(k, total, marked, drawn):
    top = min(marked, drawn)
    return sum(hit_probability(i, total, marked, drawn) for i in range(k, top + 1))
