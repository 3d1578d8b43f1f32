/* The operations of bench_expose.py from a C program: bench_expose PATH write|read|bulk TIMES prints seconds per go. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char buffer[1 << 16];

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static int go(const char *path, const char *what)
{
    int writes = !strcmp(what, "write");
    size_t size = strcmp(what, "bulk") ? 4096 : sizeof(buffer);
    int file = open(path, writes ? O_WRONLY : O_RDONLY);
    ssize_t count;

    if (file < 0)
        return -1;
    if (writes)
        count = write(file, "1", 1) - 1;
    else
        while ((count = read(file, buffer, size)) > 0)
            ;
    return close(file) || count ? -1 : 0;
}

int main(int argc, char **argv)
{
    int times = argc > 3 ? atoi(argv[3]) : 0;
    double start = seconds();

    for (int done = 0; done < times; done++)
        if (go(argv[1], argv[2])) {
            perror(argv[1]);
            return 1;
        }
    printf("%.9f\n", (seconds() - start) / times);
    return 0;
}
