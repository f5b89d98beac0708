"""Domains in words: "strictly positive", "in [0, 1]", "for x > 0", "a symmetric positive definite matrix"."""

from __future__ import annotations

import math
import re

from gradcheck_cli.clues.prose.dims import BRACKETS
from gradcheck_cli.clues.prose.passages import SENTENCE_END, Passage
from gradcheck_cli.clues.prose.zero_or_one import is_zero_or_one

_N = r"[-+]?(?:(?:\d+\.?\d*(?:e[-+]?\d+)?|\.\d+)(?:\s*\*?\s*(?:pi\b|π))?|inf|∞|pi|π)"
_INTERVAL = rf"(?P<left>[\[(])\s*(?P<low>{_N})\s*,\s*(?P<high>{_N})\s*(?P<right>[\])])"
# `(exclusive)` behind an interval in words, and nothing of what: neither end belongs to it.
_OPEN = (
    r"(?P<open>,?\s*\(?\s*(?:both\s+|(?:both\s+)?end(?:s|points)?\s+|each\s+)?"
    r"(?:exclusive(?:ly)?|excluded|not included)(?=\s*(?:[).,;:–—-]|$)))?"
)
_BETWEEN = rf"(?P<strictly>(?<!not\s)strictly\s+)?between\s+(?P<low>{_N})\s+and\s+(?P<high>{_N})(?![\w.]*\d|,\d){_OPEN}"
# `in the range 5 to 25`, `runs from 0 to about 0.6 in summer`: of the entry, or of the name that a sentence begins with.
_RANGE = (
    r"(?:^\W*|[,;:]\s*)(?:in the range(?:\s+(?:from|of))?|(?:runs|ranges|goes|varies)\s+from)\s+(?:about\s+)?"
    rf"(?P<low>{_N})\s+to\s+(?:about\s+)?(?P<high>{_N})(?![\w.]*\d)"
    r"(?=\s*(?:[;(]|\)|\.(?:\s|$)|$|(?:in|along|across|inclusive|exclusive)\b))" + _OPEN
)
# What is usual, and what goes beyond.
_LOOSE = re.compile(
    r"\b(?:typical\w*|usual\w*|mostly?|often|but|larger|smaller|beyond|outside|allowed)\b",
    re.IGNORECASE,
)
_IN = (
    r"(?:\b(?:with)?in|∈|\bin the (?:open |closed |half-open )?(?:range|interval)|\brange"
    r"|\binterval|\bfrom)\s*(?:of\s*)?:?\s*"
)
_SIGN = r"(?P<sign>>=|<=|≥|≤|>|<)"
_MUST = (
    r"(?:(?:must|should|has|have|need|needs|assumed|required|expected|supposed|constrained"
    r"|known)\s*(?:to\s+)?(?:all\s+)?be\s+|(?:is|are)\s+(?:assumed|required"
    r"|expected)\s+(?:to be\s+)?)"
)
_ADVERB = r"(?:(?:all|always|strictly|small|tiny|single|finite|scalar|element-?wise|real|an?|the|any|some|with)\s+)*"
_TYPE = r"(?:[\w.]*[aA]rray(?:_like)?|[\w.]*[tT]ensor|floats?|scalar)"  # in the line before, as numpy's style has it
_AT_START = rf"(?:^|[,;:(.]\s*|\b(?:of|is|are|all)\s+|^\W*{_TYPE}\s+)"
_END = (
    r"(?=\s*(?:[,;.)(]|$|(?:real|scalars?|floats?|float\w+|numbers?|values?|vectors?"
    r"|arrays?|tensors?|matri\w+|entries|elements|inputs?|arguments?(?:\(s\))?|distances?|times?|lengths?|weights?|scales?|temperatures?"
    r"|rates?|variances?|targets?|labels?|indicators?|masks?|1d|1-d)\b|of\s+(?:shape|size|length)\b|and\s+finite"
    r"|with\b|shape\b|\[))(?!\s*\w+\s+(?:refers?|means?|indicates?|shifts?|selects?)\b)"
)

