/* System calls that Python hasn't, on a tracefs: prints "NAME: what came" for each; see limits.py. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define T "/sys/kernel/tracing/"

static char text[65536];

static void say(const char *name, long result)
{
	const char *errors = errno == EPERM ? "EPERM" : errno == EINVAL ? "EINVAL" : errno == ENXIO ? "ENXIO" :
			     errno == ESPIPE ? "ESPIPE" : "another error";

	if (result < 0)
		printf("%s: %s\n", name, errors);
	else
		printf("%s: %ld\n", name, result);
}

static int has(DIR *directory, const char *name)
{
	struct dirent *entry;
	int found = 0;

	while ((entry = readdir(directory)))
		found |= !strcmp(entry->d_name, name);
	return found;
}

static void put(const char *path, const char *what)
{
	int fd = open(path, O_WRONLY | O_APPEND);

	if (write(fd, what, strlen(what)) < 0)
		perror(path);
	close(fd);
}

static int opened(const char *path, int flags)
{
	int fd = open(path, flags);

	if (fd < 0)
		return fd;
	close(fd);
	return 1;
}

static long sought(const char *path, int whence)
{
	int fd = open(path, O_RDONLY);
	long result = lseek(fd, 0, whence);

	close(fd);
	return result;
}

static int waited(const char *path, int flags)
{
	struct epoll_event event = { .events = EPOLLIN };
	int set = epoll_create1(0), fd = open(path, flags | O_NONBLOCK), result = epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);

	close(fd);
	close(set);
	return result;
}

static void edges(void)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	int pipe = open(T "trace_pipe", O_RDONLY | O_NONBLOCK), set = epoll_create1(0), found = 0;

	while (read(pipe, text, sizeof(text)) > 0)
		;
	epoll_ctl(set, EPOLL_CTL_ADD, pipe, &event);
	found = epoll_wait(set, &event, 1, 0) * 1000;
	for (int i = 0; i < 5; i++) {
		put(T "trace_marker", "an event");
		found += epoll_wait(set, &event, 1, 20000);
		while (read(pipe, text, sizeof(text)) > 0)
			;
		found += epoll_wait(set, &event, 1, 0) * 1000;
	}
	say("epoll: edge-triggered, 5 events read one by one", found);
	for (found = 0; found < 3; found++) {
		put(T "trace_marker", "an event");
		if (epoll_wait(set, &event, 1, 20000) != 1 || epoll_wait(set, &event, 1, 0))
			break;
	}
	say("epoll: edge-triggered, 3 events that nobody reads", found);
	close(pipe);
	close(set);
}

int main(void)
{
	struct iovec parts[2] = { { "one ", 4 }, { "two", 3 } };
	int fd = open(T "trace_marker", O_WRONLY), marks = 0;
	DIR *directory;
	FILE *trace;

	if (writev(fd, parts, 2) != 7)
		perror("writev");
	close(fd);
	trace = fopen(T "trace", "r");
	while (fgets(text, sizeof(text), trace))
		marks += !!strstr(text, "tracing_mark_write: ");
	fclose(trace);
	say("writev: 2 parts to trace_marker, marks", marks);
	fd = open(T "kprobe_events", O_WRONLY);
	say("pwrite: kprobe_events", pwrite(fd, "# nothing\n", 10, 0));
	close(fd);
	say("open: O_DIRECT", opened(T "tracing_on", O_RDONLY | O_DIRECT));
	say("seek: SEEK_DATA of tracing_on", sought(T "tracing_on", SEEK_DATA));
	say("seek: SEEK_HOLE of tracing_on", sought(T "tracing_on", SEEK_HOLE));
	say("seek: SEEK_DATA of kprobe_events", sought(T "kprobe_events", SEEK_DATA));
	say("seek: SEEK_DATA of trace", sought(T "trace", SEEK_DATA));
	say("epoll: of a file that never waits", waited(T "tracing_on", O_RDONLY));
	say("epoll: of trace_marker", waited(T "trace_marker", O_WRONLY));
	say("epoll: of trace_pipe", waited(T "trace_pipe", O_RDONLY));
	directory = opendir(T "instances");
	has(directory, "new");
	mkdir(T "instances/new", 0755);
	rewinddir(directory);
	say("rewinddir: instances/, a new one", has(directory, "new"));
	rmdir(T "instances/new");
	rewinddir(directory);
	say("rewinddir: instances/, a removed one", has(directory, "new"));
	closedir(directory);
	directory = opendir(T "events");
	has(directory, "kprobes");
	put(T "kprobe_events", "p:probe do_sys_openat2\n");
	rewinddir(directory);
	say("rewinddir: events/, a new group", has(directory, "kprobes"));
	put(T "kprobe_events", "-:probe\n");
	rewinddir(directory);
	say("rewinddir: events/, a removed group", has(directory, "kprobes"));
	closedir(directory);
	edges();
	return 0;
}
