/* A task of the guest with a pid that was chosen, which does what a scenario says, and nothing else.
 *
 * actor PID starts it in the background, and prints "ok" or the errno; it is asked by a struct request at
 * /tmp/actor.PID.requests, and its answer is 8 bytes at /tmp/actor.PID.answers: what the call returned, or minus the
 * errno.  No libc; its memory is at a fixed address, and 0, 1, 2 are /dev/null with all its own descriptors far above,
 * so the next descriptor is always 3.  x86-64, Linux 5.5 and later (clone3 with set_tid).
 *
 * kind: 'c'  make system call `number` `repeat` times, the data put at MEMORY first; what openat returns is closed again
 *       'n'  set the task's name to the data
 *       'o'  open the file named by the data for writing, as descriptor `number`
 *       'w'  write the data to descriptor `number`, in as many writes as the kernel wants
 *       't'  start a thread with pid `number`, which is asked in the same way
 *
 * Built by actor.py: cc -Os -static -nostdlib -fno-pie -no-pie
 */

#define ROOM 4000 /* a request fits what a pipe takes at once */
#include "task.h"

#define STACK_SIZE 0x8000ul
#define ADDED 60 /* descriptors of its own from here on */

enum { READ = 0, WRITE = 1, OPEN = 2, CLOSE = 3, MMAP = 9, DUP2 = 33, EXIT = 60, UNLINK = 87, SETSID = 112, MKNOD = 133,
       PRCTL = 157, OPENAT = 257, OPENAT2 = 437, CLONE3 = 435 };
enum { CLONE_VM = 0x100, CLONE_FS = 0x200, CLONE_SIGHAND = 0x800, CLONE_THREAD = 0x10000, SIGCHLD = 17 };

struct clone_args {
    u64 flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup;
};

static volatile int asked_tid; /* by the thread that is being started */

static char *digits(char *end, u64 value)
{
    *--end = 0;
    do
        *--end = (char)('0' + value % 10);
    while (value /= 10);
    return end;
}

static void path_of(char *path, u64 pid, const char *kind)
{
    char text[24];
    const char *parts[] = { "/tmp/actor.", digits(text + sizeof text, pid), kind };
    for (int i = 0; i < 3; i++)
        for (const char *at = parts[i]; *at; at++)
            *path++ = *at;
    *path = 0;
}

/* Whoever opens one of them before its task has come waits for it. */
static void make_channels(u64 pid)
{
    char path[64];
    for (int i = 0; i < 2; i++) {
        path_of(path, pid, i ? ".answers" : ".requests");
        call(UNLINK, (u64)path, 0, 0, 0, 0, 0);
        call(MKNOD, (u64)path, 010600, 0, 0, 0, 0);
    }
}

static void open_channel(u64 pid, const char *kind, u64 as)
{
    char path[64];
    path_of(path, pid, kind);
    /* Open for both directions, so that the other side may come and go. */
    call(DUP2, (u64)call(OPEN, (u64)path, 2, 0, 0, 0, 0), as, 0, 0, 0, 0);
}

static s64 start_thread(u64 tid);

static s64 perform(const struct request *request)
{
    const u64 *a = request->argument;
    s64 result = 0;
    u64 done = 0;
    switch (request->kind) {
    case 'n':
        return call(PRCTL, 15, (u64)request->data, 0, 0, 0, 0);
    case 'o':
        result = call(OPEN, (u64)request->data, 1, 0, 0, 0, 0);
        if (result < 0)
            return result;
        call(DUP2, (u64)result, request->number, 0, 0, 0, 0);
        return call(CLOSE, (u64)result, 0, 0, 0, 0, 0);
    case 'w':
        do {
            result = call(WRITE, request->number, (u64)(request->data + done), request->length - done, 0, 0, 0);
            done += (u64)result;
        } while (result > 0 && done < request->length);
        return result < 0 ? result : (s64)done;
    case 't':
        return start_thread(request->number);
    }
    for (u64 i = 0; i < request->repeat; i++) {
        result = call(request->number, a[0], a[1], a[2], a[3], a[4], a[5]);
        if (result >= 0 && (request->number == OPENAT || request->number == OPENAT2))
            call(CLOSE, (u64)result, 0, 0, 0, 0, 0);
    }
    return result;
}