# What is positive by its role, and not by its numbers: samples of a contrastive loss, classes, parts.
_POSITIVE_THINGS = (
    r"(?:class|sample|example|pair|label|part|anchor|embed|logit|score|side|direction|half|semi|definite"
    r"|int|and\b|or\b|if\b|for\b|when\b|key|item|view|row|feature|represent|term|quer|doc|passage|image|text"
    r"|edge|link|node|neg|instance|entr|case|match|user|one\b|phase|charge|case)"
)
# The first that is said counts: the narrow ones come before those that they imply.
_FAMILIES = tuple(
    (re.compile(pattern, re.IGNORECASE), domain)
    for pattern, domain in (
        (
            r"positive[- ]?(?:semi-?)?definite|\bspd\b|\bpsd matri|\bcovariance matri"
            r"|(?<!cross-)(?<!cross )\bcovariance\s*(?=[,.;(\[]|$)",
            "in spd",
        ),
        (r"\blower[- ]triangular|\bcholesky factors?\b", "in lower"),
        (r"\bupper[- ]triangular", "in upper"),
        (
            r"\b(?:orthogonal|orthonormal|rotation) matri|\borthonormal (?:columns|basis)",
            "in orthogonal",
        ),
        (
            r"\bnon-?zero (?:quaternions?|vectors?|rows?|directions?|norms?|lengths?|scalars?|numbers?)\b"
            r"|\b(?:any|some|positive|arbitrary) (?:positive )?(?:length|norm)(?: > 0)?(?=\W|$)"
            r"|\bneed not be (?:of unit length|normali[sz]ed|unit)",
            "in nonzero",
        ),
        (
            r"\bunit[- ](?:quaternion|vector|norm|length|direction|normal)"
            r"|\b(?:l2[- ])?normali[sz]ed (?:directions?|vectors?|quaternions?|rows)\b"
            r"|\bof (?:unit )?(?:norm|length) (?:1|one)\b",
            "in unit",
        ),
        (
            r"\bsums?(?:ming)? (?:up )?to (?:one|1)\b|\bprobability (?:simplex|vectors?"
            r"|distributions?)|\b(?:categorical )?distributions? over\b"
            r"|\b(?:on|in|of|inside) the (?:(?:open|interior of the|unit|standard) )?simplex"
            r"|\bsoftmax (?:outputs?|probabilities)",
            "in simplex",
        ),
        (
            r"\b(?:strictly |monotonic(?:ally)? )?(?:increasing|ascending)(?: order|ly sorted)?\b"
            r"|(?:^|[,;(]\s*)(?:strictly )?rising\s*(?=[,;.)]|$)(?!\W*(?:or|and|then)\b)",
            "in increasing",
        ),
        (
            r"\bsorted\b(?! (?:in )?(?:descending|decreasing))"
            r"|\bnever (?:runs?|goe?s?) back(?:wards?)?\b(?!\s+(?:to|on|in|under|below)\b)",
            "in sorted",
        ),
        (
            r"\{\s*-1\s*,\s*\+?1\s*\}|(?<![\w.])(?:\+/-|±)\s*1\b"
            r"|^(?!.*\b(?:ax[ei]s|dims?|dimensions?)\b).*?(?<![\w.])(?:-1 (?:or|and) \+?1|\+?1 (?:or|and) -1)(?![\w.]*\d)",
            "in signs",
        ),
        (
            r"^\W*(?:is |are )?binary\s*(?=[,.;]|$)|\bbinary (?:labels?|targets?|values?|vectors?|arrays?|tensors?|matri\w+|entries"
            r"|indicators?)|\{\s*0\s*,\s*1\s*\}|(?<![\w.])0/1\b|\b(?:either )?0 or 1\b"
            r"|\bzeros and ones\b",
            "in binary",
        ),
        (
            r"^\W*(?:(?!log|un\w*ed|for\b|to\b|from\b|by\b|with\b|which\b"
            r"|that\b)[\w(),]+[\s-]+){0,5}?probabilit(?:y|ies)\b(?! (?:density|space|mass))"
            r"|\b(?:is|of) probabilities\b",
            "in [0, 1]",
        ),
        (  # `[vocab] or None: fixed class weights`, of which a mean is taken
            r"^\W*(?:(?:[\[(][^\[\]()]*[\])]|optional|or|none|fixed|per|the|an?|float\w*|tensor|array)\W+){0,6}(?:class|sample|example|instance|importance)[- ]weights?\b(?!['’]|[^.]*\b(?:logits?|log(?:arithms?)?|negative|deltas?|offsets?|noise|heads?|classifier|layers?|before)\b)",
            ">= 0",
        ),
        (  # which is at least 1; of a count nobody means next to nothing
            r"\b(?:real|float\w*)\b[^.;()]{0,40}?\bstrictly between (?:0|zero) and (?:the|its)\s+(?:[a-z]+'s\s+)?(?:number|count) of\b",
            "in [0.01, 0.99]",
        ),
        (rf"{_AT_START}{_ADVERB}non-?negative\b{_END}|{_MUST}{_ADVERB}non-?negative\b", ">= 0"),
        (
            r"^(?!.*\bsubtract)\W*(?:\([^()]*\)|\[[^\[\]]*\])?[\s,:]*(?:(?!(?:\w+-)?(?:log|net|sign|excess|relativ|centred|centered|standard|normali|chang|residual|differ|transform|whiten|correct|delta|scor|how\b))[\w-]+\s+){0,3}(?<!\bof )(?<!\bfor )(?<!\bper )counts\b"
            r"(?=\s*(?:[,.;(]|$|(?:of|per|in|at|for|by)\b))",
            ">= 0",
        ),
        (
            rf"^\W*(?:\(?{_TYPE}\)?\W+)?non-?negative(?:\s+(?!{_POSITIVE_THINGS})\w+){{1,3}}?\s*(?=[,.;(\[]|$|(?:that|which)\b)",
            ">= 0",
        ),
        (
            rf"(?:{_AT_START}|{_MUST}){_ADVERB}positive\b{_END}|\bstrictly positive\b|(?<!no )(?<!never )\bgreater than (?:0|zero)\b"
            rf"|(?:^|[,;:(]\s*)(?:(?:all|expected|mean|real)\s+)*(?:(?:numbers?|values?|counts?|floats?|weights?)\s+)?above zero\b{_END}",
            "> 0",
        ),
        (
            rf"^\W*(?:\(?{_TYPE}\)?\W+)?(?:strictly\s+)?positive(?:\s+(?!{_POSITIVE_THINGS})\w+){{1,3}}\s*(?=[,.;(\[]|$)",
            "> 0",
        ),
        (
            rf"(?:{_AT_START}|{_MUST}){_ADVERB}negative\b{_END}|(?<!no )(?<!never )\bless than (?:0|zero)\b",
            "< 0",
        ),
        (r"\bsymmetric (?:\w+ )?matri", "in symmetric"),
    )
)
# `yearly fraction of coins lost`: of a whole, so none is more than that.
_SHARE = re.compile(
    r"^\W*?(?:\([^()]*\)|\[[^\[\]]*\])?[\s,:]*(?:(?!log|raw|un\w*ed|for\b|to\b|from\b|by\b|with\b|in\b|of\b|net|excess|chang"
    r"|relativ)[\w-]+\s+){0,2}?(?:fractions?|shares?|proportions?)\s+of\b",
    re.IGNORECASE,
)
_NO_SHARE = re.compile(
    r"%|\b(?:per ?cent|pct|basis points?|exceed\w*|above|more than|larger|greater|beyond|over|negative|signed|short|e\.g"
    r"|[ckm]m|shares? of (?:the )?(?:stock|each asset|an asset))\b",
    re.IGNORECASE,
)
# The type and the shape that an entry begins with: `tf.Tensor, shape (n, k)`, and what they are of follows.
_DECLARED = re.compile(rf"^\W*(?:{_TYPE}\W+)?(?:of\s+)?shape\W{{1,2}}{BRACKETS}\s+(?=[A-Z])")
# The shape alone: `(..., S) positive outcomes`; an interval has no letters.
_SHAPE_ALONE = re.compile(
    r"^\W*?(?:\((?=[^()]*(?:[A-Za-z]|\.\.\.))[^()\[\]]*\)|\[(?=[^\[\]]*(?:[A-Za-z]|\.\.\.))[^()\[\]]*\])(?:\s+or\s+[\[(][^()\[\]]*[\])])?[,:]?\s+(?=(?:strictly\s+)?(?:positive|non-?negative)\b)"
)
# `is a float vector of pitch classes in [0, 12)`: what it holds.
_THINGS = re.compile(r"^an?\s+(?:[\w-]+\s+){1,6}?(?=in\s*[\[(])")
# `friction coefficients > 0`: what an entry is of, before its bound.
_THING_FIRST = re.compile(
    r"^\W*(?:(?!(?:if|when|where|with|for|than|is|are|and|or|to|as|while|because)\b)[A-Za-z][\w-]*\s+){1,5}(?=(?:>=?|<=?|≥|≤)\s*[-+.\d])"
)
# What makes a sentence about something else, or a condition out of a property.
_OTHERWISE = re.compile(
    r"\b(?:if|when|whenever|unless|otherwise|else|elsewhere|piecewise|whether|not|need not"
    r"|may|can be|or negative|possibly|clipped|clamped|rescaled|normali[sz]es|converted"
    r"|becomes?|returns?|outputs?|results?|gradients?|e\.g|means|marks|indicates|signals)\b",
    re.IGNORECASE,
)
# `multiplying it by x gives the sorted x`: not x is sorted, what comes out is.
_OF_A_RESULT = re.compile(r"\b(?:gives?|yields?|produces?|makes?)\b[^.;,]*$", re.IGNORECASE)
_BOTH = re.compile(
    r"\b(?:positive|negative)\W+(?:or|and|nor)\W+(?:negative|positive|zero)\b", re.IGNORECASE
)
_VOUCHED = re.compile(
    r"\b(?:for|with|requires?|assum(?:es|ing)|domain|defined|valid|must|where|provided"
    r"|need(?:s|ed)?|only)\b[^.]*$",
    re.IGNORECASE,
)
# `1 for x > 0` is a case, and no domain.
_VALUE_FOR = re.compile(
    r"(?:\b(?:one|zero|ones|zeros|identity|linear|quadratic|constant|active|nonzero"
    r"|[-\d.]+|(?<!\blog )(?<!\bln )(?<!\bexp )(?<!\bsqrt )[a-z]))\s+for\s*$",
    re.IGNORECASE,
)
_QUANTITY = re.compile(
    r"(?:,|\b(?:distances?|temperatures?|scales?|rates?|radi(?:us|i)|powers?|exponents?"
    r"|orders?|bandwidths?|variances?|concentrations?|shape|thresholds?|weights?|prices?"
    r"|times?|mass(?:es)?|energ(?:y|ies)|margin|penalty|parameters?|arguments?|inputs?"
    r"|values?|numbers?|strength|coefficients?|constant|width|step|size|length|density"
    r"|pressure))\s*$",
    re.IGNORECASE,
)
_ADJECTIVE = (
    r"(?:strictly|unit|sorted|increasing|symmetric|positive|semi|definite|semidefinite|non-?negative"
    r"|lower|upper|triangular|orthogonal|rotation|normali[sz]ed|binary|probabilit(?:y|ies)|spd)"
)
_DESCRIBED = (
    r"(?:real|scalar|batch|of|square|input|direction|quaternions?|vectors?|matri(?:x|ces)|targets?"
    r"|labels?|numbers?|distributions?|weights?|scales?)"
)
_PHRASE = re.compile(
    rf"(?<![\w-]){_ADJECTIVE}(?:[\s-]+(?:{_ADJECTIVE}|{_DESCRIBED}))*[\s`]*$", re.IGNORECASE
)
_TAKEN = re.compile(
    r"\b(?:for|with|of|requires?|assumes?|an?|the|only|all|any|expects?|takes?)\s+$", re.IGNORECASE
)
_CONSTANTS = {"pi": "3.1415927", "π": "3.1415927", "inf": "inf", "∞": "inf"}


