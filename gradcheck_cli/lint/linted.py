"""One source: its findings, each at the expression that fails."""

from __future__ import annotations

import ast
import functools
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from gradcheck_cli.contract.report import Finding
from gradcheck_cli.lint.conditions import asked_names, names
from gradcheck_cli.lint.contracts import Broken, Module, broken
from gradcheck_cli.lint.lifting import Lifted, lift, scenes
from gradcheck_cli.lint.own_rules import undifferentiated
from gradcheck_cli.lint.repair import Source, repair
from gradcheck_cli.lint.rulebook import Form, Hit, forms
from gradcheck_cli.lint.spans import Span
from gradcheck_cli.lint.terms import POWER, PRODUCT, Term
from gradcheck_cli.lint.vocabulary import DIFFERENTIATE, computes
from gradcheck_cli.project.rule_pages import Rule, find
from gradcheck_cli.project.unreadable import no_python, unread

WHERE = "where"
_CAUTION = "  (better where this fails, not everywhere)"
_MOST_LETTERS = 2_000_000
_TOO_DEEP = "nested too deeply to be read"


def linted(source: str, path: str) -> list[Finding]:
    """The findings in a source, in the order of their places."""
    if len(source) > _MOST_LETTERS:
        return [unread(path, 1, f"{len(source)} letters are more than are read")]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except SyntaxError as error:
        return [no_python(path, source, error)]
    except ValueError as error:  # a zero byte
        return [unread(path, 1, str(error))]
    except (RecursionError, MemoryError):
        return [unread(path, 1, _TOO_DEEP)]
    if not computes(source):
        return []
    try:
        terms = lift(tree)
    except (RecursionError, MemoryError):
        return [unread(path, 1, _TOO_DEEP)]
    return _told(Source(source, tree), terms, path)


def _told(whole: Source, terms: Sequence[Lifted], path: str) -> list[Finding]:
    """What there is to tell of these terms, and of what a framework asks of a module."""
    tree = whole.tree
    roots = _roots(whole)
    hits = [hit for lifted in terms for hit in _hits(lifted, roots)]
    choices = _choices(terms)
    values_only = undifferentiated(tree)
    found: dict[tuple[Span, str], Hit] = {}
    divided: set[tuple[str, Term]] = set()
    for hit in hits:
        if any(hit is not other and other.explains(hit) for other in hits):
            continue
        if choices.hold(hit):
            continue
        if hit.form.rule.gradient_only and hit.lifted.span.line in values_only:
            continue
        divisors = {(hit.form.rule.name, each) for each in _divisors(hit.lifted.term)}
        if divisors and divisors <= divided:  # the quotient was told, and is multiplied further
            continue
        divided |= divisors
        found.setdefault((hit.lifted.span, hit.form.rule.name), hit)
    told = [found[key] for key in _outermost(list(found))]
    findings = _with_repairs(told, whole, path)
    findings += [
        _of_contract(each, path, whole) for each in broken(Module(tree, whole.imported), roots)
    ]
    return sorted(findings, key=lambda f: (f.line, f.column))


def _divisors(term: Term) -> list[Term]:
    """The factors of a product that are powers below 0."""
    factors = term.args if term.head == PRODUCT else ()
    return [f for f in factors if f.head == POWER and (f.args[1].number or 0) < 0]


def _of_contract(each: Broken, path: str, source: Source) -> Finding:
    """The finding of a broken contract: at the definition's own line, at a whole expression."""
    span = Span.of(each.node)
    if isinstance(each.node, ast.FunctionDef):
        line = source.lines[span.line - 1]
        span = Span(span.line, span.column, span.line, len(line.rstrip().encode()) + 1)
    return replace(_finding(find(each.rule), span, path, source), message=each.message)


def _with_repairs(hits: Sequence[Hit], source: Source, path: str) -> list[Finding]:
    """A finding for each, with what to write instead where its page proves it."""
    mendable = [h.lifted.span for h in hits if any(proof.fix for proof in h.form.rule.proof)]
    places = scenes(source.tree, mendable) if mendable else {}
    findings = []
    for hit in hits:
        rule, span = hit.form.rule, hit.lifted.span
        finding = _finding(rule, span, path, source)
        scene = places.get(span)
        mended = None if scene is None else repair(rule, hit.lifted.term, scene, source)
        if mended is not None:
            text = mended.edits[0].text + ("" if mended.safe else _CAUTION)
            finding = replace(finding, fix=text, edits=list(mended.edits), fix_is_safe=mended.safe)
        findings.append(finding)
    return findings


