"""A shell script's tokens -> its commands: lists, pipelines, groups, conditions, loops and functions."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import takewhile

from kprobe_check.sources.shell.syntax import (
    ARRAY,
    CHOICE,
    DEPTH,
    EACH,
    FUNCTION,
    GROUP,
    LOOP,
    MAYBE,
    Arrow,
    Command,
    Compound,
    Node,
    Pipeline,
    Redirection,
    ScriptReader,
    Token,
    Word,
    WordPart,
)

_CLOSING = frozenset(["fi", "done", "esac", "}", "then", "else", "elif", "do"])
_FUNCTION = re.compile(r"[\w.:-]+")


def script(text: str) -> tuple[Node, ...]:
    """Return the commands of a script, in their order."""
    return nodes(ScriptReader(text).tokens(), 0)


def nodes(tokens: Sequence[Token], depth: int) -> tuple[Node, ...]:
    """Return the commands in tokens; unmatched closing tokens are skipped."""
    parser = _Commands(tokens, depth)
    found: list[Node] = []
    while not parser.is_at_end:
        found += parser.sequence(())
        parser.take()
    return tuple(found)


class _Commands:
    def __init__(self, tokens: Sequence[Token], depth: int) -> None:
        self._tokens = tokens
        self._index = 0
        self._depth = depth

    @property
    def is_at_end(self) -> bool:
        return self._index >= len(self._tokens)

    def take(self) -> Token | None:
        """Return the next token, and pass it; None at the end."""
        self._index += 1
        return self._tokens[self._index - 1] if self._index <= len(self._tokens) else None

    def _peek(self, further: int = 0) -> Token | None:
        index = self._index + further
        return self._tokens[index] if index < len(self._tokens) else None

    def _keyword(self, further: int = 0) -> str:
        token = self._peek(further)
        return token.text if isinstance(token, Word) and _is_bare(token) else ""

    # ------------------------------------------------------------------------------------------------- lists

    def sequence(self, ends: Collection[str]) -> list[Node]:
        """Read commands up to a keyword or operator of `ends`, or to any other closing one."""
        found: list[Node] = []
        while not self.is_at_end:
            token = self._peek()
            if token in ("\n", ";", "&", "&&", "||", "|", "|&"):
                self._index += 1
                if token in ("&&", "||"):
                    found.append(Compound(MAYBE, (tuple(self._and_then()),)))
                continue
            if token in (")", ";;", ";&", ";;&") or self._keyword() in ends or self._keyword() in _CLOSING:
                break
            found += self._pipeline()
        return found

    def _and_then(self) -> list[Node]:
        while self._peek() == "\n":
            self._index += 1
        return self._pipeline() if self._starts() else []

    def _starts(self) -> bool:
        token = self._peek()
        return token is not None and (token == "(" or (not isinstance(token, str) and self._keyword() not in _CLOSING))

    def _pipeline(self) -> list[Node]:
        stages: list[Node] = []
        while True:
            while self._keyword() in ("!", "time"):
                self._index += 1
            before = self._index
            stage = self._stage()
            if stage is not None:
                stages.append(stage)
            elif self._index == before:
                break
            if self._peek() not in ("|", "|&"):
                break
            self._index += 1
            while self._peek() == "\n":
                self._index += 1
        return stages if len(stages) < 2 else [Pipeline(tuple(stages))]

    def _stage(self) -> Node | None:
        keyword = self._keyword()
        if self._depth < DEPTH:
            self._depth += 1
            try:
                compound = self._compound(keyword)
            finally:
                self._depth -= 1
            if compound is not None:
                return compound._replace(redirections=self._redirections())
        elif self._peek() == "(":
            self._index += 1
            return None
        return self._simple()

    def _compound(self, keyword: str) -> Compound | None:
        if self._peek() == "(":
            self._index += 1
            body = self.sequence(())
            self._pass(")")
            return Compound(GROUP, (tuple(body),), is_apart=True)
        has_parentheses = self._peek(1) == "(" and self._peek(2) == ")"
        is_named = keyword == "function" and isinstance(self._peek(1), Word)
        if is_named or (has_parentheses and _FUNCTION.fullmatch(keyword)):
            return self._function(keyword)
        read = {
            "{": self._braces,
            "if": self._if,
            "while": self._while,
            "until": self._while,
            "for": self._for,
            "select": self._for,
            "case": self._case,
        }.get(keyword)
        if read is None:
            return None
        self._index += 1
        return read()

    def _braces(self) -> Compound:
        body = self.sequence(("}",))
        self._pass("}")
        return Compound(GROUP, (tuple(body),))

    def _if(self) -> Compound:
        always = self.sequence(("then",))
        self._pass("then")
        bodies = [tuple(self.sequence(("elif", "else", "fi")))]
        keyword = self._keyword()
        has_else = keyword in ("elif", "else")
        if keyword == "elif":
            self._index += 1
            bodies.append((self._if(),))
        else:
            if keyword == "else":
                self._index += 1
                bodies.append(tuple(self.sequence(("fi",))))
            self._pass("fi")
        if not has_else:
            bodies.append(())
        return Compound(GROUP, ((*always, Compound(CHOICE, tuple(bodies))),))

    def _while(self) -> Compound:
        body = [*self.sequence(("do",))]
        self._pass("do")
        body += self.sequence(("done",))
        self._pass("done")
        return Compound(LOOP, (tuple(body),))

    def _for(self) -> Compound:
        name, words = "", list[Word]()
        if isinstance(self._peek(), Word):
            name = self._keyword()
            self._index += 1
        while self._peek() == "\n":
            self._index += 1
        is_given = self._keyword() == "in"
        while not self.is_at_end and self._keyword() != "do":
            token = self.take()
            if isinstance(token, Word) and is_given:
                words.append(token)
        self._pass("do")
        body = self.sequence(("done",))
        self._pass("done")
        return Compound(EACH, (tuple(body),), name=name, words=tuple(words[1:]) if is_given and name else None)

    def _case(self) -> Compound:
        while not self.is_at_end and self._keyword() != "in":
            self._index += 1
        self._pass("in")
        bodies: list[tuple[Node, ...]] = []
        has_any = False
        while not self.is_at_end and self._keyword() != "esac":
            if self._peek() in ("\n", ";", "("):
                self._index += 1
                continue
            pattern = list(takewhile(lambda token: token != ")", self._tokens[self._index :]))
            has_any = has_any or (len(pattern) == 1 and isinstance(pattern[0], Word) and pattern[0].text == "*")
            self._index += len(pattern) + 1
            bodies.append(tuple(self.sequence(("esac",))))
            if self._peek() in (";;", ";&", ";;&", ")") or self._keyword() in _CLOSING - {"esac"}:
                self._index += 1
        self._pass("esac")
        return Compound(CHOICE, tuple(bodies) if has_any else (*bodies, ()))

    def _function(self, keyword: str) -> Compound:
        if keyword == "function":
            self._index += 1
            keyword = self._keyword()
        self._index += 1
        while self._peek() in ("(", ")", "\n"):
            if self._peek() == "(" and self._peek(1) != ")":
                break
            self._index += 1
        stage = self._stage() if self._starts() else None
        return Compound(FUNCTION, ((stage,) if stage is not None else (),), name=keyword)

    # ------------------------------------------------------------------------------------------------- commands

    def _simple(self) -> Command | None:
        words, redirections = list[Word](), list[Redirection]()
        while not self.is_at_end:
            token = self._peek()
            if isinstance(token, Word):
                words.append(token)
            elif isinstance(token, Arrow):
                redirections.append(token.redirection())
            elif token == "(" and words and words[-1].text.endswith("="):
                words[-1] = words[-1]._replace(parts=(*words[-1].parts, self._array()))
                continue
            else:
                break
            self._index += 1
        return Command(tuple(words), tuple(redirections)) if words or redirections else None

    def _array(self) -> WordPart:
        elements = []
        self._index += 1
        while not self.is_at_end and self._peek() != ")":
            token = self.take()
            if isinstance(token, Word):
                elements.append(token)
        self._index += 1
        return WordPart(ARRAY, f"({' '.join(word.text for word in elements)})", elements=tuple(elements))

    def _redirections(self) -> tuple[Redirection, ...]:
        found: list[Redirection] = []
        while isinstance(token := self._peek(), Arrow):
            found.append(token.redirection())
            self._index += 1
        return tuple(found)

    def _pass(self, what: str) -> None:
        if self._peek() == what or self._keyword() == what:
            self._index += 1


def _is_bare(word: Word) -> bool:
    return all(part.kind == "literal" and not part.is_quoted for part in word.parts)