# `above -1`, at the end of a clause: behind it would stand what holds there.
_SPELLED_BOUND = re.compile(
    rf"\b((?:strictly\s+)?(?:above|greater than|larger than|below|less than|smaller than)|at least|at most)\s+({_N})"
    r"(?=\s*(?:[,;)]|\.(?:\s|$)|$|and\b|\s\([^()]*\)\s*(?:[.,;]|$)))",
    re.IGNORECASE,
)
# `1 or more`, at the end of a clause, too.
_OR_BEYOND = re.compile(
    rf"(?<![\w.])(?P<value>{_N}|zero) or (?P<more>more|greater|above|larger|higher|less|below|smaller|lower)(?=\s*(?:[,;)]|\.(?:\s|$)|$))",
    re.IGNORECASE,
)
# `no larger than 1` is its opposite, `softer below 1` a case: such words before a bound make it none.
_NO_BOUND = re.compile(
    r"\b(?:no|not|never|nor|or|rarely|usually|often|mostly|\w+er)\s+$", re.IGNORECASE
)
_SIGNS = {
    "above": ">", "greater than": ">", "larger than": ">", "below": "<", "less than": "<", "smaller than": "<",
    "at least": ">=", "at most": "<=",
}  # fmt: skip
_UNIT = (
    r"\s*(?:in\s+)?(?:years?|months?|days?|hours?|minutes?|seconds?|met(?:er|re)s?|degrees?|percent|kelvin|volts?|watts?"
    r"|(?-i:[kMGmcdu]?(?:m|s|g|K|C|V|A|W|J|N|Pa|Hz|mol|bar|eV|h)\d?(?:/[kmc]?(?:m|s|g|K|mol|h)\d?)*))\s*"
)
_BRACKETED = re.compile(
    rf"\s*\((?:{_UNIT},)?\s*(?P<inner>(?:{_SIGN}|(?:strictly\s+)?(?:positive|non-?negative)\b|in\s*[\[(])[^()]*\)?[^()]*)\)",
    re.IGNORECASE,
)
# Behind a shape nothing but the bound, and what says no other: `(non-negative, one entry at least is positive)`.
_NOTHING_ELSE = re.compile(
    rf"(?:(?:>=?|<=?|≥|≤)\s*{_N}|(?:strictly\s+)?(?:positive|non-?negative)|in\s*[\[(][^()\[\]]*[\])])"
    r"\s*(?:,(?!\s*[-+\d])(?!.*(?:\bnegative|[<>]|[-−]\s*\d))[^:]*)?",
    re.IGNORECASE,
)
_EXAMPLES = re.compile(r"\s*\((?:e\.g\b|for example|such as)[^()]*\)?", re.IGNORECASE)
# `= h nu / k T >= 0`: what a formula of symbols is, and no words between.
_EQUATION = re.compile(
    r"\s*=\s*(?=[A-Za-z][^<>≤≥]*[/*^])(?:(?!\b(?:where|the|if|and|or|is|are|for|when|gives?|with|one|an?|to|of)\b)[\w\s/*^+-]){1,40}?"
    r"(?=\s*(?:>=?|<=?|≥|≤))"
)
# `longevity sigma > 0`: a Greek letter of the formula between the name and its bound.
_SYMBOL = re.compile(
    r"\s+(?:alpha|beta|gamma|delta|epsilon|zeta|eta|theta|kappa|lambda|mu|nu|xi|rho|sigma|tau|phi|chi|psi|omega)"
    r"(?=\s*(?:>=?|<=?|≥|≤))"
)
# The other of two that have signs of their own: `compression`, `the compression`, and no denial.
_DENIED = r"(?:no|not|never|none|zero|n?or|any|all|every|each|if|so|n?either|hardly|rarely|seldom|should|must|may|can(?:not)?|be|ever|which)"
_ANOTHER = rf"(?:(?:(?!(?:{_DENIED}|the|its|their)\b)[a-z]++\s++){{1,2}}?(?:(?:is|are)\s++)?|the\s++(?!{_DENIED}\b)[a-z]++\s++)"
_SIDE = rf"(?:for|in|on|at|to)(?:\s++(?!{_DENIED}\b)[a-z]++){{1,4}}?"
# What has two directions, of which one is called positive: `signed`, `positive when the track turns left`.
_TWO_WAYS = re.compile(
    r"(?<![\w-])signed\b|(?<!strictly )(?<!\bbe )\b(?:positive|negative)\s+(?:=|(?:when|if|towards?|along|away|to the|clockwise|counter-?clockwise|anti-?clockwise"
    r"|(?:up|down|in|out|left|right|north|south|east|west)wards?)\b|(?:up|down|left|right|north|south|east|west)\s*(?:[,.;)]|$)|means\s+(?!of\b))"
    # `tension is positive, compression negative`, `positive for gains and negative for losses`
    rf"|\b(?:is|are)\s++positive\s*+(?:,|and\b|but\b)\s*+(?:and\s++)?{_ANOTHER}negative(?=\s*+(?:[.,;)]|$))"
    rf"|\b(?:is|are)\s++negative\s*+(?:,|and\b|but\b)\s*+(?:and\s++)?{_ANOTHER}positive(?=\s*+(?:[.,;)]|$))"
    rf"|(?<!strictly )\bpositive\s++{_SIDE}(?:\s*+,)?\s*+(?:and\s++|but\s++)?negative\s++(?:for|in|on|at|to)\b"
    rf"|(?<![\w-])negative\s++{_SIDE}(?:\s*+,)?\s*+(?:and\s++|but\s++)?positive\s++(?:for|in|on|at|to)\b",
    re.IGNORECASE,
)
_OF_A_SIGN = ("> 0", ">= 0", "< 0", "<= 0")
_STARTS_ITEM = re.compile(r"(?:^|[,;:.])\s*`{0,2}$")
_UNDEFINED = re.compile(r"\b(?:un|ill-?)defined\b|\binvalid\b|\bnan\b|\braises?\b", re.IGNORECASE)
_NEAR = 40  # letters before a comparison that speak of it
_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


