"""The C prototype of a function, and where each parameter is on entry to the function."""

from __future__ import annotations

from typing import NamedTuple

REGISTERS = ("%di", "%si", "%dx", "%cx", "%r8", "%r9")  # System V ABI of x86-64, 3.2.3
WORD = 8  # bytes
VARIABLE = "..."  # the name of a variable argument list


class CType(NamedTuple):
    """A C type; `size` in bytes, 0 for void.

    `kind`, behind typedefs and qualifiers, is int, bool, char, ptr, struct, union, enum, array, float or void.
    """

    text: str
    kind: str
    size: int
    signed: bool

    @property
    def is_text(self) -> bool:
        """True for a pointer to const characters."""
        words = self.text.replace("__user", "").replace("*", " * ").split()
        return words[-2:] == ["char", "*"] and "const" in words[:-2] and words.count("*") == 1

    @property
    def is_users(self) -> bool:
        """True for a pointer to user memory, where the compiler recorded that."""
        return "__user" in self.text.split()

    def declaring(self, name: str) -> str:
        """Return the declaration of a name with that type."""
        if "(*)" in self.text:
            return self.text.replace("(*)", f"(*{name})", 1)
        return self.text + ("" if self.text.endswith("*") else " ") + name if name else self.text


class Parameter(NamedTuple):
    """A parameter; a variable argument list ends with one called "..."."""

    name: str
    type: CType

    def __str__(self) -> str:
        return VARIABLE if self.name == VARIABLE else self.type.declaring(self.name)


class Prototype(NamedTuple):
    """A function's parameters and what it returns."""

    parameters: tuple[Parameter, ...]
    returns: CType

    def declaring(self, name: str) -> str:
        """Return the prototype of a function of that name in C."""
        return self.returns.declaring(f"{name}({', '.join(map(str, self.parameters)) or 'void'})")

    def slots(self) -> list[tuple[int, ...]]:
        """Return for each parameter the numbers N of the $argN that hold it; none where unknown.

        Parameters of up to two words get registers while these last; the others are on the stack ($arg7 and on).
        Source: System V ABI of x86-64, 3.2.3; kernel 6.12, regs_get_kernel_argument().
        """
        found: list[tuple[int, ...]] = []
        register, stacked = 1, len(REGISTERS) + 1
        for name, c_type in self.parameters:
            words = max(1, -(-c_type.size // WORD))
            if name == VARIABLE or c_type.kind == "float":
                found.append(())
            elif words <= 2 and register + words - 1 <= len(REGISTERS):
                found.append(tuple(range(register, register + words)))
                register += words
            else:
                found.append(tuple(range(stacked, stacked + words)))
                stacked += words
        return found


def register(number: int) -> str:
    """Return where $argN is at a function's entry: a register, or a stack slot above the return address."""
    return REGISTERS[number - 1] if number <= len(REGISTERS) else f"$stack{number - len(REGISTERS)}"
