/*
 * System calls with results of all kinds, made in a directory of its own.  For each it prints what the kernel's function
 * gave, or what becomes of a task, so that this can be compared with what probes there saw:
 *
 *	TID open RESULT		do_sys_openat2; a call that doesn't get there prints nothing
 *	TID fork RESULT		kernel_clone
 *	TID NAME RESULT		the system call NAME
 *	TID end STATUS		do_exit
 *
 * Its children make more calls, whose results they can't report.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define ERESTARTSYS 512 /* what EINTR is inside the kernel */
#define THREADS 20

static char out[1 << 16];
static int used;

static pid_t tid(void)
{
	return syscall(SYS_gettid);
}

static void say(pid_t task, const char *what, long result)
{
	int at = __atomic_fetch_add(&used, 64, __ATOMIC_SEQ_CST);

	snprintf(out + at, 64, "%d %s %ld\n", task, what, result);
}

static long call(long number, long a, long b, long c, long d)
{
	long result = syscall(number, a, b, c, d);

	return result < 0 ? -errno : result;
}

#define P(x) ((long)(x))

static long opened(long result)
{
	say(tid(), "open", result);
	if (result >= 0)
		close(result);
	return result;
}

static long do_open(const char *path, int flags, int mode)
{
	return opened(call(SYS_open, P(path), flags, mode, 0));
}

static long do_openat(int fd, const char *path, int flags)
{
	return opened(call(SYS_openat, fd, P(path), flags, 0600));
}

static long openat2(const char *path, uint64_t flags, uint64_t resolve, long size)
{
	static struct {
		struct open_how how;
		char more[5000];
	} it;

	it.how.flags = flags;
	it.how.mode = flags & O_CREAT ? 0640 : 0;
	it.how.resolve = resolve;
	return call(SYS_openat2, AT_FDCWD, P(path), P(&it), size);
}

static void do_openat2(const char *path, uint64_t flags, uint64_t resolve, long size)
{
	opened(openat2(path, flags, resolve, size));
}

static void ring(int number)
{
	(void)number;
}

static void returns_7(void) { _exit(7); }
static void is_killed(void) { raise(SIGKILL); }
static void is_terminated(void) { kill(getpid(), SIGTERM); }
static void aborts(void) { abort(); }
static void faults(void) { *(volatile int *)8 = 1; }

static void is_killed_in_an_open(void)
{
	pid_t parent = getpid();

	if (!fork()) {
		char path[64], state = 0;

		snprintf(path, sizeof(path), "/proc/%d/stat", parent);
		while (state != 'S') { /* until it waits in the open */
			char text[256] = "", *end;
			int fd = open(path, O_RDONLY);

			if (read(fd, text, sizeof(text) - 1) < 0)
				_exit(1);
			close(fd);
			end = strrchr(text, ')');
			state = end ? end[2] : 0;
		}
		kill(parent, SIGKILL);
		_exit(0);
	}
	open("pipe", O_RDONLY);
}

/* a child that ends as `how` has it; what it did is printed here, as nothing it puts into its memory is seen */
static void ends(void (*how)(void))
{
	int status;
	pid_t pid;

	pid = call(SYS_clone, SIGCHLD, 0, 0, 0);
	if (!pid) {
		how();
		_exit(99);
	}
	say(tid(), "fork", pid);
	waitpid(pid, &status, 0);
	if (how == is_killed_in_an_open)
		say(pid, "open", -ERESTARTSYS);
	say(pid, "end", status);
}

static pthread_barrier_t all;

static void *opens(void *argument)
{
	(void)argument;
	say(getpid(), "fork", tid());
	for (int i = 0; i < 10; i++)
		do_open(i % 2 ? "file" : "nosuch", O_RDONLY, 0);
	say(tid(), "end", 0);
	return NULL;
}

static void *waits(void *argument)
{
	say(getpid(), "fork", tid());
	say(tid(), "end", 7 << 8);
	pthread_barrier_wait(argument);
	for (;;)
		pause();
	return NULL;
}

static void threads(void)
{
	pthread_t thread[THREADS];

	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, opens, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
}

static void fifo(void)
{
	struct sigaction action = { .sa_handler = ring };
	struct itimerval soon = { .it_value = { .tv_usec = 50000 }, .it_interval = { .tv_usec = 50000 } }, never = { 0 };
	int status;
	pid_t pid;
	long result;

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &soon, NULL);
	result = call(SYS_openat, AT_FDCWD, P("pipe"), O_RDONLY, 0);
	setitimer(ITIMER_REAL, &never, NULL);
	say(tid(), "open", result == -EINTR ? -ERESTARTSYS : result);

	pid = fork();
	if (!pid) /* waits for the one that writes, while its parent goes on */
		_exit(call(SYS_open, P("pipe"), O_RDONLY, 0, 0));
	say(tid(), "fork", pid);
	for (int i = 0; i < 5; i++)
		do_open("file", O_RDONLY, 0);
	result = do_open("pipe", O_WRONLY, 0);
	waitpid(pid, &status, 0);
	say(pid, "open", WEXITSTATUS(status));
	say(pid, "end", status);
}