# `against the share of the workers who marked it, in [0, 1]`: of what it is, and then how large; of `the sigmoid of x, in [0, 1]` it is the result.
_SET_AGAINST = re.compile(
    r"(?:\b(?:against|versus|vs|given|takes?|expects?)|,)\s+(?:the\s+|an?\s+)?[`'\"]*$",
    re.IGNORECASE,
)
_BEHIND_A_COMMA = re.compile(
    rf"(?:\s+of(?:\s+[\w-]+){{1,8}})?\s*,\s*(?P<interval>{_IN}{_INTERVAL})", re.IGNORECASE
)


def domain(passage: Passage) -> str:
    """The domain of the parameter as a comment has it; nothing where the passage says none."""
    if passage.kind_only:
        return ""
    said = (passage.own or passage.alone) if passage.entry else passage.after
    if is_zero_or_one(said):
        return "in binary"
    if passage.entry:
        return _of_entry(said)
    found = _of_mention(passage)
    asked = re.search(rf"{_MUST}{_ADVERB}(?:non-?)?(?:positive|negative)\b", passage.after)
    is_direction = asked is None and _TWO_WAYS.search(passage.after) is not None
    return "" if found in _OF_A_SIGN and is_direction else found


def branches(text: str, name: str) -> bool:
    """Does the text tell cases of the parameter apart, as `x if x > 0 else 0`?

    One number in a range is no case apart: `0 <= c <= 1; c = 1 is handled by its limit`.
    """
    spelled = re.escape(name)
    if re.search(rf"{_N}\s*(?:<=?|≤)\s*{spelled}\s*(?:<=?|≤)\s*{_N}", text):
        text = re.sub(rf"\b(?:(?:if|when|where)\s+)?{spelled}\s*=\s*{_N}", "", text)
    compared = re.findall(
        rf"\b{spelled}\s*(?:>=|<=|≥|≤|>|<|=|!=)|(?:>=|<=|≥|≤|>|<)\s*{spelled}\b", text
    )
    cases = re.search(rf"\b(?:if|when|whenever|unless|where)\s+\|?{spelled}\b|\b(?:otherwise|elsewhere|else)\b", text)  # fmt: skip
    return (len(compared) > 1 and cases is None and len(set(compared)) > 1) or cases is not None


