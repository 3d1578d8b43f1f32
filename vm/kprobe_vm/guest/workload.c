/* A task of the guest that does what a test asks of it, and nothing else.
 *
 * `workload serve`               starts the task in the background and prints its pid
 * `workload ask KIND N A1..A6 REPEAT [HEX]`  has the task do one thing and prints "RESULT"
 *
 * The task never opens a file of its own accord (no libc, no loader), is named "workload", has its memory at a fixed
 * address, and has 0, 1, 2 open on /dev/null and its two FIFOs far above, so the next descriptor is always 3: every
 * argument and result that a probe can see is known beforehand.  x86-64 only.
 *
 * KIND: call  system call N with A1..A6, HEX put at MEMORY first; a descriptor that openat returns is closed again
 *       fork  fork a child that exits at once, wait for it, and return its pid
 *       name  set the task's name to HEX
 *       quit  end
 *
 * Built by workload.py: cc -Os -static -nostdlib -fno-pie -no-pie
 */

#pragma GCC optimize("no-stack-protector")

typedef unsigned long u64;
typedef long s64;

#define MEMORY 0x10000000ul
#define MEMORY_SIZE 0x4000ul
#define ROOM 1792
#define REQUESTS "/tmp/workload.requests"
#define ANSWERS "/tmp/workload.answers"

enum { READ = 0, WRITE = 1, OPEN = 2, CLOSE = 3, MMAP = 9, DUP2 = 33, GETPID = 39, FORK = 57, EXIT = 60, WAIT4 = 61,
       UNLINK = 87, SETSID = 112, MKNOD = 133, PRCTL = 157, OPENAT = 257, OPENAT2 = 437 };

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

static int same(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

static u64 parse(const char *text)
{
    u64 value = 0, negative = *text == '-';
    if (negative)
        text++;
    while (*text >= '0' && *text <= '9')
        value = value * 10 + (u64)(*text++ - '0');
    return negative ? -value : value;
}

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

static void serve(void)
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

static s64 ask(int count, char **words)
{
    static struct request request;
    s64 result = 0, to, from;

    call(PRCTL, 15, (u64) "asker", 0, 0, 0, 0); /* so that its own opens aren't taken for the task's */
    request.kind = (u64)words[2][0];
    request.number = parse(words[3]);
    for (int i = 0; i < 6; i++)
        request.argument[i] = parse(words[4 + i]);
    request.repeat = parse(words[10]);
    for (const char *hex = count > 11 ? words[11] : ""; hex[0] && hex[1] && request.length < ROOM; hex += 2) {
        unsigned value = 0;
        for (int i = 0; i < 2; i++)
            value = value * 16 + (unsigned)(hex[i] <= '9' ? hex[i] - '0' : hex[i] - 'a' + 10);
        request.data[request.length++] = (unsigned char)value;
    }
    to = call(OPEN, (u64)REQUESTS, 1, 0, 0, 0, 0);
    from = call(OPEN, (u64)ANSWERS, 0, 0, 0, 0, 0);
    if (to < 0 || from < 0)
        return 1;
    call(WRITE, (u64)to, (u64)&request, sizeof request, 0, 0, 0);
    if (request.kind != 'q' && call(READ, (u64)from, (u64)&result, sizeof result, 0, 0, 0) != sizeof result)
        return 1;
    print(result);
    return 0;
}

__attribute__((used)) static void start(u64 *stack)
{
    int count = (int)stack[0];
    char **words = (char **)(stack + 1);
    s64 status = 2;

    if (count == 2 && same(words[1], "serve"))
        serve();
    else if (count >= 11 && same(words[1], "ask"))
        status = ask(count, words);
    call(EXIT, (u64)status, 0, 0, 0, 0, 0);
}

__asm__(".globl _start\n_start:\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall start\n");
