"""Lua: mutants of scripts, line by line, by a few general operators."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator
from itertools import chain

from tests.mutants.mutant import Change, Mutant, mutants

# Of these lines only the head of the statement is left.
HEADS = re.compile(r"(end\W*|else|repeat|\}\)|local function .*\))?$")
WORD = re.compile(r"\b(and|or|if|elseif|while|until|return|then|do|end|else)\b|[,()\[\]{}=\n]")
SWAPS = {
    "==": "~=",
    "~=": "==",
    "<=": "<",
    ">=": ">",
    "<": "<=",
    ">": ">=",
    " + ": " - ",
    " - ": " + ",
    " * ": " + ",
    " / ": " * ",
    " % ": " + ",
    "math.max": "math.min",
    "math.min": "math.max",
    "math.ceil": "math.floor",
    "LPUSH": "RPUSH",
    "RPUSH": "LPUSH",
    "'NX', ": "",
    "not ": "",
}
SWAP = re.compile(
    r"[=~<>]=|[<>]| [-+*/%] |math\.(?:max|min|ceil)|\b[LR]PUSH\b|'NX', |\bnot (?=[\w(])"
)
UNARY = re.compile(r"(?:[(,=] ?|\breturn |\band )(-)(?=[\w#(])")
TRUTH = re.compile(r"\b(true|false)\b")
EXPIRY = re.compile(r", '(?:EX|PX)', \w+")
CONDITION = re.compile(r"\b(?:if|elseif)\b(.*?)\bthen\b", re.DOTALL)
LOOP = re.compile(r"\bfor\b.*\bdo\b")
NAMED = re.compile(r"^local function (\w+)", re.MULTILINE)
FUNCTION = re.compile(r"function\([\w, .]*\)$", re.MULTILINE)


# Lines before which no statement can start.
INSIDE = re.compile(r"(?:end|else|elseif|until|and|or)\b|[)}\]]|$")
TURNING = re.compile(r"\b(?:(?:for|while)\b.*?\bdo|repeat)\b", re.DOTALL)
TURNS = 1_000_000  # of all loops of a script in one call


def bounded(source: str, turns: int = TURNS) -> str:
    """The script, with an error after so many turns of its loops, for mutants that do not end."""
    # Not in a local variable: a function may have 200, and the largest script comes close to that.
    code, at, parts = mask(source), 0, [f"KEYS.turns_ = {turns} "]
    for found in TURNING.finditer(code):
        parts += [source[at : found.end()], " KEYS.turns_ = KEYS.turns_ - 1 if KEYS.turns_ < 0 "]
        parts.append("then error('it does not end') end ")
        at = found.end()
    return "".join([*parts, source[at:]])


def marked(file: str, source: str, compiles: Callable[[str], bool]) -> tuple[str, set[int]]:
    """The script with a log by Redis at each line with a statement; and the line numbers."""
    runs = f"KEYS['{file}']"
    head = (
        f"{runs} = function(n) if not KEYS['{file}' .. n] then KEYS['{file}' .. n] = true "
        f"redis.log(redis.LOG_WARNING, '@{file}:' .. n) end end "
    )
    code, lines, numbers = mask(source).split("\n"), source.split("\n"), set[int]()
    for number, line in enumerate(code, 1):
        begins = not INSIDE.match(line.strip())
        changed = [*lines[: number - 1], f"do {runs}({number}) end {lines[number - 1]}"]
        if begins and compiles(head + "\n".join([*changed, *lines[number:]])):
            numbers.add(number)
    text = "\n".join(
        f"do {runs}({number}) end {line}" if number in numbers else line
        for number, line in enumerate(lines, 1)
    )
    return head + text, numbers


def statement(source: str, numbers: set[int], number: int) -> int:
    """The marked line that always runs when this one does: itself, or the head of its block."""
    lines = source.split("\n")
    depth = _depth(lines[number - 1])
    for before in range(number, 0, -1):
        if before in numbers and _depth(lines[before - 1]) <= depth:
            return before
    return 0


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def verb_of(file: str) -> str:
    """The verb of a script, or of the folder of one that is cut into parts; one that asks the gate
    for a rule of it; of a shared file, its stem."""
    folder, _, name = file.rpartition("/")
    if folder.endswith("/gates"):
        return "waits"
    return name.removesuffix(".lua") if folder.endswith("lua") else folder.rpartition("/")[2]


def users(source: str, name: str) -> set[str]:
    """The functions of a text that use this one, also indirectly, and itself."""
    heads = [*NAMED.finditer(source)]
    ends = [head.start() for head in heads[1:]] + [len(source)]
    bodies = {head[1]: source[head.end() : end] for head, end in zip(heads, ends, strict=True)}
    found, before = {name}, set[str]()
    while found != before:
        before = {*found}
        word = re.compile(rf"\b({'|'.join(before)})\b")
        found |= {other for other, body in bodies.items() if word.search(mask(body))}
    return found


def mask(source: str, *, strings: bool = True) -> str:
    """The text with comments, and the contents of strings, blanked out; its length stays the
    same."""

    def blot(found: re.Match[str]) -> str:
        text = found[0]
        if text.startswith("--"):
            return " " * len(text)
        return f"'{'_' * (len(text) - 2)}'" if strings else text

    return re.sub(r"--[^\n]*|'(?:\\.|[^'\\\n])*'", blot, source)


def of_script(
    file: str,
    source: str,
    compiles: Callable[[str], bool],
    lines: Container[str] | None = None,
) -> Iterator[Mutant]:
    """Every mutant of a script, or of these lines of it. ``compiles`` returns whether Redis would
    load a text."""
    verb = verb_of(file)
    heads = [(found.start(), found[1]) for found in NAMED.finditer(source)]

    def part(change: Change) -> str:
        if not verb.startswith("_"):
            return verb
        return next((name for start, name in reversed(heads) if start < change.start), "")

    changes = chain(_removals(source, compiles, lines), _changes(source))
    for mutant in mutants(file, source, ((part(change), change) for change in changes)):
        if (lines is None or mutant.line in lines) and compiles(mutant.source):
            yield mutant


def executable(source: str) -> dict[int, str]:
    """The lines that do something: number -> text. A continuation is part of the line it
    continues."""
    code, found = mask(source).split("\n"), {}
    for number, text in enumerate(source.split("\n"), 1):
        goes_on = number > 1 and code[number - 2].rstrip().endswith(",")
        if not goes_on and not HEADS.match(code[number - 1].strip()):
            found[number] = text.strip()
    return found


def _removals(
    source: str, compiles: Callable[[str], bool], lines: Container[str] | None
) -> Iterator[Change]:
    """Removes each line that can be removed by itself; a line that continues, with its
    continuation."""
    starts, at = [], 0
    for line in source.split("\n"):
        starts.append(at)
        at += len(line) + 1
    starts.append(len(source) + 1)
    code = mask(source).split("\n")
    for number, text in executable(source).items():
        if lines is not None and text not in lines:
            continue
        for last in range(number, min(number + 3, len(code) + 1)):
            start, end = starts[number - 1], min(starts[last] - 1, len(source))
            if last > number and not re.search(r"[,\w'\]})]$", code[number - 1].rstrip()):
                break
            if compiles(source[:start] + source[end:]):
                yield Change(start, end, "", "removed")
                break
    for found in re.finditer(r"\belse (?!\n)(.*?) end\b", mask(source)):
        yield Change(found.start(1), found.end(1), "", "nothing after else")


def _changes(source: str) -> Iterator[Change]:
    code, words = mask(source), mask(source, strings=False)
    for found in CONDITION.finditer(code):
        yield Change(found.start(1), found.end(1), " true ", "always")
        yield Change(found.start(1), found.end(1), " false ", "never")
    for found in LOOP.finditer(code):
        yield Change(found.end(), found.end(), " do break end", "the loop does not run")
    for found in re.finditer(r"\bwhile\b(.*?)\bdo\b", code):
        yield Change(found.start(1), found.end(1), " false ", "the loop does not run")
    for found in re.finditer(r"\buntil (.*)$", code, re.MULTILINE):
        yield Change(found.start(1), found.end(1), "true", "the loop runs once")
    for found in FUNCTION.finditer(code):
        yield Change(found.end(), found.end(), " do return end", "the function does nothing")
    for found in SWAP.finditer(words):
        if code[found.start()] == "_" and not found[0].endswith("PUSH"):
            continue  # it is in a string
        other = SWAPS[found[0]]
        what = (
            f"{_quoted(found[0])} becomes {_quoted(other)}"
            if other
            else f"without {_quoted(found[0])}"
        )
        yield Change(*found.span(), other, what)
    for found in UNARY.finditer(code):
        yield Change(*found.span(1), "", "without the minus")
    for found in TRUTH.finditer(code):
        other = "false" if found[0] == "true" else "true"
        yield Change(*found.span(), other, f"{found[0]} becomes {other}")
    for found in EXPIRY.finditer(words):
        yield Change(*found.span(), "", f"without {_quoted(found[0][2:])}")
    for found in re.finditer(r"\b(and|or)\b", code):
        yield from _operands(source, code, found)


def _quoted(text: str) -> str:
    return f"`{text.strip()}`"


def _operands(source: str, code: str, connective: re.Match[str]) -> Iterator[Change]:
    """Changes without the operand after it, and without the operand before it."""
    start, end = connective.span()
    last = _edge(code, end, 1)
    yield Change(start, last, "", f"without `{_short(source[start:last])}`")
    first = _edge(code, start, -1)
    yield Change(first, end, "", f"without `{_short(source[first:end])}`")


def _short(text: str) -> str:
    return " ".join(text.split())


def _edge(code: str, at: int, step: int) -> int:
    """The end (or, backwards, the start) of the operand at this place."""
    deeper, back = ("([{", ")]}") if step > 0 else (")]}", "([{")
    depth = 0
    tokens = list(WORD.finditer(code))
    tokens = (
        [t for t in tokens if t.start() >= at]
        if step > 0
        else [t for t in reversed(tokens) if t.end() <= at]
    )
    for token in tokens:
        text = token[0]
        if text in deeper:
            depth += 1
        elif text in back:
            if not depth:
                return token.start() if step > 0 else token.end()
            depth -= 1
        elif depth:
            continue
        elif text == "\n":
            goes_on = code[token.end() :].lstrip(" ")[:4].startswith(("and ", "or "))
            if not goes_on:
                return token.start() if step > 0 else token.end()
        elif text == "=":
            if code[token.start() - 1] not in "=~<>" and code[token.end()] != "=":
                return token.start() if step > 0 else token.end()
        else:
            return token.start() if step > 0 else token.end()
    return len(code) if step > 0 else 0
