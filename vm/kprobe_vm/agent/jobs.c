/* Requests: each that can block is a job on a thread of its own, which CANCEL interrupts. */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define WORKERS_MAX 200

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
struct job *jobs;
static pthread_cond_t work_waits = PTHREAD_COND_INITIALIZER;
static struct job *queue_head, **queue_tail = &queue_head;
static int workers, idle_workers, queue_length;

int is_cancelled(struct job *job)
{
	int cancelled;

	pthread_mutex_lock(&lock);
	cancelled = job->cancelled;
	pthread_mutex_unlock(&lock);
	return cancelled;
}

struct job *find_job(uint32_t id)
{
	struct job *job;

	for (job = jobs; job && job->id != id; job = job->next)
		;
	return job;
}

/* Take the look that waits for this stream, if there is one: the thread of the stream answers it. */
int take_look(struct job *job, uint32_t *id)
{
	int asked;

	pthread_mutex_lock(&lock);
	asked = job->looking = job->asked;
	*id = job->look;
	job->asked = 0;
	pthread_mutex_unlock(&lock);
	return asked;
}

void answer_look(struct job *job, uint32_t id, int64_t result)
{
	pthread_mutex_lock(&lock);
	job->looking = 0;	/* no signal comes after this */
	pthread_mutex_unlock(&lock);
	send_done(id, result, NULL, 0);
}

/* End a request that has one result; a look that still waits for a stream is answered first. */
void finish(struct job *job, int64_t result, const void *data, size_t length)
{
	uint32_t id;

	pthread_mutex_lock(&lock);
	job->ended = 1;
	pthread_mutex_unlock(&lock);
	if (take_look(job, &id))
		answer_look(job, id, -ESRCH);
	send_done(job->id, result, data, length);
}

static void perform(struct job *job)
{
	const uint8_t *p = job->payload;
	const char *path = (const char *)p;
	uint32_t length = job->length;
	int64_t result;

	if (is_cancelled(job)) {
		finish(job, -EINTR, NULL, 0);
		return;
	}
	switch (job->op) {
	case OP_OPEN: result = open_file(p, length); break;
	case OP_CLOSE: result = outcome(close(descriptor(p, length, 4, 1))); break;
	case OP_READ: read_descriptor(job); return;
	case OP_WRITE:
		result = outcome(write(descriptor(p, length, 4, 0), p + 4, length < 4 ? 0 : length - 4));
		break;
	case OP_LSEEK:
		result = outcome(lseek(descriptor(p, length, 16, 0), length < 16 ? 0 : s64_at(p + 8),
				       length < 16 ? -1 : (int)u32_at(p + 4)));
		break;
	case OP_POLL: result = poll_descriptor(p, length); break;
	case OP_LIST: list_directory(job); return;
	case OP_STAT: stat_path(job); return;
	case OP_MKDIR: result = length < 5 ? -EINVAL : outcome(mkdir(path + 4, u32_at(p))); break;
	case OP_RMDIR: result = outcome(rmdir(path)); break;
	case OP_TRUNCATE: result = length < 9 ? -EINVAL : outcome(truncate(path + 8, s64_at(p))); break;
	case OP_UNLINK: result = outcome(unlink(path)); break;
	case OP_WRITE_FILE: result = write_file(p, length); break;
	case OP_READ_FILE: read_file(job, 0); return;
	case OP_READ_EACH: read_each(job); return;
	case OP_STREAM: read_file(job, 1); return;
	case OP_RUN: run(job); return;
	case OP_INPUT: feed(job); return;
	default: result = -ENOSYS;
	}
	send_done(job->id, result, NULL, 0);
}

static void *work(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&lock);
	for (;;) {
		struct job *job, **link;

		while (!queue_head) {
			idle_workers++;
			pthread_cond_wait(&work_waits, &lock);
			idle_workers--;
		}
		job = queue_head;
		queue_head = job->queued;
		if (!queue_head)
			queue_tail = &queue_head;
		queue_length--;
		job->thread = pthread_self();
		job->running = 1;
		pthread_mutex_unlock(&lock);
		perform(job);
		pthread_mutex_lock(&lock);
		for (link = &jobs; *link != job; link = &(*link)->next)
			;
		*link = job->next;
		pthread_cond_destroy(&job->changed);
		free(job);
	}
	return NULL;
}

