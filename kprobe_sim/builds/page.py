"""The sizes of memory on x86-64, the only architecture that is simulated."""

from __future__ import annotations

PAGE_SIZE = 4096  # bytes; a profile that was recorded with another is refused
STACK_SIZE = 4 * PAGE_SIZE  # bytes of a kernel stack (THREAD_SIZE) without KASAN; a machine has its profile's
KERNEL_STACK = 0xFFFF_C900_0001_0000  # where the stack of a task that makes calls begins