static void programs(void)
{
	char *none[] = { NULL }, *true_[] = { "true", NULL };
	int status, fd;
	pid_t pid;

	say(tid(), "execve", call(SYS_execve, P("nosuch"), P(none), P(none), 0));
	say(tid(), "execve", call(SYS_execve, P("file"), P(none), P(none), 0));
	say(tid(), "execve", call(SYS_execve, P("dir"), P(none), P(none), 0));
	say(tid(), "execve", call(SYS_execve, 1, P(none), P(none), 0));
	pid = vfork();
	if (!pid) {
		syscall(SYS_execve, "/bin/true", true_, none);
		_exit(1);
	}
	say(tid(), "fork", pid);
	say(pid, "execve", 0);
	waitpid(pid, &status, 0);
	say(pid, "end", status);
	say(tid(), "open", (fd = call(SYS_open, P("/bin/true"), O_PATH, 0, 0)));
	pid = fork();
	if (!pid) {
		syscall(SYS_execveat, fd, "", true_, none, AT_EMPTY_PATH);
		_exit(1);
	}
	say(tid(), "fork", pid);
	say(pid, "execve", 0); /* the new program has come by execve, whatever was called */
	waitpid(pid, &status, 0);
	say(pid, "end", status);
	close(fd);
}

static void forks(void)
{
	struct clone_args args = { .exit_signal = SIGCHLD };
	pthread_t thread;
	int status;
	pid_t pid;

	pid = call(SYS_fork, 0, 0, 0, 0);
	if (!pid)
		_exit(3);
	say(tid(), "fork", pid);
	waitpid(pid, &status, 0);
	say(pid, "end", status);
	pid = call(SYS_clone3, P(&args), sizeof(args), 0, 0);
	if (!pid)
		_exit(4);
	say(tid(), "fork", pid);
	waitpid(pid, &status, 0);
	say(pid, "end", status);
	pid = call(SYS_clone, SIGCHLD | CLONE_UNTRACED, 0, 0, 0);
	if (!pid)
		_exit(-call(SYS_open, P("nosuch"), O_RDONLY, 0, 0));
	say(tid(), "fork", pid);
	waitpid(pid, &status, 0);
	say(pid, "open", -WEXITSTATUS(status));
	say(pid, "end", status);
	call(SYS_clone3, P(&args), 8, 0, 0); /* EINVAL, before kernel_clone */
	say(tid(), "fork", call(SYS_clone, CLONE_THREAD, 0, 0, 0)); /* EINVAL */
	ends(returns_7);
	ends(is_killed);
	ends(is_terminated);
	ends(aborts);
	ends(faults);
	/* all of its threads end with it */
	pid = fork();
	say(tid(), "fork", pid); /* the child's is lost with its memory */
	if (!pid) {
		used = 0;
		pthread_barrier_init(&all, NULL, THREADS + 1);
		for (int i = 0; i < THREADS; i++)
			pthread_create(&thread, NULL, waits, &all);
		pthread_barrier_wait(&all);
		for (int at = 0; at < used; at += 64)
			write(1, out + at, strlen(out + at));
		syscall(SYS_exit_group, 7);
	}
	waitpid(pid, &status, 0);
	say(pid, "end", status);
}

static void rooted(void)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		long result;

		if (chroot("dir"))
			_exit(100);
		chdir("/");
		result = call(SYS_open, P("/inside"), O_RDONLY, 0, 0);
		call(SYS_open, P("/file"), O_RDONLY, 0, 0);
		_exit(result);
	}
	say(tid(), "fork", pid);
	waitpid(pid, &status, 0);
	say(pid, "open", WEXITSTATUS(status));
	say(pid, "open", -ENOENT);
	say(pid, "end", status);
}

#ifdef __x86_64__
static long call32(long number, long a, long b, long c)
{
	long result;

	asm volatile("int $0x80" : "=a"(result) : "a"(number), "b"(a), "c"(b), "d"(c) : "memory", "r8", "r9", "r10", "r11");
	return (int)result;
}

static void bits32(void)
{
	char *low = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);

	if (call32(20, 0, 0, 0) != getpid())
		return; /* this kernel runs no 32-bit programs */
	strcpy(low, "file");
	opened(call32(5, P(low), O_RDONLY, 0));
	strcpy(low, "nosuch");
	opened(call32(295, AT_FDCWD, P(low), O_RDONLY));
}
#endif

