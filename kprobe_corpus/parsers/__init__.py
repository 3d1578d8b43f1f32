"""A parser and texts with their truth come in, and what the parser misreads goes out: `kprobe test-parser`.

    kprobe test-parser -- CMD …        CMD reads a text on its standard input and answers in JSON Lines
    from kprobe_corpus.parsers import answer  # makes such a CMD of a Python function

Start with `testing`: `running` runs the parser, `answers` reads what it says, `comparison` compares, `reports` shows.
docs/guides/readers.md is for users, docs/reference/reader-schema.md the language of answers.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe_corpus.parsers.adapter import answer
    from kprobe_corpus.parsers.texts import TraceText

__all__ = ["TraceText", "answer"]

if not TYPE_CHECKING:  # type checkers would learn that every name is there

    def __getattr__(name: str) -> object:
        """Import a name when it is used: the adapter also runs as a program, and mustn't be imported before that."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name == "answer":
            from kprobe_corpus.parsers.adapter import answer

            return answer
        from kprobe_corpus.parsers.texts import TraceText

        return TraceText
