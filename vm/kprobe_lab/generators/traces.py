"""Random traces: fetch arguments of all kinds on a function that the workload calls, with memory that is known."""

from __future__ import annotations

from random import Random

from kprobe_lab.generators.filters import Filters
from kprobe_lab.generators.ways import Ways
from kprobe_lab.operations.operation import OURS, Call, Operation, Read, Write

MEMORY = 0x10000000  # where the task's data lies, see workload.c
WIPE = Call("fadvise", (-2, MEMORY, 0, 0, b"\0" * 1024))


class Traces:
    """A source of probes whose events can be predicted."""

    def __init__(self, random: Random, filters: Filters, ways: Ways) -> None:
        self._random = random
        self._filters = filters
        self._faults_reported = not ways.faults_missed

    def case(self) -> list[Operation]:
        """Return probes on a function with arguments of all kinds, and calls of it."""
        random = self._random
        operations: list[Operation] = zeros_on_scratch_page()
        block = self._block()
        refiltered = random.random() < 0.3  # then no failed numbers: without a filter they show the ring buffer's past
        lines = []
        for number in range(random.choice((4, 8, 16))):
            kind = random.choice("pppr")
            point = "ksys_fadvise64_64" if kind == "r" or random.random() < 0.85 else "ksys_fadvise64_64+5"
            words = [f"{kind}:g/e{number}", point]
            for index in range(random.choice((1, 2, 3, 6))):
                words.append(f"f{index}={self._fetched(kind, point, faults=not refiltered)}")
            lines.append(" ".join(words).encode())
        operations.append(Write("kprobe_events", b"\n".join(lines)))
        operations += [Write(f"events/g/e{number}/filter", b'comm == "workload"') for number in range(len(lines))]
        # 5.10 calls no function at all for a filter on an array of numbers, and goes down
        filtered = [number for number, line in enumerate(lines) if self._faults_reported or b"[" not in line]
        if refiltered and filtered:
            texts = [self._filters.passed_alike(("f0", "f1", "f2")) for _ in range(4)]
            operations += [Write(f"events/g/e{random.choice(filtered)}/filter", text) for text in texts]
        if random.random() < 0.3:
            option = random.choice(("sym-addr", "sym-offset", "stacktrace", "noirq-info", "nocontext-info"))
            operations.append(Write("trace_options", option.encode()))
        operations.append(Write("events/g/enable", b"1"))
        for _ in range(random.choice((1, 2))):
            number = random.choice((0, 1, -1, 5, 255, 65536, 2**31, 2**63 - 1, random.getrandbits(63), MEMORY + 16))
            offset = random.choice((MEMORY, MEMORY + random.randrange(64), MEMORY + 16))
            fd = -2 if random.random() < 0.8 else random.choice((-1, -100, 1000, 0x7FFFFFF))
            operations.append(Call("fadvise", (fd, offset, number, random.choice((0, 1, 5, 77)), block)))
        operations += [Read("trace"), *[Read("kprobe_profile")] * self._faults_reported, Write("events/g/enable", b"0")]
        return [*operations, Read("kprobe_events"), Read("error_log")]

    def _block(self) -> bytes:
        random = self._random
        texts = (b"hello", b"", b"a\nb", b"\xff\xfe", b"x" * 100, b'quo"te', b"y" * 300, b"tab\t")
        head = b"".join(
            random.choice((MEMORY + random.randrange(64, 900), 0, 1, 2**63, random.getrandbits(64))).to_bytes(
                8, "little"
            )
            for _ in range(8)
        )
        body = b"".join(random.choice(texts) + b"\0" for _ in range(12))
        return (head + body + random.randbytes(1700))[:1790] + b"\0\0"

    def _fetched(self, kind: str, point: str, *, faults: bool) -> str:
        random = self._random
        offset = random.choice((0, 8, 16, 24, 64, 70, 100, random.randrange(600)))
        kinds = random.choice(("u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "x8", "x16", "x32", "x64"))
        bits = random.choice((8, 16, 32, 64))
        width = random.randrange(1, bits + 1)
        field = f"b{width}@{random.randrange(bits - width + 1)}/{bits}"
        length = random.choice((1, 2, 3, 5, 16))
        user = random.choice(("", "u"))
        if kind == "r":
            choices = [
                "$retval",
                f"$retval:{kinds}",
                "$comm",
                f"\\{random.randrange(1 << 40)}:{kinds}",
                "@linux_banner:string",
            ]
            choices += [f"@linux_banner:{kinds}[{length}]", f"+{offset}(\\{MEMORY}):{kinds}", "$retval:symbol"]
            choices += [f"@{MEMORY + offset}:string", f"@{MEMORY + offset}:{kinds}", '\\"imm":string']
            return random.choice(choices)
        register = random.choice(("%di", "%si", "%dx", "%cx", "$arg1", "$arg2", "$arg3", "$arg4"))
        if point.endswith("+5"):
            register = random.choice(("%di", "%si", "%dx", "%cx"))
        if faults and random.random() < 0.1:  # a number that can't be read shows old contents
            return random.choice(
                (
                    f"+0(%di):{kinds}",
                    f"+u8(%dx):{kinds}",
                    f"+0(+{random.randrange(8) * 8}(%si)):{kinds}",
                    f"+0(%di):{kinds}[{length}]",
                    f"+0(+8(%si)):{kinds}[{length}]",
                    f"+8(%di):{field}",
                    f"+0(%di):{field}[{length}]",
                    f"+8(+0(%di)):{field}",
                )
            )
        return random.choice(
            (
                register,
                f"{register}:{kinds}",
                f"{register}:{field}",
                f"{register}:symbol",
                f"{register}:symstr",
                f"+{user}{offset}(%si):{kinds}",
                f"+{offset}(%si):{kinds}[{length}]",
                f"+{user}{offset}(%si):{field}",
                f"+{offset}(%si):{field}[{length}]",
                f"+{user}{offset}(%si):string",
                f"+{offset}(%si):ustring",
                f"+0(%si):string[{random.choice((1, 2, 4, 8))}]",
                f"+0(%si):ustring[{random.choice((1, 2, 4))}]",
                f"+{user}0(+{user}{random.randrange(8) * 8}(%si)):string",
                f"+{random.randrange(8)}(%si):symbol",
                "%ip:symbol",
                "%cs",
                "%ss:u16",
                "$stack0:symbol",
                "+0($stack):symbol",
                "@linux_banner:string",
                f"@linux_banner+{random.randrange(40)}:{kinds}",
                f"@linux_banner:{kinds}[{length}]",
                f"\\{random.choice(('', '-'))}{random.randrange(1 << 40)}:{kinds}",
                f"\\{random.randrange(1 << 40)}:{field}",
                '\\"imm":string',
                "$comm",
                "$comm:string",
                f"+0({register}):string" if register not in ("%di", "$arg1", "%cx", "$arg4") else "$comm",
            )
        )


def zeros_on_scratch_page() -> list[Operation]:
    """Return operations that zero the scratch page of filtered records: failed reads show its old contents."""
    words = [f"w{number}=+0(%si):x64[64]" for number in range(5)]
    return [
        Write("kprobe_events", f"p:zz_wipe/w ksys_fadvise64_64 {' '.join(words)}".encode()),
        Write("events/zz_wipe/w/filter", OURS[0]),
        Write("events/zz_wipe/w/enable", b"1"),
        WIPE,
        Write("events/zz_wipe/w/enable", b"0"),
        Write("kprobe_events", b"-:zz_wipe/w"),
    ]
