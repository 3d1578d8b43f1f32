/* Programs of the guest: started, fed, read, and reaped by process 1. */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_cond_t child_born = PTHREAD_COND_INITIALIZER;
static int children;	/* programs that still run; under `lock` */

static void exec_child(char **argv, char **envp, const char *directory, const char *input, int in, int out, int err,
		       int failed)
{
	sigset_t none;
	int error, fd = -1;

	sigemptyset(&none);
	setsid();
	signal(SIGPIPE, SIG_DFL);
	signal(SIGUSR1, SIG_DFL);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if ((in < 0 && (in = fd = open(input, O_RDONLY)) < 0) || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0 ||
	    chdir(directory) < 0)
		goto fail;
	if (fd > 2)
		close(fd);
	environ = envp;	/* execvp() searches its PATH, too */
	execvp(argv[0], argv);
fail:
	error = errno;
	if (write(failed, &error, sizeof error) < 0)
		_exit(126);
	_exit(127);
}

/* Send what a pipe holds now, however much its writers add meanwhile. */
static void send_rest(struct job *job, int fd, uint8_t which, uint8_t *buffer)
{
	int left = 0;

	if (ioctl(fd, FIONREAD, &left) < 0)
		return;
	while (left > 0 && !is_cancelled(job)) {
		ssize_t n = read(fd, buffer, left < CHUNK ? left : CHUNK);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0 || send_data(job, which, buffer, n) < 0)
			return;
		left -= n;
	}
}

/* Payload: u32 flags (1: capture, 2: INPUT gives the input), u32 argc, u32 envc, then strings with NUL: directory, input
   file, argv, environment. */
void run(struct job *job)
{
	static __thread uint8_t buffer[CHUNK];
	int out[2] = { -1, -1 }, err[2] = { -1, -1 }, failed[2] = { -1, -1 }, in[2] = { -1, -1 }, woken = -1;
	uint32_t capture, piped, argc, envc, i;
	char **strings = NULL, **argv, **envp, *at, *end;
	int error = 0, started = 0;
	uint8_t head[5];
	pid_t child;

	if (job->length < 12)
		goto invalid;
	capture = u32_at(job->payload) & 1;
	piped = u32_at(job->payload) & 2;
	argc = u32_at(job->payload + 4);
	envc = u32_at(job->payload + 8);
	if (argc < 1 || argc > 4096 || envc > 4096 || !(strings = calloc(argc + envc + 4, sizeof *strings)))
		goto invalid;
	at = (char *)job->payload + 12;
	end = (char *)job->payload + job->length;
	argv = strings + 2;
	envp = argv + argc + 1;
	for (i = 0; i < 2 + argc + envc; i++) {
		if (at >= end)
			goto invalid;
		strings[i < 2 + argc ? i : i + 1] = at;
		at += strlen(at) + 1;
	}
	if (pipe2(failed, O_CLOEXEC) < 0 || (piped && pipe2(in, O_CLOEXEC) < 0) || (woken = eventfd(0, EFD_CLOEXEC)) < 0)
		goto fail;
	if (capture ? pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0
		    : (out[1] = open("/dev/null", O_WRONLY | O_CLOEXEC)) < 0 || (err[1] = dup(out[1])) < 0)
		goto fail;
	pthread_mutex_lock(&lock);
	child = fork();
	if (child == 0)
		exec_child(argv, envp, strings[0], strings[1], in[0], out[1], err[1], failed[1]);
	if (child < 0)
		error = errno;
	else {
		job->child = child;
		job->input = in[1];
		job->woken = woken;
		in[1] = -1;
		children++;
		pthread_cond_broadcast(&child_born);
	}
	pthread_mutex_unlock(&lock);
	close(out[1]), close(err[1]), close(failed[1]);
	out[1] = err[1] = failed[1] = -1;
	if (piped)
		close(in[0]), in[0] = -1;
	if (child < 0) {
		errno = error;
		goto fail;
	}
	while (read(failed[0], &error, sizeof error) < 0 && errno == EINTR)
		;
	if (!error) {
		head[0] = DATA_STARTED;
		put_u32(head + 1, child);
		send_frame(job->id, REPLY_DATA, head, sizeof head, NULL, 0);
		started = 1;
	}
	while (started && (out[0] >= 0 || err[0] >= 0)) {
		struct pollfd all[3] = { { .fd = out[0], .events = POLLIN }, { .fd = err[0], .events = POLLIN },
					 { .fd = woken, .events = POLLIN } };

		if (is_cancelled(job))
			break;
		if (poll(all, 3, -1) < 0)
			continue;
		if (all[2].revents) {
			send_rest(job, out[0], DATA_OUT, buffer);
			send_rest(job, err[0], DATA_ERR, buffer);
			break;
		}
		for (i = 0; i < 2; i++) {
			int *source = i ? &err[0] : &out[0];
			ssize_t n;

			if (!all[i].revents)
				continue;
			n = read(*source, buffer, CHUNK);
			if (n <= 0) {
				if (n == 0 || errno != EINTR)
					close(*source), *source = -1;
			} else if (send_data(job, i ? DATA_ERR : DATA_OUT, buffer, n) < 0)
				break;
		}
	}
	pthread_mutex_lock(&lock);
	while (!job->exited) {
		if (job->cancelled)
			kill(-child, SIGKILL), kill(child, SIGKILL);
		pthread_cond_wait(&job->changed, &lock);
	}
	if (job->cancelled)
		kill(-child, SIGKILL);
	if (job->input >= 0)
		close(job->input);
	job->input = -1;
	pthread_mutex_unlock(&lock);
	send_done(job->id, error ? -error : job->status, NULL, 0);
	goto clean;
invalid:
	errno = EINVAL;
fail:
	send_done(job->id, -errno, NULL, 0);
clean:
	for (i = 0; i < 2; i++) {
		if (out[i] >= 0)
			close(out[i]);
		if (err[i] >= 0)
			close(err[i]);
		if (failed[i] >= 0)
			close(failed[i]);
		if (in[i] >= 0)
			close(in[i]);
	}
	pthread_mutex_lock(&lock);
	job->woken = -1;
	pthread_mutex_unlock(&lock);
	if (woken >= 0)
		close(woken);
	free(strings);
}

