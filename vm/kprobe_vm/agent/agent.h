/* What the parts of the agent share: its state, its jobs, and the functions that one part calls of another. */
#ifndef AGENT_H
#define AGENT_H

#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "protocol.h"

#define CHUNK 32768	/* bytes read at once */

/* A request that is being served. */
struct job {
	struct job *next;		/* in the list of all unfinished jobs */
	struct job *queued;		/* in the queue that workers take from */
	pthread_cond_t changed;		/* credit, cancelled or exited changed */
	pthread_t thread;
	uint32_t id;
	uint8_t op;
	int running, cancelled, exited, status;
	int asked, looking, ended;	/* of a stream: a look waits, is being answered, can't be answered any more */
	uint32_t look;			/* the id of the look that waits */
	int64_t credit;
	pid_t child;
	int input, woken;		/* of a program: the pipe to its input, and the eventfd that its end wakes; or -1 */
	uint32_t length;
	uint8_t payload[];		/* always followed by a NUL */
};

extern pthread_mutex_t lock;	/* of all jobs, and of what programs.c and files.c keep about them */
extern struct job *jobs;

/* ---- agent.c ---- */
void say(const char *format, ...);
void give_up(const char *what) __attribute__((noreturn));

/* ---- port.c ---- */
extern int port, is_serial;
int64_t outcome(int64_t result);
ssize_t receive(uint8_t *buffer, size_t room);
void send_frame(uint32_t id, uint8_t kind, const void *head, size_t head_length, const void *data, size_t length);
void send_done(uint32_t id, int64_t result, const void *data, size_t length);
int send_data(struct job *job, uint8_t which, const uint8_t *data, size_t length);

/* ---- jobs.c ---- */
int is_cancelled(struct job *job);
struct job *find_job(uint32_t id);
int take_look(struct job *job, uint32_t *id);
void answer_look(struct job *job, uint32_t id, int64_t result);
void finish(struct job *job, int64_t result, const void *data, size_t length);
int dispatch(uint32_t id, uint8_t op, const uint8_t *p, uint32_t length);
int nudge_again(void);

/* ---- files.c ---- */
int64_t open_file(const uint8_t *p, uint32_t length);
int descriptor(const uint8_t *p, uint32_t length, uint32_t needed, int forget);
int64_t write_file(const uint8_t *p, uint32_t length);
int64_t poll_descriptor(const uint8_t *p, uint32_t length);
void read_file(struct job *job, int is_stream);
void read_each(struct job *job);
void read_descriptor(struct job *job);
void list_directory(struct job *job);
void stat_path(struct job *job);

/* ---- programs.c ---- */
void run(struct job *job);
void feed(struct job *job);
void *reap(void *unused);

/* ---- init.c ---- */
void become_init(void);
const char *tracing_directory(void);

/* ---- numbers in frames, little endian ---- */

static inline uint32_t u32_at(const uint8_t *p)
{
	return p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline int64_t s64_at(const uint8_t *p)
{
	return (int64_t)((uint64_t)u32_at(p + 4) << 32 | u32_at(p));
}

static inline void put_u32(uint8_t *p, uint32_t v)
{
	p[0] = v, p[1] = v >> 8, p[2] = v >> 16, p[3] = v >> 24;
}

static inline void put_s64(uint8_t *p, int64_t v)
{
	put_u32(p, (uint64_t)v);
	put_u32(p + 4, (uint64_t)v >> 32);
}

#endif
