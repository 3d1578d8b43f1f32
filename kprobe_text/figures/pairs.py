"""Calls: the entry of a function paired with its return, for each task."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kprobe_text.text import Event

    Stack = tuple[int, int]  # a thread or a CPU's idle task, and which of its stacks it is on
    Ended = list[tuple[Event | None, Event | None]]

# The most stacks to follow, and the most open entries of each; the oldest are dropped.
STACKS = 4096
DEPTH = 128
ENTRIES = (0, 4)  # a function's first instructions: endbr64, where there is one, has 4 bytes and probes stand after it
POINTER = "stack_pointer"  # the field with the stack's address: stack_pointer=$stack
ABOVE = 16  # bytes by which it is higher at the return, at most: the return address is popped (8 on all kernels seen)
STACK_BITS = 14  # the kernel's stacks have 16 KiB and begin at a multiple of that (THREAD_SIZE, IRQ_STACK_SIZE)


class Open:
    """A call that hasn't returned; `pointer` is its stack pointer, None if the event doesn't say."""

    __slots__ = ("entry", "function", "pointer")

    def __init__(self, function: str, entry: Event, pointer: int | None) -> None:
        self.function = function
        self.entry = entry
        self.pointer = pointer


class Pairs:
    """Pairs entries with returns: in each task the last entry of a function that hasn't returned is the one that does.

    So nested and recursive calls are paired right.  Where events have the field `stack_pointer`, a return belongs to
    the entry at the same stack pointer: once the stack is above an entry, its return was missed, and no other return
    is paired with it.  Where several probes sit on a function, the first of each kind that is seen counts.
    `functions` are those of events by name, where known; else it is the symbol of the event's address.  `pointer`
    names the field with the stack pointer.
    """

    def __init__(self, functions: Mapping[str, str] | None = None, pointer: str = POINTER) -> None:
        self._pointer = pointer
        self._open: dict[Stack, list[Open]] = {}
        self._functions = functions or {}
        self._entries: dict[str, tuple[str, int]] = {}
        self._returns: dict[str, str] = {}

    def function(self, event: Event) -> str:
        """Return the function whose entry or return an event is; empty if it is neither."""
        place = event.address
        if place is None or (place.offset or 0) not in ENTRIES:
            return ""
        return self._functions.get(event.name) or place.symbol or place.text

    def take(self, event: Event) -> Ended:
        """Take an event, and return the pairs of entry and return that it ends; one is None where it wasn't seen.

        An event at neither an entry nor a return is paired with None.
        """
        function = self.function(event)
        if not function:
            return [(event, None)]
        found = event.fields.get(self._pointer)
        pointer = found if isinstance(found, int) else None
        # each CPU has an idle task, all with pid 0
        task = event.pid if event.pid else -1 - event.cpu
        stack = (task, -1 if pointer is None else (pointer & (1 << 64) - 1) >> STACK_BITS)
        if event.caller is None:
            return self._enter(stack, function, event, pointer)
        if len(self._returns) >= STACKS:
            self._returns.clear()
        if self._returns.setdefault(function, event.name) != event.name:
            return [(None, event)]
        return self._leave(stack, function, event, pointer)

    def unreturned(self) -> Iterator[Event]:
        """Yield the entries without a return, and forget them."""
        left, self._open = self._open, {}
        for calls in left.values():
            yield from (call.entry for call in calls)

    def _enter(self, stack: Stack, function: str, event: Event, pointer: int | None) -> Ended:
        if not self._is_entry(function, event):
            return [(event, None)]
        ended: Ended = []
        if stack not in self._open and len(self._open) >= STACKS:
            oldest = next(iter(self._open))
            ended += [(call.entry, None) for call in self._open.pop(oldest)]
        calls = self._open.setdefault(stack, [])
        if pointer is not None:
            # a function entered by a jump at the end of another has its stack; one that had returned, too
            while calls and (calls[-1].pointer or 0) <= pointer:
                if calls[-1].pointer == pointer and calls[-1].function != function:
                    break
                ended.append((calls.pop().entry, None))
        if len(calls) >= DEPTH:
            ended.append((calls.pop(0).entry, None))
        calls.append(Open(function, event, pointer))
        return ended

    def _is_entry(self, function: str, event: Event) -> bool:
        if function not in self._entries and len(self._entries) >= STACKS:
            self._entries.clear()
        offset = (event.address.offset if event.address is not None else None) or 0
        name, first = self._entries.setdefault(function, (event.name, offset))
        if offset < first:
            name = event.name
            self._entries[function] = name, offset
        return name == event.name

    def _leave(self, stack: Stack, function: str, event: Event, pointer: int | None) -> Ended:
        calls = self._open.get(stack, [])
        ended: Ended = []
        if pointer is not None:
            while calls and (calls[-1].pointer or 0) < pointer - ABOVE:
                ended.append((calls.pop().entry, None))
        for i in range(len(calls) - 1, -1, -1):
            above = calls[i].pointer
            if pointer is not None and above is not None and above > pointer:
                break  # of a call around it
            if calls[i].function == function:
                ended += [(call.entry, None) for call in calls[i + 1 :]]
                ended.append((calls[i].entry, event))
                del calls[i:]
                break
        if not ended or ended[-1][1] is None:
            ended.append((None, event))
        if not calls:
            self._open.pop(stack, None)
        return ended
