/* What the tasks of a guest have in common: how they are asked, and how they make a system call without a libc.
 * ROOM is how many bytes of data a request has room for.
 */

#pragma GCC optimize("no-stack-protector")

typedef unsigned long u64;
typedef long s64;

#define MEMORY 0x10000000ul
#define MEMORY_SIZE 0x4000ul

static s64 call(u64 number, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f)
{
    s64 result;
    register u64 r10 __asm__("r10") = d;
    register u64 r8 __asm__("r8") = e;
    register u64 r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

struct request {
    u64 kind, number, argument[6], repeat, length;
    unsigned char data[ROOM];
};