static void enqueue(uint32_t id, uint8_t op, const uint8_t *payload, uint32_t length)
{
	struct job *job = calloc(1, sizeof *job + length + 1);
	pthread_attr_t attributes;
	pthread_t thread;

	if (!job) {
		send_done(id, -ENOMEM, NULL, 0);
		return;
	}
	job->id = id;
	job->op = op;
	job->length = length;
	job->credit = WINDOW;
	job->input = job->woken = -1;
	memcpy(job->payload, payload, length);
	pthread_cond_init(&job->changed, NULL);
	pthread_mutex_lock(&lock);
	if (queue_length >= idle_workers) {
		int failed = workers >= WORKERS_MAX;

		if (!failed) {
			pthread_attr_init(&attributes);
			pthread_attr_setstacksize(&attributes, 256 * 1024);
			pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
			failed = pthread_create(&thread, &attributes, work, NULL) != 0;
			pthread_attr_destroy(&attributes);
			workers += !failed;
		}
		if (failed) {
			pthread_mutex_unlock(&lock);
			pthread_cond_destroy(&job->changed);
			free(job);
			send_done(id, -EAGAIN, NULL, 0);
			return;
		}
	}
	job->next = jobs;
	jobs = job;
	*queue_tail = job;
	queue_tail = &job->queued;
	queue_length++;
	pthread_cond_signal(&work_waits);
	pthread_mutex_unlock(&lock);
}

static int64_t cancel(const uint8_t *p, uint32_t length)
{
	struct job *job = NULL;

	pthread_mutex_lock(&lock);
	if (length >= 4 && (job = find_job(u32_at(p)))) {
		job->cancelled = 1;
		if (job->running)
			pthread_kill(job->thread, SIGUSR1);
		pthread_cond_broadcast(&job->changed);
	}
	pthread_mutex_unlock(&lock);
	return job ? 0 : -ESRCH;
}

/* Let a stream's thread look; answer in its place if there is no such stream. */
static void look(uint32_t id, const uint8_t *p, uint32_t length)
{
	struct job *job = NULL;
	uint32_t earlier = 0;
	int is_second = 0;

	pthread_mutex_lock(&lock);
	if (length >= 4 && (job = find_job(u32_at(p))) && (job->op != OP_STREAM || job->ended))
		job = NULL;
	if (job) {
		is_second = job->asked;
		earlier = job->look;
		job->asked = 1;
		job->look = id;
		if (job->running)
			pthread_kill(job->thread, SIGUSR1);
	}
	pthread_mutex_unlock(&lock);
	if (!job)
		send_done(id, -ESRCH, NULL, 0);
	if (is_second)
		send_done(earlier, -EBUSY, NULL, 0);
}

/* A signal that came just before the system call is lost: send it again until the job has ended, or looked. */
int nudge_again(void)
{
	struct job *job;
	int any = 0;

	pthread_mutex_lock(&lock);
	for (job = jobs; job; job = job->next)
		if (job->cancelled || job->asked || job->looking) {
			any = 1;
			if (job->running)
				pthread_kill(job->thread, SIGUSR1);
			pthread_cond_broadcast(&job->changed);
		}
	pthread_mutex_unlock(&lock);
	return any;
}

static int64_t kill_job(const uint8_t *p, uint32_t length)
{
	struct job *job;
	int64_t result = -ESRCH;

	pthread_mutex_lock(&lock);
	if (length >= 8 && (job = find_job(u32_at(p))) && job->child > 0)
		result = outcome(kill(-job->child, (int)u32_at(p + 4)));
	pthread_mutex_unlock(&lock);
	return result;
}

static void give_credit(uint32_t id, const uint8_t *p, uint32_t length)
{
	struct job *job;

	pthread_mutex_lock(&lock);
	if (length >= 4 && (job = find_job(id))) {
		job->credit += u32_at(p);
		pthread_cond_broadcast(&job->changed);
	}
	pthread_mutex_unlock(&lock);
}

static int64_t set_clock(const uint8_t *p, uint32_t length)
{
	struct timespec now;

	if (length < 16)
		return -EINVAL;
	now.tv_sec = s64_at(p);
	now.tv_nsec = s64_at(p + 8);
	return outcome(clock_settime(CLOCK_REALTIME, &now));
}

int dispatch(uint32_t id, uint8_t op, const uint8_t *p, uint32_t length)
{
	if (op < OP_PING || op > OP_LAST)
		return -1;
	switch (op) {
	case OP_PING: send_done(id, 0, p, length); break;
	case OP_CANCEL: send_done(id, cancel(p, length), NULL, 0); break;
	case OP_KILL: send_done(id, kill_job(p, length), NULL, 0); break;
	case OP_SET_CLOCK: send_done(id, set_clock(p, length), NULL, 0); break;
	case OP_CREDIT: give_credit(id, p, length); break;
	case OP_LOOK: look(id, p, length); break;
	default: enqueue(id, op, p, length);
	}
	return 0;
}