static void serve(u64 pid)
{
    static struct request requests[16]; /* each task has one of them, by how many there are */
    static int tasks;
    struct request *request = &requests[__atomic_fetch_add(&tasks, 1, __ATOMIC_SEQ_CST) & 15];
    volatile unsigned char *memory = (unsigned char *)MEMORY; /* volatile: no memset call is made of the loops */
    s64 result;
    u64 in = ADDED, out = ADDED + 1;

    open_channel(pid, ".requests", in);
    open_channel(pid, ".answers", out);
    s64 null = call(OPEN, (u64) "/dev/null", 2, 0, 0, 0, 0);
    for (u64 fd = 0; fd < 3; fd++)
        call(DUP2, (u64)null, fd, 0, 0, 0, 0);
    for (u64 fd = 3; fd < ADDED; fd++)
        call(CLOSE, fd, 0, 0, 0, 0, 0);
    __atomic_store_n(&asked_tid, 0, __ATOMIC_SEQ_CST);
    for (;;) {
        if (call(READ, in, (u64)request, sizeof *request, 0, 0, 0) != (s64)sizeof *request)
            continue;
        if (request->kind == 'c')
            for (u64 i = 0; i < request->length; i++)
                memory[i] = request->data[i];
        result = perform(request);
        call(WRITE, out, (u64)&result, sizeof result, 0, 0, 0);
    }
}

__attribute__((used)) static void thread(void)
{
    serve((u64)asked_tid);
}

static s64 start_thread(u64 tid)
{
    int wanted = (int)tid;
    s64 stack = call(MMAP, 0, STACK_SIZE, 3, 0x22, -1ul, 0), result;
    struct clone_args args = { .flags = CLONE_VM | CLONE_FS | CLONE_SIGHAND | CLONE_THREAD, .stack = (u64)stack,
                               .stack_size = STACK_SIZE, .set_tid = (u64)&wanted, .set_tid_size = 1 };
    make_channels(tid);
    asked_tid = wanted;
    __asm__ volatile("syscall\n\ttest %%rax, %%rax\n\tjnz 1f\n\txor %%ebp, %%ebp\n\tcall thread\n1:"
                     : "=a"(result)
                     : "a"((u64)CLONE3), "D"(&args), "S"(sizeof args)
                     : "rcx", "r11", "memory");
    if (result > 0)
        while (__atomic_load_n(&asked_tid, __ATOMIC_SEQ_CST)) /* until it can be asked */
            ;
    return result;
}

static void say(s64 result)
{
    char text[24], *end = text + sizeof text, *at;
    if (result > 0) {
        call(WRITE, 1, (u64) "ok\n", 3, 0, 0, 0);
        return;
    }
    at = digits(end, (u64)-result);
    call(WRITE, 1, (u64)at, (u64)(end - 1 - at), 0, 0, 0);
}

__attribute__((used)) static void start(const u64 *stack)
{
    int wanted = 0;
    s64 result;
    struct clone_args args = { .exit_signal = SIGCHLD, .set_tid = (u64)&wanted, .set_tid_size = 1 };
    if (stack[0] == 2)
        for (const char *at = (const char *)stack[2]; *at; at++)
            wanted = wanted * 10 + *at - '0';
    call(MMAP, MEMORY, MEMORY_SIZE, 3, 0x8032, -1ul, 0); /* MAP_PRIVATE|MAP_FIXED|MAP_ANONYMOUS|MAP_POPULATE */
    make_channels((u64)wanted);
    asked_tid = wanted;
    result = call(CLONE3, (u64)&args, sizeof args, 0, 0, 0, 0);
    if (result) {
        say(result);
        call(EXIT, result < 0, 0, 0, 0, 0, 0);
    }
    call(SETSID, 0, 0, 0, 0, 0, 0);
    for (u64 i = 0; i < MEMORY_SIZE; i++)
        ((volatile unsigned char *)MEMORY)[i] = 0;
    serve((u64)wanted);
}

__asm__(".globl _start\n_start:\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall start\n");