def _of_entry(text: str) -> str:
    """The domain from all that an entry says, sentence by sentence."""
    for sentence in SENTENCE_END.split(_SHAPE_ALONE.sub("", _DECLARED.sub("", text))):
        if _BOTH.search(sentence):
            continue
        stop = _OTHERWISE.search(sentence)
        kept = _with_signs(sentence[: stop.start()] if stop else sentence)
        found = _interval(kept) or _bound(_THING_FIRST.sub("", kept)) or _family(kept)
        if not found and _SHARE.search(kept) and not _NO_SHARE.search(text):
            found = "in [0, 1]"
        if found and not (found in _OF_A_SIGN and _TWO_WAYS.search(sentence)):
            return found
    return ""


def _interval(text: str) -> str:
    for pattern in (_IN + _INTERVAL, _BETWEEN, _RANGE, rf"{_AT_START}\s*{_INTERVAL}\s*$"):
        match = re.search(pattern, text, re.IGNORECASE)
        if match and not (pattern is _RANGE and _LOOSE.search(text)):
            groups = match.groupdict()
            is_open = groups.get("open") or groups.get("strictly")
            left, right = (
                groups.get("left", "(" if is_open else "["),
                groups.get("right", ")" if is_open else "]"),
            )
            return _written(left, groups["low"], groups["high"], right)
    match = re.search(
        rf"(?P<low>{_N})\s*(?P<first><=?|≤)\s*\w+\s*(?P<last><=?|≤)\s*(?P<high>{_N})", text
    )
    if match is None:
        return ""
    left, right = ("(" if match["first"] == "<" else "["), (")" if match["last"] == "<" else "]")
    return _written(left, match["low"], match["high"], right)


