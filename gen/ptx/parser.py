"""PTX text → `syntax.ModuleText`.

One pass of regular expressions over statements; comments are blanked first so that offsets keep their lines.
"""

from __future__ import annotations

import bisect
import re
from functools import lru_cache

from gen.ptx.declarations import parse_registers, parse_variables
from gen.ptx.errors import PtxError
from gen.ptx.literals import parse_operand, split_operands
from gen.ptx.syntax import Function, Instruction, Label, ModuleText, Name, Variable

_COMMENT = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/', re.S)
_SPACE = re.compile(r"\s*")
_LABEL = re.compile(r"([\w$%]+)\s*:(?!:)")
_LINE_DIRECTIVE = re.compile(r"\.(?:version|target|address_size|file|loc)\b[^\n]*")
_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"')
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)(?:.*\binlined_at\s+(\d+)\s+(\d+))?")
_HEADER = re.compile(r"(?:\.(?:visible|extern|weak|common|entry|func|noreturn|attribute\([^)]*\))\s*)*")
_INSTRUCTION = re.compile(r"(?:@(!?)([%\w$]+)\s+)?([a-z][\w.:]*)\s*(.*)", re.S)
_WORD = re.compile(r"[%\w$]+")
_LAUNCH_DIRECTIVE = re.compile(r"\.(maxntid|reqntid|reqnctapercluster)\s+([\d,\s]+)")
_BRANCH_TABLE = re.compile(r"\.(branchtargets|calltargets)\s+(.*)", re.S)


def _blank(match: re.Match[str]) -> str:
    """A comment without its text; a string as it is."""
    if match.group().startswith('"'):
        return match.group()
    return "\n" * match.group().count("\n") or " "


def _read_launch_directives(function: Function, text: str) -> None:
    """.maxntid, .reqntid and .reqnctapercluster: up to three sizes each (PTX ISA, directives)."""
    for name, sizes in _LAUNCH_DIRECTIVE.findall(text):
        x, y, z = ([int(n) for n in sizes.split(",") if n.strip()] + [1, 1])[:3]
        if name == "maxntid":
            function.max_threads = x * y * z
        elif name == "reqntid":
            function.max_threads, function.block = x * y * z, (x, y, z)
        else:
            function.cluster = x, y, z