def _hits(lifted: Lifted, roots: frozenset[str]) -> Iterator[Hit]:
    """The patterns that the term has, each rule's first."""
    told: set[str] = set()
    for form in _meant_forms(lifted.term.head, roots):
        hit = None if form.rule.name in told else form.hit(lifted)
        if hit is not None:
            told.add(form.rule.name)
            yield hit


@functools.cache
def _meant_forms(head: str, roots: frozenset[str]) -> Sequence[Form]:
    """The patterns with this head of the rules that are about a file that imports these."""
    return [form for form in forms().get(head, ()) if _is_meant(form.rule, roots)]


def _is_meant(rule: Rule, roots: frozenset[str]) -> bool:
    """Is the rule about a file that imports these?"""
    if rule.gradient_only and not roots & DIFFERENTIATE:
        return False
    return not rule.only_in or not roots.isdisjoint(rule.only_in)


@dataclass(frozen=True, slots=True)
class _Choices:
    """What is computed in branches of a `where` that asks for its own arguments: no value of it need be taken."""

    asked: Mapping[
        Term, Sequence[frozenset[Term]]
    ]  # the names that are asked for each term of a branch
    wheres: Sequence[tuple[Span, frozenset[Term]]]
    bounded: frozenset[Term]  # what is cut off above, and may be infinite

    def hold(self, hit: Hit) -> bool:
        """Digits are saved where a condition asks for one of its names, all else where it asks for all."""
        term, span, rule = hit.lifted.term, hit.lifted.span, hit.form.rule
        if rule.at_zero and term in self.bounded:
            return True
        if term.head == WHERE:
            return False
        inside = [asked for where, asked in self.wheres if where != span and _covers(where, span)]
        own = names(term)
        return any(
            not own.isdisjoint(asked) if rule.digits else own <= asked
            for asked in (*inside, *self.asked.get(term, ()))
        )


def _choices(terms: Sequence[Lifted]) -> _Choices:
    found: dict[Term, list[frozenset[Term]]] = defaultdict(list)
    wheres: list[tuple[Span, frozenset[Term]]] = []
    for lifted in terms:
        if lifted.term.head != WHERE:
            continue
        condition, *branches = lifted.term.args
        for asked in asked_names(condition):
            wheres.append((lifted.span, asked))
            for part in (part for branch in branches for part in branch.parts() if part.args):
                found[part].append(asked)
    bounded = frozenset(a for t in terms if t.term.head == "minimum" for a in t.term.args if a.args)
    return _Choices(found, wheres, bounded)


def _outermost(keys: Sequence[tuple[Span, str]]) -> list[tuple[Span, str]]:
    """Of one rule's findings inside of each other the outer one alone; sorted by place."""
    kept = [
        (span, rule)
        for span, rule in keys
        if not any(r == rule and s != span and _covers(s, span) for s, r in keys)
    ]
    return sorted(kept)


def _covers(outer: Span, inner: Span) -> bool:
    return (outer.line, outer.column) <= (inner.line, inner.column) and (
        (inner.end_line, inner.end_column) <= (outer.end_line, outer.end_column)
    )


def _finding(rule: Rule, span: Span, path: str, source: Source) -> Finding:
    lines = source.lines
    text = lines[span.line - 1] if span.line <= len(lines) else ""
    last = lines[span.end_line - 1] if span.end_line <= len(lines) else ""
    return replace(
        rule.finding(path, span.line, rule.summary, about=text.strip()),
        column=_letters(text, span.column),
        end_line=span.end_line,
        end_column=_letters(last, span.end_column),
    )


def _letters(line: str, column: int) -> int:
    """A column in letters, of one in bytes."""
    return len(line.encode()[: column - 1].decode(errors="ignore")) + 1


def _roots(source: Source) -> frozenset[str]:
    """The packages that a module imports."""
    names = (*source.imported.values(), *source.stars)
    return frozenset(name.partition(".")[0] for name in names)