int main(void)
{
	char directory[] = "calls-XXXXXX", path[5000];
	struct rlimit old, few = { 3, 3 }, none = { 0, 0 };
	int fd;

	if (!mkdtemp(directory))
		return 1;
	say(tid(), "chdir", call(SYS_chdir, P(directory), 0, 0, 0));
	setrlimit(RLIMIT_CORE, &none); /* the status of who ends by a signal is the signal alone */
	mkdir("dir", 0755);
	mkfifo("pipe", 0600);
	say(tid(), "symlink", call(SYS_symlink, P("loop"), P("loop"), 0, 0));
	say(tid(), "symlink", call(SYS_symlink, P("file"), P("link"), 0, 0));
	memset(path, 'x', sizeof(path));
	path[sizeof(path) - 1] = 0;

	say(tid(), "open", (fd = call(SYS_creat, P("file"), 0644, 0, 0)));
	close(fd);
	say(tid(), "open", (fd = call(SYS_creat, P("dir/inside"), 0644, 0, 0)));
	close(fd);
	opened(call(SYS_creat, P("dir"), 0644, 0, 0));
	do_open("file", O_RDONLY, 0);
	do_open("nosuch", O_RDONLY, 0);
	do_open("dir", O_RDWR, 0);
	do_open("dir", O_RDONLY | O_DIRECTORY, 0);
	do_open("file", O_RDONLY | O_DIRECTORY, 0);
	do_open("file/x", O_RDONLY, 0);
	do_open("file", O_CREAT | O_EXCL | O_RDWR, 0600);
	do_open("new", O_CREAT | O_EXCL | O_RDWR, 0600);
	do_open("loop", O_RDONLY, 0);
	do_open("link", O_RDONLY | O_NOFOLLOW, 0);
	do_open("link", O_PATH | O_NOFOLLOW, 0);
	do_open("link", O_RDONLY, 0);
	do_open("pipe", O_WRONLY | O_NONBLOCK, 0);
	do_open("pipe", O_RDONLY | O_NONBLOCK, 0);
	do_open("/sys/kernel/tracing/nosuch", O_CREAT | O_RDWR, 0600);
	do_open("/sys/kernel/tracing/tracing_on", O_RDONLY, 0);
	do_open("/sys/kernel/tracing/nosuch", O_RDONLY, 0);
	do_open("", O_RDONLY, 0);
	do_open(path, O_RDONLY, 0);
	do_open((char *)1, O_RDONLY, 0);
	do_open(NULL, O_RDONLY, 0);
	do_open(".", O_TMPFILE | O_RDWR, 0600);
	do_open(".", O_TMPFILE | O_RDONLY, 0600);
	do_openat(99, "file", O_RDONLY);
	do_openat(99, "/etc/passwd", O_RDONLY);
	say(tid(), "open", (fd = call(SYS_openat, AT_FDCWD, P("dir"), O_PATH, 0)));
	do_openat(fd, "inside", O_RDONLY);
	do_openat(fd, "../nosuch", O_RDONLY);
	close(fd);
	getrlimit(RLIMIT_NOFILE, &old);
	few.rlim_max = old.rlim_max;
	setrlimit(RLIMIT_NOFILE, &few);
	do_open("file", O_RDONLY, 0);
	setrlimit(RLIMIT_NOFILE, &old);
	do_openat2("file", O_RDONLY, 0, 24);
	do_openat2("more", O_CREAT | O_RDWR, 0, 24);
	do_openat2("file", O_RDONLY, 0, 4096);
	do_openat2("../x", O_RDONLY, RESOLVE_BENEATH, 24);
	do_openat2("/file", O_RDONLY, RESOLVE_IN_ROOT, 24);
	do_openat2("link", O_RDONLY, RESOLVE_NO_SYMLINKS, 24);
	do_openat2("/proc/self/status", O_RDONLY, RESOLVE_NO_XDEV, 24);
	do_openat2("file", 1ull << 40, 0, 24);
	do_openat2("file", O_RDONLY, 1 << 20, 24);
	openat2("file", O_RDONLY, 0, 8); /* EINVAL, E2BIG, EFAULT: they don't get to do_sys_openat2 */
	openat2("file", O_RDONLY, 0, 5000);
	call(SYS_openat2, AT_FDCWD, P("file"), 1, 24);
	say(tid(), "symlink", call(SYS_symlink, P("file"), P("another"), 0, 0));
	say(tid(), "symlink", call(SYS_symlink, P("file"), P("another"), 0, 0));
	say(tid(), "chdir", call(SYS_chdir, P("nosuch"), 0, 0, 0));
	say(tid(), "chdir", call(SYS_chdir, P("file"), 0, 0, 0));
	say(tid(), "chdir", call(SYS_chdir, P("."), 0, 0, 0));
	say(tid(), "kill", call(SYS_kill, 99999999, 0, 0, 0));
	say(tid(), "kill", call(SYS_kill, getpid(), 0, 0, 0));
	say(tid(), "kill", call(SYS_kill, getpid(), 99, 0, 0));
	fifo();
	programs();
	forks();
	ends(is_killed_in_an_open);
	threads();
	rooted();
#ifdef __x86_64__
	bits32();
#endif
	for (int at = 0; at < used; at += 64)
		write(1, out + at, strlen(out + at));
	return 0;
}