def parse(text: str) -> ModuleText:
    """Parses a whole PTX file. Raises `PtxError` with the line of what it cannot read."""
    return _Parser(_COMMENT.sub(_blank, text)).module()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.files: dict[int, str] = {}
        self.loc: tuple[tuple[int, int], ...] = ()
        self.breaks = [match.start() for match in re.finditer("\n", text)]

    def line(self, position: int) -> int:
        return bisect.bisect_left(self.breaks, position) + 1

    def fail(self, why: str, position: int | None = None) -> PtxError:
        line = self.line(self.position if position is None else position)
        return PtxError(f"PTX line {line}: {why}", line)

    def skip_space(self) -> bool:
        """Moves to the next statement; False at the end of the text."""
        match = _SPACE.match(self.text, self.position)
        self.position = match.end() if match else self.position
        return self.position < len(self.text)

    def until(self, stops: str) -> str:
        """The text up to the first of `stops` outside brackets, which is left unread."""
        start, depth = self.position, 0
        for match in re.compile(r"[(){}\[\];\"]").finditer(self.text, start):
            mark = match.group()
            if depth == 0 and mark in stops:
                self.position = match.start()
                return self.text[start : match.start()].strip()
            depth += (mark in "([{") - (mark in ")]}")
        raise self.fail("the file ends inside a statement", start)

    def module(self) -> ModuleText:
        target = ""
        variables: dict[str, Variable] = {}
        functions: dict[str, Function] = {}
        while self.skip_space():
            if directive := _LINE_DIRECTIVE.match(self.text, self.position):
                words = directive.group().split(None, 1)
                target = words[1].strip() if words[0] == ".target" else target
                self.locate(directive)
            elif self.text.startswith(".section", self.position):
                self.until("{")
                self.skip_braces()
            elif self.text.startswith((".pragma", ".alias"), self.position):
                self.until(";")
                self.position += 1
            elif self.is_function():
                function = self.function()
                known = functions.get(function.name)
                if known is None or known.body is None:
                    functions[function.name] = function
            else:
                at = self.position
                statement = self.until(";")
                self.position += 1
                external = ".extern" in statement.split(None, 2)[:2]
                statement = re.sub(r"^(?:\.(?:visible|extern|weak|common)\s+)+", "", statement)
                for variable in parse_variables(statement, self.line(at)):
                    variable.external = external
                    variables[variable.name] = variable
        return ModuleText(target, variables, functions, self.files)

    def locate(self, directive: re.Match[str]) -> None:
        """Goes past a one-line directive; .file and .loc tell where the following code comes from."""
        if file := _FILE.match(directive.group()):
            self.files[int(file.group(1))] = file.group(2)
        elif loc := _LOC.match(directive.group()):
            numbers = [int(n) for n in loc.groups() if n]
            self.loc = tuple((f, n) for f, n in zip(numbers[::2], numbers[1::2], strict=True) if n)
        self.position = directive.end()

    def header_end(self) -> int:
        match = _HEADER.match(self.text, self.position)
        return match.end() if match else self.position

    def is_function(self) -> bool:
        header = self.text[self.position : self.header_end()]
        return ".entry" in header or ".func" in header

    def skip_braces(self) -> None:
        self.position += 1
        self.until("}")
        self.position += 1

    def parameter_list(self, text: str, at: int) -> list[Variable]:
        return [v for item in split_operands(text) for v in parse_variables(item, self.line(at))]

    def function(self) -> Function:
        """From the linkage words to the closing brace or the semicolon of a declaration."""
        start = self.position
        entry = ".entry" in self.text[start : self.header_end()]
        self.position = self.header_end()
        head = self.until("{;")
        results: list[Variable] = []
        if head.startswith("("):
            inner, head = self.parenthesized(head)
            results = self.parameter_list(inner, start)
        name_match = _WORD.match(head)
        if not name_match:
            raise self.fail("a function without a name", start)
        rest = head[name_match.end() :].strip()
        parameters: list[Variable] = []
        if rest.startswith("("):
            inner, rest = self.parenthesized(rest)
            parameters = self.parameter_list(inner, start)
        function = Function(name_match.group(), entry, self.line(start), parameters, results)
        _read_launch_directives(function, rest)
        if self.text[self.position] == ";":
            self.position += 1
        else:
            self.position += 1
            self.body(function)
        return function

    @staticmethod
    def parenthesized(text: str) -> tuple[str, str]:
        end = text.index(")")
        return text[1:end].strip(), text[end + 1 :].strip()

    def body(self, function: Function) -> None:
        """Statements up to the function's closing brace; nested scopes get unique names."""
        self.loc = ()
        text, scopes, serial = self.text, [dict[str, str]()], 0
        body: list[Instruction | Label] = []
        pending_label = ""
        while self.skip_space():
            at = self.position
            first = text[at]
            if first == "}":
                self.position += 1
                scopes.pop()
                if not scopes:
                    function.body = body
                    return
            elif first == "{":
                self.position += 1
                serial += 1
                scopes.append({**scopes[-1], **self.scope_labels(f"${serial}")})
            elif label := _LABEL.match(text, at):
                self.position = label.end()
                pending_label = scopes[-1].get(label.group(1), label.group(1))
                body.append(Label(pending_label))
            elif directive := _LINE_DIRECTIVE.match(text, at):
                self.locate(directive)
            else:
                end = text.find(";", at)
                if end < 0:
                    raise self.fail("the file ends inside a function", at)
                self.position = end + 1
                statement = text[at:end].rstrip()
                if first == ".":
                    suffix = f"${serial}" if len(scopes) > 1 else ""
                    self.declaration(function, statement, at, scopes[-1], suffix, pending_label)
                else:
                    if scopes[-1]:
                        names = scopes[-1]
                        statement = _WORD.sub(lambda m: names.get(m.group(), m.group()), statement)  # noqa: B023
                    body.append(self.instruction(statement, at))
        raise self.fail("the file ends inside a function")

    def scope_labels(self, suffix: str) -> dict[str, str]:
        """The labels of the scope that starts here, made unique, so that branches may run ahead of them."""
        depth, end = 1, self.position
        for match in re.compile(r"[{}]").finditer(self.text, self.position):
            depth += 1 if match.group() == "{" else -1
            if depth == 0:
                end = match.start()
                break
        names = re.findall(r"(?<![\w$:])([\w$]+)\s*:(?!:)", self.text[self.position : end])
        return {name: name + suffix for name in names}

    def declaration(
        self, function: Function, statement: str, at: int, scope: dict[str, str], suffix: str, label: str
    ) -> None:
        """`.reg`, variables and branch tables inside a body."""
        if table := _BRANCH_TABLE.match(statement):
            targets = tuple(scope.get(n.strip(), n.strip()) for n in table.group(2).split(","))
            function.tables[label] = targets
        elif statement.startswith(".reg"):
            kind, names = parse_registers(statement, self.line(at))
            for name, count in names:
                if count is None:
                    function.registers[name + suffix] = kind
                    if suffix:
                        scope[name] = name + suffix
                elif suffix:
                    for i in range(count):
                        function.registers[f"{name}{i}{suffix}"] = kind
                        scope[f"{name}{i}"] = f"{name}{i}{suffix}"
                else:
                    function.families.append((name, count, kind))
        elif statement.startswith((".shared", ".local", ".param", ".global", ".const")):
            for variable in parse_variables(statement, self.line(at)):
                if suffix:
                    scope[variable.name] = variable.name + suffix
                    variable.name += suffix
                function.variables.append(variable)
        elif not statement.startswith((".pragma", ".callprototype")):
            raise self.fail(f"unknown directive {statement[:80]!r}", at)

    def instruction(self, statement: str, at: int) -> Instruction:
        match = _INSTRUCTION.match(statement)
        if not match:
            raise self.fail(f"cannot read {statement[:80]!r}", at)
        negated, guard, opcode, rest = match.groups()
        line = bisect.bisect_left(self.breaks, at) + 1
        try:
            operands = tuple(parse_operand(item) for item in split_operands(rest)) if rest else ()
        except ValueError as error:
            raise PtxError(f"PTX line {line}: {statement!r}: {error}", line) from None
        words = _opcode(opcode)
        predicate = Name(guard, bool(negated)) if guard else None
        text = " ".join(statement.split())
        return Instruction(line, text, predicate, words[0], words[1:], operands, self.loc)


@lru_cache(maxsize=4096)
def _opcode(text: str) -> tuple[str, ...]:
    return tuple(text.split("."))