def _written(left: str, low: str, high: str, right: str) -> str:
    """An interval as a comment has it, with one end where the other is infinite."""
    first, last = _number(low), _number(high)
    if first is None or last is None or not float(first) < float(last):
        return ""
    if float(first) == -float("inf"):
        return "" if float(last) == float("inf") else f"{'<' if right == ')' else '<='} {last}"
    if float(last) == float("inf"):
        return f"{'>' if left == '(' else '>='} {first}"
    return f"in {left}{first}, {last}{right}"


def _number(text: str) -> str | None:
    sign, digits = ("-", text[1:]) if text[:1] == "-" else ("", text.lstrip("+"))
    times = re.fullmatch(r"([\d.e+-]+)\s*\*?\s*(?:pi|π)", digits)
    written = sign + (
        _CONSTANTS.get(digits.lower(), digits)
        if times is None
        else f"{float(times[1]) * math.pi:.7g}"
    )
    try:
        float(written)
    except ValueError:
        return None
    return written


def _bound(text: str) -> str:
    """`> 0` or `above 0`, right behind the name or a comma."""
    text = _with_signs(text)
    match = re.search(rf"(?:^\W*|[,;(]\s*|{_MUST}|\bis\s+|\bare\s+|\bfloat\s+|\bvalues?\s+){_SIGN}\s*(?P<value>{_N})(?![\w.]*[\w(])", text)  # fmt: skip
    number = None if match is None else _number(match["value"])
    if match is None or number is None or "inf" in number:
        return ""
    return f"{match['sign'].replace('≥', '>=').replace('≤', '<=')} {number}"


