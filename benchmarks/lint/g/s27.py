from scipy.special import comb


def overlap_probability(k, genes, in_set, drawn):
    ways = comb(in_set, k) * comb(genes - in_set, drawn - k)
    return ways / comb(genes, drawn)


def enrichment_p(k, genes, in_set, drawn):
    top = min(in_set, drawn)
    return sum(overlap_probability(i, genes, in_set, drawn) for i in range(k, top + 1))
