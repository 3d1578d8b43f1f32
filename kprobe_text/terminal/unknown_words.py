"""Messages for an unknown option or verb: where it belongs, or which one was probably meant."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches

from kprobe_text.terminal.verb import added_verb

ALIKE = 0.6


def near(word: str, known: Iterable[str]) -> str:
    """Return "; did you mean X?" for the known word that is most like it; "" if none is."""
    found = get_close_matches(word, list(known), 1, ALIKE)
    return f"; did you mean {found[0]}?" if found else ""


def option(word: str, verb: str, known: Collection[str]) -> str:
    """Say what is wrong with an option that a verb (or a trace: "") lacks; `known` are those that it has."""
    name = word.partition("=")[0]
    if name not in known and (places := places_of(name)):
        return elsewhere(name, verb, places)
    if not word.startswith("--") and f"-{name}" in known:  # of several letters, with one minus
        return f"unknown option {word}; did you mean -{name}?"
    return f"unknown option {word}{near(name, [one for one in known if one.startswith('--')])}"


def places_of(name: str) -> list[str]:
    """Return the verbs whose option that is, "" for traces: `kprobe`, which has the table of them, says it."""
    from kprobe_text.entry_points import find

    point = find("kprobe.options", "places_of")
    places: list[str] = point.load()(name) if point else []
    return places


def elsewhere(name: str, verb: str, places: list[str]) -> str:
    """Say where an option belongs: to traces ("") or other verbs."""
    *most, last = [place or "traces" for place in places]
    where = f"{', '.join(most)} or {last}" if most else last
    if not verb and all(map(added_verb, places)):
        return f"unknown option {name}: it is for {where}, and stands behind that word"
    return f"{name} is for {where}, not for {verb}" if verb else f"{name} goes with {where}"