def _with_signs(text: str) -> str:
    """The text with `> -1` for `above -1`, and `>= 1` for `1 or more`."""
    return _OR_BEYOND.sub(_or_beyond, _SPELLED_BOUND.sub(_in_signs, text))


def _or_beyond(said: re.Match[str]) -> str:
    sign = "<=" if said["more"].lower() in ("less", "below", "smaller", "lower") else ">="
    return f"{sign} {'0' if said['value'].lower() == 'zero' else said['value']}"


def _in_signs(said: re.Match[str]) -> str:
    """`> -1` for `above -1`."""
    if _NO_BOUND.search(said.string[: said.start()]):
        return said.group()
    words = said[1].lower().removeprefix("strictly").strip()
    return f"{_SIGNS[words]} {said[2]}"


def _family(text: str) -> str:
    return next((d for pattern, d in _FAMILIES if pattern.search(text)), "")


def _of_mention(passage: Passage) -> str:
    """The domain where a sentence names the parameter: `for x > 0`, `|x| < 1`, `x must be positive`."""
    before, after = passage.before, passage.after
    if described := _within_brackets(_with_signs(after)) or _behind_brackets(after):
        return described
    if (behind := _BEHIND_A_COMMA.match(after)) and _SET_AGAINST.search(before):
        return _interval(behind["interval"])
    if _OTHERWISE.search(before[-60:]) or _OTHERWISE.search(after[:60]):
        return ""
    if _OF_A_RESULT.search(before):
        return ""
    compared = _compared(before, after)
    if compared is not None:
        return _elsewhere(compared) if _UNDEFINED.search(before[-_NEAR:]) else compared
    if passage.common_word and not re.match(r"\s*(?:[,.;:)(\[]|$|(?:of|with) shape)", after):
        return ""
    clause = re.split(r"(?<=\w)[,;]|\.\s|\)\s*$|\band\b|\bwhere\b", after)[0]
    said = re.match(rf"\s*(?:,\s*)?(?P<verb>{_MUST}|is|are|,)\s*(?P<rest>.*)", clause)
    rest = "" if said is None else _OTHERWISE.split(said["rest"])[0]
    beside = said is not None and said["verb"] == "," and re.search(r"\b(?:is|are|be)\b", rest)
    family = "" if beside else _family(f"is {rest}")
    return family or _adjective(before, after)


def _within_brackets(after: str) -> str:
    """`ascend and descend (> 0) are deviations`, `rate (strictly positive)`: what stands in brackets at once."""
    match = _BRACKETED.match(after)
    if match is None:
        return ""
    inner = match["inner"]
    return "" if _OTHERWISE.search(inner) else _interval(inner) or _bound(inner) or _family(inner)


