"""Python: mutants of the protocol's functions, by a few general operators, and of other
definitions, by name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType

from tests.mutants.mutant import Change, Mutant, mutants

# File -> the functions that are part of the protocol (a class stands for all its own).
PROTOCOL = {
    "crawlframe/node/worker/commit/committer.py": (
        *("Committer._work", "Committer._confirm", "Committer._write", "Committer._settle"),
        *("Committer._prepare", "Committer._commit", "Committer._complete"),
        *("Committer._give_back", "Committer._end_tasks", "_value"),
    ),
    "crawlframe/node/worker/commit/known_links.py": ("KnownLinks.prepare",),
    "crawlframe/node/worker/commit/page_notices.py": ("ClosedTasks.after", "_is_new"),
    "crawlframe/run/participant.py": (
        *("Participants.prepare", "Participants.writing", "Participants.write"),
        *("Participants.after", "Participants._named", "_Takers"),
    ),
    "crawlframe/node/task_finisher.py": ("end_tasks", "TaskFinisher"),
    "crawlservice/ledger/store.py": ("DjangoLedger.commit", "DjangoLedger._write"),
    "crawlservice/ledger/named_errors.py": ("named_errors",),
    "crawlservice/ledger/tasks.py": ("TaskRows.finish",),
    "crawlservice/tasks/progress/budgets.py": ("TaskClosing.write",),
    "crawlservice/ledger/rows.py": (
        *("insert", "_insert_postgres", "_insert_sqlite", "read", "POSTGRES"),
    ),
    "crawlservice/ledger/ending.py": ("end", "_may_end"),
    "crawlframe/frontier/client/scripts.py": ("source", "READING", "UNGUARDED", "UNCOUNTED"),
    "crawlframe/frontier/client/keys.py": ("LASTING",),
    "crawlframe/frontier/client/call_log.py": ("CallLog",),
    "crawlframe/frontier/client/partitions.py": (
        *("REFUSALS", "PartitionedStore.run", "PartitionedStore._run", "PartitionedStore.era_of"),
        *("PartitionedStore.split", "PartitionedStore.partition_of"),
    ),
    "crawlframe/frontier/client/eras.py": ("Eras",),
    "crawlframe/frontier/cluster/leases.py": ("Leases.renew", "Leases.left", "Leases.replay"),
    "crawlservice/ledger/recovery.py": (
        *("is_whole", "renew", "uncounted", "_rows", "_rows_of", "_begin", "newest"),
    ),
    "crawlservice/ledger/reconcile.py": (
        *("Reconciliation.run", "Reconciliation._batches", "Reconciliation._admit"),
        *("Reconciliation._complete", "Reconciliation._rows", "align", "_follow_ups"),
        *("Reconciliation.open", "complete_recorded", "replay", "rows_of"),
    ),
    "crawlframe/frontier/frontier.py": (
        *("Frontier.connect", "Frontier.claim", "Frontier._claim_from", "Frontier._pending_in"),
        *("Frontier.complete", "Frontier._send_abroad", "Frontier._entry", "Frontier._push_from"),
        *("Frontier._give", "Frontier.pending"),
    ),
}
# Words to remove from SQL texts and tables of names.
WORDS = {
    "POSTGRES": ("ON CONFLICT (rid) DO NOTHING ", "JOIN won USING (rid) "),
    "READING": ('"audit", ', '"known", ', ', "leases"'),
    "UNGUARDED": (', "era"', ', "quarantine"'),
    "UNCOUNTED": ('"claim", ', ', "confirm"'),
    "LASTING": (
        *('"ERA", ', '"INSTALLATION", ', '"CALL_LOG", ', '"GENERATIONS", ', '"FENCED", '),
        *('"NODES", ', '"SPIDERS", ', '"ROLLOUT",', '"COOKIES", ', '"QUARANTINE",'),
    ),
    "REFUSALS": (
        *('"FENCED": Fenced,', '"ERA": EraChanged,', '"LOST": EraChanged,'),
        '"NOTASK": FrontierError,',
    ),
}
BESIDES = ("'", '"', "log.", "faults.")  # docstrings, words, and doors for tests
COMPARISONS = {
    ast.Eq: "!=", ast.NotEq: "==", ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip


def module_of(file: str) -> str:
    return file.removesuffix(".py").replace("/", ".")


def statement(source: str, number: int) -> int:
    """The line that Python reports when it runs the code of this line; 0 for none."""
    return max((line for line in _lines(source) if line <= number), default=0)


@cache
def _lines(source: str) -> set[int]:
    lines, codes = set[int](), [compile(source, "", "exec")]
    while codes:
        code = codes.pop()
        lines |= {line for _, _, line in code.co_lines() if line}
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return lines


def of_file(root: Path, file: str) -> Iterator[Mutant]:
    """Every mutant of the names that PROTOCOL lists in the file."""
    source = (root / file).read_text()
    for mutant in mutants(file, source, _Changes(source).of(PROTOCOL[file])):
        try:
            compile(mutant.source, file, "exec")
        except SyntaxError:
            continue
        yield mutant


class _Changes:
    def __init__(self, source: str) -> None:
        self._source = source
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line.encode()))
        self._bytes = source.encode()
        assert len(self._bytes) == len(source), "the places of ast count bytes"

    def of(self, names: tuple[str, ...]) -> Iterator[tuple[str, Change]]:
        left = {*names}
        for name, node in _definitions(ast.parse(self._source), ""):
            if name in left:
                left.discard(name)
                functions = _definitions(node, f"{name}.") if _is_class(node) else [(name, node)]
                for part, function in functions:
                    if isinstance(function, ast.FunctionDef):
                        for statement in function.body:
                            yield from ((part, change) for change in self._statement(statement))
        for name in left:
            start = self._source.index(f"\n{name} = ")
            for word in WORDS[name]:
                at = self._source.index(word, start)
                yield name, Change(at, at + len(word), "", f"without `{word.strip(', ')}`")

    def _statement(self, node: ast.stmt) -> Iterator[Change]:
        start, end = self._span(node)
        if isinstance(node, ast.Expr) and ast.unparse(node).startswith(BESIDES):
            return
        lines = "\n" * self._source.count("\n", start, end)
        if not isinstance(node, (ast.For, ast.While, ast.With, ast.Try, ast.If, ast.Pass)):
            yield Change(start, end, f"pass{lines}", "removed")
        if isinstance(node, (ast.If, ast.While)):
            yield self._instead(node.test, "True", "always")
            yield self._instead(node.test, "False", "never")
        if isinstance(node, ast.For):
            yield self._instead(node.iter, "()", "the loop does not run")
        for child in ast.iter_child_nodes(node):
            yield from self._node(child)

    def _node(self, node: ast.AST) -> Iterator[Change]:
        if isinstance(node, ast.stmt):
            yield from self._statement(node)
            return
        yield from self._expression(node)
        for child in ast.iter_child_nodes(node):
            yield from self._node(child)

    def _expression(self, node: ast.AST) -> Iterator[Change]:
        match node:
            case ast.Compare(left, [operator], [right]):
                other = COMPARISONS[type(operator)]
                start, end = self._span(left)[1], self._span(right)[0]
                old = self._source[start:end].strip(" ()")
                text = self._source[start:end].replace(old, other)
                yield Change(start, end, text, f"`{old}` becomes `{other}`")
            case ast.BoolOp(_, values):
                for value in values:
                    start, end = self._span(value)
                    old = self._source[start:end]
                    short = " ".join(old.split())
                    is_and = isinstance(node.op, ast.And)
                    yield Change(start, end, str(is_and), f"without `{short}`")
            case ast.UnaryOp(ast.Not(), operand):
                start = self._span(node)[0]
                yield Change(start, self._span(operand)[0], "", "without `not`")
            case ast.UnaryOp(ast.USub(), operand):
                start = self._span(node)[0]
                yield Change(start, self._span(operand)[0], "", "without the minus")
            case ast.BinOp(left, ast.Add() | ast.Sub() as operator, right):
                plus = isinstance(operator, ast.Add)
                old, other = ("+", "-") if plus else ("-", "+")
                start, end = self._span(left)[1], self._span(right)[0]
                text = self._source[start:end].replace(old, other)
                yield Change(start, end, text, f"`{old}` becomes `{other}`")
            case ast.IfExp(test, body, orelse):
                yield self._instead(test, "True", f"always `{ast.unparse(body)}`")
                yield self._instead(test, "False", f"always `{ast.unparse(orelse)}`")
            case ast.comprehension(ifs=ifs):
                for test in ifs:
                    yield self._instead(test, "True", f"also without `{ast.unparse(test)}`")
            case ast.Constant(bool(value)):
                yield self._instead(node, str(not value), f"{value} becomes {not value}")

    def _instead(self, node: ast.expr, text: str, what: str) -> Change:
        return Change(*self._span(node), text, what)

    def _span(self, node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, (ast.expr, ast.stmt))
        start = self._starts[node.lineno - 1] + node.col_offset
        return start, self._starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)


def _is_class(node: ast.AST) -> bool:
    return isinstance(node, ast.ClassDef)


def _definitions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
            yield f"{prefix}{child.name}", child
            if _is_class(child):
                yield from _definitions(child, f"{prefix}{child.name}.")
