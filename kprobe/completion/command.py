"""The verb `completion`: prints the code that bash, zsh or fish need to complete our commands."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from kprobe_text.terminal.output import Output
    from kprobe_text.terminal.signals import Signals

SHELLS = ("bash", "zsh", "fish")
COMMANDS = ("kprobe", "kprobe-sim", "kprobe-vm")
OK, FAILED, USAGE_ERROR = 0, 1, 2
MISSING = "completion needs argcomplete: pip install 'kprobe-sim[completion]', or Debian's python3-argcomplete"
# zsh's BUFFER lacks a quote that isn't closed yet, as a definition's mostly is; its words have it (zshcompwid(1))
TYPED = "${(j: :)words[1,CURRENT-1]} $QIPREFIX$PREFIX"
ZSH = {
    'COMP_LINE="$BUFFER"': f'COMP_LINE="{TYPED}"',
    'COMP_POINT="$CURSOR"': f'COMP_POINT="${{#${{:-{TYPED}}}}}"',
}
HELP = """\
USAGE: kprobe completion bash|zsh|fish

Print what the shell needs to complete the words of kprobe, kprobe-sim and kprobe-vm:

  eval "$(kprobe completion bash)"                                    in ~/.bashrc
  eval "$(kprobe completion zsh)"                                     in ~/.zshrc, after compinit
  kprobe completion fish > ~/.config/fish/completions/kprobe.fish     once, and likewise for the other two

Functions, events and fields come from --tracefs SPEC if it is given before them, else from $KPROBE_TRACEFS, else from
this machine.  No guest is booted: vm:6.12 is completed from what is recorded of that kernel.  It needs the extra
[completion].

  -h, --help       this text
"""


def main(words: Sequence[str], output: Output, signals: Signals) -> int:
    """Run the verb and return the exit status."""
    from kprobe_text.terminal.output import say
    from kprobe_text.terminal.verb import UsageError
    from kprobe_text.terminal.verb_words import usage_error

    if any(word in ("-h", "--help") for word in words):
        output.write(HELP.encode(), lambda: bool(signals.received))
        return OK
    if len(words) != 1 or words[0] not in SHELLS:
        what = f"completion is for bash, zsh or fish, {f'not {words[0]!r}' if words else 'but which?'}"
        if len(words) > 1:
            what = "completion is for one shell: bash, zsh or fish"
        say(usage_error(UsageError(what), HELP))
        return USAGE_ERROR
    try:
        from argcomplete.shell_integration import shellcode
    except ImportError:
        say(f"ERROR: {MISSING}")
        return FAILED
    code: str = shellcode(list(COMMANDS), shell="fish" if words[0] == "fish" else "bash")  # bash's is zsh's, too
    for theirs, ours in ZSH.items():
        code = code.replace(theirs, ours)
    output.write(code.encode() + b"\n", lambda: bool(signals.received))
    return OK