def _behind_brackets(after: str) -> str:
    """`weights (B, T) positive and not normalised`, `flow [n, k] (non-negative)`: what follows at once."""
    shape = re.match(rf"(?:\s+{BRACKETS}|\[[^()\[\]]*\])(?=\s*\()", after)
    bracketed = shape and _BRACKETED.match(after[shape.end() :])
    if bracketed and _NOTHING_ELSE.fullmatch(bracketed["inner"].strip()):
        return _within_brackets(bracketed.group())
    brackets = re.match(
        rf"(?:\s+(?:is|are))?(?:\s*{BRACKETS})+\s*(?:float\w*\s*)?(?:,|\band\b)?\s*(?=[a-z∈<>]|[01]/1\b|[01] or [01]\b)",
        after,
    )
    if brackets is None:
        return ""
    behind = _EXAMPLES.sub("", after[brackets.end() :])
    within = re.match(_IN + _INTERVAL, behind)
    if within is not None:
        return _interval(within.group())
    clause = re.split(r"(?<=\w)[,;]|\.(?:\s|$)|\band\b|\bwhere\b", behind)[0]
    if _OTHERWISE.search(clause):
        return ""
    return _bound(clause) or _family(clause.strip())


def _elsewhere(bound: str) -> str:
    """Where a bound does not hold: `>= 0` for `undefined for x < 0`; empty for an interval."""
    sign, _, number = bound.partition(" ")
    return f"{_OPPOSITE[sign]} {number}" if sign in _OPPOSITE else ""


def _compared(before: str, after: str) -> str | None:
    """The interval in which a sentence puts the name; empty where it is a case, None where there is none."""
    absolute = re.match(rf"\s*(?:\||\))\s*(?P<sign><=?|≤|up to|at most|below)\s*(?P<value>{_N})", after)  # fmt: skip
    if absolute is not None and re.search(r"(?:\||abs\()\s*$", before):
        left, right = ("(", ")") if absolute["sign"] in ("<", "below") else ("[", "]")
        told = _written(left, f"-{absolute['value']}", absolute["value"], right)
        alone = before.strip() in ("|", "abs(") or absolute["sign"].isalpha() or " " in absolute["sign"]  # fmt: skip
        return told if alone or _VOUCHED.search(before) else ""
    chain = re.search(rf"(?P<low>{_N})\s*(?P<first><=?|≤)\s*$", before)
    end = re.match(rf"\s*(?P<last><=?|≤)\s*(?P<high>{_N})(?![\w.]*[\w(])", after)
    if chain and end:
        left, right = ("(" if chain["first"] == "<" else "["), (")" if end["last"] == "<" else "]")
        return _written(left, chain["low"], end["high"], right)
    equation = _EQUATION.match(after)  # `x = h nu / k T >= 0`
    symbol = _SYMBOL.match(after) if _STARTS_ITEM.search(before) else None
    start = max(m.end() if m else 0 for m in (equation, symbol))
    bound = re.match(rf"\s*{_SIGN}\s*(?P<value>{_N})(?![\w.]*[\w(])", after[start:])
    if bound is not None:
        vouched = (
            equation
            or symbol
            or _VOUCHED.search(before)
            or _QUANTITY.search(before)
            or not before.strip(" (`")
        )
        case = _VALUE_FOR.search(before) is not None
        return _bound(f"{bound['sign']} {bound['value']}") if vouched and not case else ""
    rest = re.sub(
        r"^\s*(?:is|are|must be|lies?|should be|has to be|values?)\s+", "", after
    ).lstrip()
    rest = _THINGS.sub("", rest)
    begins = _STARTS_ITEM.search(before) and not _LOOSE.search(after)
    ways = (_IN + _INTERVAL, _BETWEEN, *((_RANGE,) if begins else ()))
    within = next((m for way in ways if (m := re.match(way, rest, re.IGNORECASE))), None)
    return None if within is None else _interval(within.group())


def _adjective(before: str, after: str) -> str:
    """`the unit quaternion q`, `for positive x`, `a symmetric positive definite matrix a`."""
    match = _PHRASE.search(before)
    if match is None or re.search(r"\b(?:log|un\w+)[- ]$", before[: match.start()], re.IGNORECASE):
        return ""
    bare = re.fullmatch(r"(?:strictly\s+)?positive[\s`]*", match.group(), re.IGNORECASE)
    beside_shape = re.match(rf"[\s`]*{BRACKETS}", after)  # positive `weights (C,)`
    if bare and not (beside_shape or _TAKEN.search(before[: match.start()])):
        return ""
    return _family(f"of {match.group()} ".rstrip(" `"))
