/* A task of the guest that does what a test asks of it, and nothing else.
 *
 * The program starts the task in the background and prints its pid.  It is asked by a struct request that is written to
 * REQUESTS, and its answer is 8 bytes at ANSWERS: what the call returned, or minus the errno.
 *
 * The task never opens a file of its own accord (no libc, no loader), is named "workload", has its memory at a fixed
 * address, and has 0, 1, 2 open on /dev/null and its two FIFOs far above, so the next descriptor is always 3: every
 * argument and result that a probe can see is known beforehand.  x86-64 only.
 *
 * kind: 'c'  call system call `number`, the data put at MEMORY first; a descriptor that openat returns is closed again
 *       'f'  fork a child that exits at once, wait for it, and answer its pid
 *       'n'  set the task's name to the data
 *       'q'  end, without an answer
 *
 * Built by workload.py: cc -Os -static -nostdlib -fno-pie -no-pie
 */

#define ROOM 1792
#include "task.h"

#define REQUESTS "/tmp/workload.requests"
#define ANSWERS "/tmp/workload.answers"

enum { READ = 0, WRITE = 1, OPEN = 2, CLOSE = 3, MMAP = 9, DUP2 = 33, GETPID = 39, FORK = 57, EXIT = 60, WAIT4 = 61,
       UNLINK = 87, SETSID = 112, MKNOD = 133, PRCTL = 157, OPENAT = 257, OPENAT2 = 437 };


static void print(s64 value)
{
    char text[24];
    int at = sizeof text;
    u64 rest = value < 0 ? -(u64)value : (u64)value;
    text[--at] = '\n';
    do
        text[--at] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (value < 0)
        text[--at] = '-';
    call(WRITE, 1, (u64)(text + at), sizeof text - (u64)at, 0, 0, 0);
}

static s64 perform(const struct request *request)
{
    const u64 *a = request->argument;
    s64 result = 0;
    for (u64 i = 0; i < request->repeat; i++) {
        if (request->kind == 'f') {
            result = call(FORK, 0, 0, 0, 0, 0, 0);
            if (!result)
                call(EXIT, 0, 0, 0, 0, 0, 0);
            if (result > 0)
                call(WAIT4, (u64)result, 0, 0, 0, 0, 0);
        } else {
            result = call(request->number, a[0], a[1], a[2], a[3], a[4], a[5]);
            if (result >= 0 && (request->number == OPENAT || request->number == OPENAT2))
                call(CLOSE, (u64)result, 0, 0, 0, 0, 0);
        }
    }
    return result;
}

__attribute__((used)) static void serve(void)
{
    static struct request request;
    volatile unsigned char *memory = (unsigned char *)MEMORY; /* volatile: no memset call is made of the loops */
    s64 result, null;

    call(UNLINK, (u64)REQUESTS, 0, 0, 0, 0, 0);
    call(UNLINK, (u64)ANSWERS, 0, 0, 0, 0, 0);
    call(MKNOD, (u64)REQUESTS, 010600, 0, 0, 0, 0);
    call(MKNOD, (u64)ANSWERS, 010600, 0, 0, 0, 0);
    /* Open for both directions, so that neither side ever waits for the other to come. */
    call(DUP2, (u64)call(OPEN, (u64)REQUESTS, 2, 0, 0, 0, 0), 100, 0, 0, 0, 0);
    call(DUP2, (u64)call(OPEN, (u64)ANSWERS, 2, 0, 0, 0, 0), 101, 0, 0, 0, 0);
    call(MMAP, MEMORY, MEMORY_SIZE, 3, 0x32, -1ul, 0); /* PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_FIXED|MAP_ANONYMOUS */
    for (u64 i = 0; i < MEMORY_SIZE; i++)
        memory[i] = 0;
    result = call(FORK, 0, 0, 0, 0, 0, 0);
    if (result) {
        print(result);
        call(EXIT, result < 0, 0, 0, 0, 0, 0);
    }
    call(SETSID, 0, 0, 0, 0, 0, 0);
    call(PRCTL, 15, (u64) "workload", 0, 0, 0, 0);
    null = call(OPEN, (u64) "/dev/null", 2, 0, 0, 0, 0);
    for (u64 fd = 0; fd < 3; fd++)
        call(DUP2, (u64)null, fd, 0, 0, 0, 0);
    for (u64 fd = 3; fd < 100; fd++)
        call(CLOSE, fd, 0, 0, 0, 0, 0);
    for (;;) {
        if (call(READ, 100, (u64)&request, sizeof request, 0, 0, 0) != sizeof request)
            continue;
        for (u64 i = 0; i < request.length; i++)
            memory[i] = request.data[i];
        if (request.kind == 'q')
            call(EXIT, 0, 0, 0, 0, 0, 0);
        if (request.kind == 'n')
            result = call(PRCTL, 15, MEMORY, 0, 0, 0, 0);
        else
            result = perform(&request);
        call(WRITE, 101, (u64)&result, sizeof result, 0, 0, 0);
    }
}

__asm__(".globl _start\n_start:\n\tand $-16, %rsp\n\tcall serve\n");