/* Write to a program's input, through a descriptor of our own: the program may end meanwhile. */
void feed(struct job *job)
{
	const uint8_t *p = job->payload + 4, *end = job->payload + job->length;
	struct job *program;
	int64_t result = 0;
	int fd = -1;

	if (job->length < 4) {
		finish(job, -EINVAL, NULL, 0);
		return;
	}
	pthread_mutex_lock(&lock);
	program = find_job(u32_at(job->payload));
	if (!program || program->op != OP_RUN || program->input < 0)
		result = -EPIPE;
	else if (p == end) {
		close(program->input);
		program->input = -1;
	} else if ((fd = fcntl(program->input, F_DUPFD_CLOEXEC, 0)) < 0)
		result = -errno;
	pthread_mutex_unlock(&lock);
	while (fd >= 0 && p < end) {
		ssize_t n = write(fd, p, end - p);

		if (n < 0 && (errno != EINTR || is_cancelled(job))) {
			result = -errno;
			break;
		}
		if (n > 0)
			p += n;
	}
	if (fd >= 0)
		close(fd);
	finish(job, result, NULL, 0);
}

/* Wait for all children, as process 1 inherits every orphan, and tell the jobs about their own. */
void *reap(void *unused)
{
	(void)unused;
	for (;;) {
		struct job *job;
		int status;
		pid_t pid = waitpid(-1, &status, 0);

		pthread_mutex_lock(&lock);
		if (pid > 0) {
			for (job = jobs; job; job = job->next)
				if (job->child == pid && !job->exited) {
					job->exited = 1;
					job->status = status;
					children--;
					pthread_cond_broadcast(&job->changed);
					if (eventfd_write(job->woken, 1) < 0)
						say("nobody learned of a program's end");
				}
		} else if (errno == ECHILD && !children)
			pthread_cond_wait(&child_born, &lock);
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}
