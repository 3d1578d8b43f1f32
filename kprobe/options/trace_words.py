"""The words of a trace's command line: definitions, filter, and guesses at what the user meant when they are wrong."""

from __future__ import annotations

from collections.abc import Collection

from kprobe.options.table import verbs
from kprobe_text.terminal.verb import UsageError

KINDS = "prftePRu"  # the possible beginnings of a definition
OPERATORS = ("==", "!=", "<", ">", "&", "|", "~")


def definitions_and_filter(words: list[str], options: Collection[str]) -> tuple[tuple[str, ...], str]:
    """Separate definitions and filter: P1 P2 ... [-- FILTER], or the filter as last word, as in perf-tools.

    `options` are the names of the options that can come before them.  Raise `UsageError`.
    """
    if not words:
        raise UsageError("a definition is missing")
    first = words[0]
    if first.isidentifier() and first not in ("p", "r"):
        from kprobe_text.terminal.unknown_words import near

        known = [verb.name for verb in verbs()]
        what = f"{first!r} is neither a definition (p:{first} traces calls of that function, r:{first} its returns)"
        raise UsageError(f"{what} nor a verb{near(first, known) or ' (' + ', '.join(known) + ')'}")
    if "--" in words:
        at = words.index("--")
        return _divided(words[:at], words[at + 1 :], options)
    count = 1
    while count < len(words) and is_definition(words[count]):
        count += 1
    given, rest = words[:count], words[count:]
    for word in rest:
        _check_option(word, options)
    if len(rest) > 1:
        raise UsageError(f"too many arguments: quote the definition, and the filter{_quoted(words)}")
    if rest and _is_part_of_a_definition(rest[0]):
        raise UsageError(
            f"{rest[0]!r} isn't a filter; if it belongs to the definition, quote both{_quoted([given[-1], *rest])}"
        )
    return tuple(given), "".join(rest)


def _divided(given: list[str], rest: list[str], options: Collection[str]) -> tuple[tuple[str, ...], str]:
    """Check the words before and after `--`."""
    if not given:
        raise UsageError("a definition is missing")
    if len(rest) != 1:
        raise UsageError(f"after -- comes the filter, as one word: quote it{_joined(rest)}")
    for word in given[1:]:
        _check_option(word, options)
        if not is_definition(word):
            raise UsageError(f"{word!r} isn't a definition; if it belongs to one, quote both{_quoted(given)}")
    return tuple(given), rest[0]


def with_functions(words: list[str]) -> list[str]:
    """Put p: before the first words that are bare function names, which a latency allows."""
    found = []
    for at, word in enumerate(words):
        parts = word.replace("*", "_").replace("?", "_").replace(".", "_").split(":")
        if is_definition(word):
            found.append(word)
        elif len(parts) <= 2 and all(part.isidentifier() for part in parts):
            found.append(f"p:{word}")
        else:
            return found + words[at:]
    return found


def is_definition(word: str) -> bool:
    """True if a word can only be a definition: p:, r10:, f:, ... or `p FUNCTION`."""
    head, colon, _ = word.partition(":")
    if colon and head[:1] and head[0] in KINDS and (not head[1:] or head[1:].isdigit()):
        return True
    parts = word.split()
    return len(parts) > 1 and parts[0] in ("p", "r") and not any(mark in parts[1] for mark in OPERATORS)


def _check_option(word: str, options: Collection[str]) -> None:
    name = word.partition("=")[0]
    is_short = len(word) > 1 and word[0] == "-" and word[1] not in ":-" and word[:2] in options
    if is_short or (name[:2] == "--" and name in options):
        raise UsageError(f"options come before the definition: {word}")


def _is_part_of_a_definition(text: str) -> bool:
    """True if it has no operator of a filter, and is a probe point or begins as a fetch argument does."""
    if any(operator in text.replace("->", "") for operator in OPERATORS):
        return False
    first = (text.split() or ["0"])[0]
    value = first.partition("=")[2] or first
    is_place = first.replace(".", "_").replace("+", "_").replace(":", "_").isidentifier()
    return value[0] in "%$@+-\\" or (is_place and "=" not in text)


def _quoted(words: list[str]) -> str:
    text = " ".join(words)
    return "" if "'" in text else f": kprobe '{text}'"


def _joined(words: list[str]) -> str:
    text = " ".join(words)
    return "" if "'" in text or not words else f": -- '{text}'"
