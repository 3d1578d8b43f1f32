/*
 * The guest's process 1: it mounts what a tracer needs, loads the modules of the root image, and answers the host's
 * requests over one virtio-serial port, or over the second serial port (ttyS1) of a kernel that makes no such port.
 *
 * Frames, little endian, both ways: u32 payload length, u32 request id, u8 kind, payload.  A request's kind is an
 * operation (enum op); a reply's kind is enum reply.  Every request but CREDIT ends with exactly one DONE reply that
 * carries an s64 result (or minus the errno) and data.  Operations with output of unknown length (READ_FILE, READ_EACH,
 * LIST, STREAM, RUN) send DATA frames before it, as many bytes as the host has given credit for: an unread stream stops its
 * own source in the kernel and nothing else.
 *
 * Each request runs on a thread of its own (threads are reused), so that a blocking read holds up nobody.  CANCEL
 * interrupts the thread with a signal, so the system call itself gives EINTR.  Requests that can't block are answered
 * by the thread that reads the port.  A frame longer than FRAME_CAP, or of an unknown kind, closes the port for good.
 *
 * LOOK (u32 id of a STREAM) asks whether the kernel has more for a stream now.  The stream's own thread answers it, so
 * that all the stream's data from before the answer is sent before it: it reads once without waiting, and the result is
 * 1 after the DATA of that, 0 if the kernel had nothing.  -ESRCH: there is no such stream, or it ends, and its DONE has
 * been sent or follows.  Of two looks that wait for one stream the first is answered -EBUSY.  A look is answered only
 * when the data before it is sent, so who waits for one goes on giving the stream credit.  A look can't be cancelled.
 *
 * INPUT (u32 id of a RUN that was asked for a pipe, then bytes; none of them: its end) writes to the standard input of a
 * program, and is done once the pipe has taken all of it.  A RUN ends with its program: what that has written by then is
 * sent, and what it started and left behind may hold the other ends of its output as long as it likes.
 *
 * On a serial port all that is in packets: u8 0x4b, u8 kind, u16 length, u32 CRC-32 (zlib's) of kind, length and payload,
 * then the payload, LINE_MOST bytes at most.  A tty drops what comes while its buffer of 4096 bytes is full, so the host
 * sends a packet of DATA only when the last one was answered with an ACK.  What comes damaged ends the line: BAD says
 * so to the host, with the words.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define PROTOCOL 4
#define FRAME_CAP (1u << 20)
#define HEADER 9
#define CHUNK 32768
#define WINDOW (256 * 1024)
#define WORKERS_MAX 200
#define FILES_MAX 4096
#define PORT_NAME "kprobe.agent"
#define SERIAL_PORT "/dev/ttyS1"
#define SERIAL_NUMBER makedev(4, 65)	/* Documentation/admin-guide/devices.txt */
#define LINE_MAGIC 0x4b
#define LINE_HEAD 8
#define LINE_MOST 2048
#define TRACEFS 0x74726163	/* TRACEFS_MAGIC, include/uapi/linux/magic.h */

enum op {
	OP_PING = 1, OP_OPEN, OP_CLOSE, OP_READ, OP_WRITE, OP_LSEEK, OP_POLL, OP_LIST, OP_STAT, OP_MKDIR, OP_RMDIR,
	OP_TRUNCATE, OP_UNLINK, OP_WRITE_FILE, OP_READ_FILE, OP_STREAM, OP_RUN, OP_KILL, OP_CANCEL, OP_CREDIT,
	OP_SET_CLOCK, OP_READ_EACH, OP_LOOK, OP_INPUT, OP_LAST = OP_INPUT,
};
enum reply { REPLY_DONE = 0, REPLY_DATA = 1, REPLY_HELLO = 2 };
enum packet { LINE_DATA = 1, LINE_ACK = 2, LINE_BAD = 3 };
enum data { DATA_STARTED = 0, DATA_OUT = 1, DATA_ERR = 2 };

struct job {
	struct job *next;		/* in the list of all unfinished jobs */
	struct job *queued;		/* in the queue that workers take from */
	pthread_cond_t changed;		/* credit, cancelled or exited changed */
	pthread_t thread;
	uint32_t id;
	uint8_t op;
	int running, cancelled, exited, status;
	int asked, looking, ended;	/* of a stream: a look waits, a look is being answered, no look is answered any more */
	uint32_t look;			/* the id of the one that waits */
	int64_t credit;
	pid_t child;
	int input, woken;		/* of a program: where its input is written to, and what tells of its end; or -1 */
	uint32_t length;
	uint8_t payload[];		/* always followed by a NUL */
};

static int port = -1;
static int console = -1;
static int is_serial;
static pthread_mutex_t line_lock = PTHREAD_MUTEX_INITIALIZER;	/* one packet on a serial port at a time */
static pthread_mutex_t out_lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t out_buffer[HEADER + 9 + FRAME_CAP];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;	/* of everything below */
static pthread_cond_t work_waits = PTHREAD_COND_INITIALIZER;
static pthread_cond_t child_born = PTHREAD_COND_INITIALIZER;
static struct job *jobs, *queue_head, **queue_tail = &queue_head;
static int workers, idle_workers, queue_length, children;
static uint8_t ours[FILES_MAX];		/* descriptors that OPEN handed out */

static void say(const char *format, ...)
{
	char text[512];
	va_list arguments;
	int length = snprintf(text, sizeof text, "kprobe-vm agent: ");

	va_start(arguments, format);
	length += vsnprintf(text + length, sizeof text - length - 2, format, arguments);
	va_end(arguments);
	if (length > (int)sizeof text - 2)
		length = sizeof text - 2;
	text[length++] = '\n';
	if (write(console, text, length) < 0)
		return;
}

static void give_up(const char *what)
{
	say("%s: %s", what, strerror(errno));
	_exit(1);	/* the kernel panics: "Attempted to kill init" */
}

/* ---- numbers in frames ---- */

static uint32_t u32_at(const uint8_t *p)
{
	return p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24;
}

static int64_t s64_at(const uint8_t *p)
{
	return (int64_t)((uint64_t)u32_at(p + 4) << 32 | u32_at(p));
}

static void put_u32(uint8_t *p, uint32_t v)
{
	p[0] = v, p[1] = v >> 8, p[2] = v >> 16, p[3] = v >> 24;
}

static void put_s64(uint8_t *p, int64_t v)
{
	put_u32(p, (uint64_t)v);
	put_u32(p + 4, (uint64_t)v >> 32);
}

/* ---- the serial port ---- */

static uint32_t crc32_of(uint32_t crc, const uint8_t *data, size_t length)
{
	static const uint32_t part[16] = {
		0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
		0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
	};

	crc = ~crc;
	while (length--) {
		crc = part[(crc ^ *data) & 15] ^ crc >> 4;
		crc = part[(crc ^ *data++ >> 4) & 15] ^ crc >> 4;
	}
	return ~crc;
}

/* Write all of it; -1 if the port is closed: the host is gone. */
static int write_port(const uint8_t *data, size_t length)
{
	while (length) {
		ssize_t n = write(port, data, length);

		if (n < 0 && errno != EINTR)
			return -1;
		if (n > 0)
			data += n, length -= n;
	}
	return 0;
}

static int send_packet(enum packet kind, const void *payload, size_t length)
{
	uint8_t packet[LINE_HEAD + LINE_MOST] = { LINE_MAGIC, kind, length, length >> 8 };
	int result;

	memcpy(packet + LINE_HEAD, payload, length);
	put_u32(packet + 4, crc32_of(crc32_of(0, packet + 1, 3), packet + LINE_HEAD, length));
	pthread_mutex_lock(&line_lock);
	result = write_port(packet, LINE_HEAD + length);
	pthread_mutex_unlock(&line_lock);
	return result;
}

static int read_all(uint8_t *data, size_t length)
{
	while (length) {
		ssize_t n = read(port, data, length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		data += n, length -= n;
	}
	return 0;
}

/* Read one packet's payload, and say to the host that it came; -1 with errno EBADMSG if it came damaged. */
static ssize_t receive_packet(uint8_t *payload)
{
	uint8_t head[LINE_HEAD];
	size_t length;

	if (read_all(head, sizeof head) < 0)
		return -1;
	length = head[2] | head[3] << 8;
	if (head[0] != LINE_MAGIC || head[1] != LINE_DATA || length > LINE_MOST || read_all(payload, length) < 0 ||
	    crc32_of(crc32_of(0, head + 1, 3), payload, length) != u32_at(head + 4)) {
		static const char words[] = "a packet came damaged to the guest";

		send_packet(LINE_BAD, words, sizeof words - 1);
		errno = EBADMSG;
		return -1;
	}
	send_packet(LINE_ACK, NULL, 0);
	return length;
}

/* ---- sending ---- */

static void send_out(const uint8_t *data, size_t length)
{
	size_t part;

	if (!is_serial) {
		write_port(data, length);
		return;
	}
	for (; length; data += part, length -= part) {
		part = length < LINE_MOST ? length : LINE_MOST;
		if (send_packet(LINE_DATA, data, part) < 0)
			return;
	}
}

static void send_frame(uint32_t id, uint8_t kind, const void *head, size_t head_length, const void *data, size_t length)
{
	pthread_mutex_lock(&out_lock);
	put_u32(out_buffer, head_length + length);
	put_u32(out_buffer + 4, id);
	out_buffer[8] = kind;
	memcpy(out_buffer + HEADER, head, head_length);
	if (length)
		memcpy(out_buffer + HEADER + head_length, data, length);
	send_out(out_buffer, HEADER + head_length + length);
	pthread_mutex_unlock(&out_lock);
}

static void send_done(uint32_t id, int64_t result, const void *data, size_t length)
{
	uint8_t head[8];

	put_s64(head, result);
	send_frame(id, REPLY_DONE, head, sizeof head, data, length);
}

static int64_t outcome(int64_t result)
{
	return result < 0 ? -errno : result;
}

/* Send output as far as credit goes; wait for more; give -1 if the job is cancelled. */
static int send_data(struct job *job, uint8_t which, const uint8_t *data, size_t length)
{
	while (length) {
		size_t part;

		pthread_mutex_lock(&lock);
		while (job->credit <= 0 && !job->cancelled)
			pthread_cond_wait(&job->changed, &lock);
		if (job->cancelled) {
			pthread_mutex_unlock(&lock);
			return -1;
		}
		part = length < (size_t)job->credit ? length : (size_t)job->credit;
		if (part > CHUNK)
			part = CHUNK;
		job->credit -= part;
		pthread_mutex_unlock(&lock);
		send_frame(job->id, REPLY_DATA, &which, 1, data, part);
		data += part;
		length -= part;
	}
	return 0;
}

static int is_cancelled(struct job *job)
{
	int cancelled;

	pthread_mutex_lock(&lock);
	cancelled = job->cancelled;
	pthread_mutex_unlock(&lock);
	return cancelled;
}

/* ---- files ---- */

static int64_t open_file(const uint8_t *p, uint32_t length)
{
	int fd;

	if (length < 9)
		return -EINVAL;
	fd = open((const char *)p + 8, u32_at(p) | O_CLOEXEC, u32_at(p + 4));
	if (fd < 0)
		return -errno;
	if (fd >= FILES_MAX) {
		close(fd);
		return -EMFILE;
	}
	pthread_mutex_lock(&lock);
	ours[fd] = 1;
	pthread_mutex_unlock(&lock);
	return fd;
}

static int descriptor(const uint8_t *p, uint32_t length, uint32_t needed, int forget)
{
	uint32_t fd;
	int known = 0;

	if (length >= needed && (fd = u32_at(p)) < FILES_MAX) {
		pthread_mutex_lock(&lock);
		known = ours[fd];
		if (forget)
			ours[fd] = 0;
		pthread_mutex_unlock(&lock);
	}
	return known ? (int)fd : -1;	/* -1: the kernel itself then says EBADF */
}

static int64_t write_file(const uint8_t *p, uint32_t length)
{
	uint32_t path_length = length >= 8 ? u32_at(p + 4) : 0;
	int64_t result;
	int fd;

	/* u32 flags, u32 length of the path with its NUL, path, data */
	if (length < 8 || path_length < 1 || path_length > length - 8 || p[8 + path_length - 1])
		return -EINVAL;
	fd = open((const char *)p + 8, u32_at(p) | O_CLOEXEC, 0666);
	if (fd < 0)
		return -errno;
	result = outcome(write(fd, p + 8 + path_length, length - 8 - path_length));
	if (close(fd) < 0 && result >= 0)
		result = -errno;
	return result;
}

/* Take the look that waits for this stream, if there is one: the thread of the stream answers it. */
static int take_look(struct job *job, uint32_t *id)
{
	int asked;

	pthread_mutex_lock(&lock);
	asked = job->looking = job->asked;
	*id = job->look;
	job->asked = 0;
	pthread_mutex_unlock(&lock);
	return asked;
}

static void answer_look(struct job *job, uint32_t id, int64_t result)
{
	pthread_mutex_lock(&lock);
	job->looking = 0;	/* no signal comes after this */
	pthread_mutex_unlock(&lock);
	send_done(id, result, NULL, 0);
}

/* End a request that has one result; a look that still waits for a stream is answered first. */
static void finish(struct job *job, int64_t result, const void *data, size_t length)
{
	uint32_t id;

	pthread_mutex_lock(&lock);
	job->ended = 1;
	pthread_mutex_unlock(&lock);
	if (take_look(job, &id))
		answer_look(job, id, -ESRCH);
	send_done(job->id, result, data, length);
}

static ssize_t read_without_waiting(int fd, void *buffer, size_t length)
{
	ssize_t n;
	int error;

	fcntl(fd, F_SETFL, O_NONBLOCK);
	n = read(fd, buffer, length);
	error = errno;
	fcntl(fd, F_SETFL, 0);
	errno = error;
	return n;
}

static void read_file(struct job *job, int is_stream)
{
	static __thread uint8_t buffer[CHUNK];
	int64_t result = 0;
	size_t held = 0;
	uint32_t id;
	int fd, looking;

	do
		fd = open((const char *)job->payload, O_RDONLY | O_CLOEXEC);
	while (fd < 0 && errno == EINTR && !is_cancelled(job));
	if (fd < 0) {
		finish(job, -errno, NULL, 0);
		return;
	}
	if (is_stream) {
		uint8_t started = DATA_STARTED;

		send_frame(job->id, REPLY_DATA, &started, 1, NULL, 0);
	}
	for (;;) {
		ssize_t n;

		looking = take_look(job, &id);
		if (is_cancelled(job)) {
			result = -EINTR;
			break;
		}
		n = (looking ? read_without_waiting : read)(fd, buffer + held, CHUNK - held);
		if (n < 0 && (errno == EINTR || (looking && errno == EAGAIN))) {
			if (looking)
				answer_look(job, id, 0);
			continue;
		}
		if (n <= 0) {
			result = outcome(n);
			break;
		}
		held += n;
		/* a whole file travels in full frames; a stream's reader must have each piece at once */
		if (is_stream || held == CHUNK) {
			if (send_data(job, DATA_OUT, buffer, held) < 0) {
				result = -EINTR;
				held = 0;
				break;
			}
			held = 0;
		}
		if (looking)
			answer_look(job, id, 1);
	}
	close(fd);
	if (looking)
		answer_look(job, id, -ESRCH);
	finish(job, result, buffer, result < 0 ? 0 : held);
}

/* A buffer that grows. */
struct output {
	uint8_t *data;
	size_t used, room;
};

static int make_room(struct output *out, size_t length)
{
	if (out->used + length > out->room) {
		uint8_t *more = realloc(out->data, out->room = (out->used + length) * 2);

		if (!more)
			return -1;
		out->data = more;
	}
	return 0;
}

/* Put a file into the buffer after its length, or minus the errno; at most `most` bytes, by one read(2), unless 0. */
static int put_file(struct job *job, const char *path, uint32_t most, struct output *out)
{
	size_t start = out->used, step = most ? most : CHUNK;
	int64_t length = 0;
	ssize_t n = 1;
	int fd;

	if (make_room(out, 8) < 0)
		return -1;
	out->used += 8;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		length = -errno;
	while (length >= 0 && n > 0 && (!most || !length)) {
		if (make_room(out, step) < 0) {
			close(fd);
			return -1;
		}
		n = is_cancelled(job) ? (errno = EINTR, -1) : read(fd, out->data + start + 8 + length, step);
		length = n < 0 ? -errno : length + n;
		out->used = start + 8 + (length > 0 ? length : 0);
	}
	if (fd >= 0)
		close(fd);
	put_s64(out->data + start, length);
	return 0;
}

/* u32 bytes that are wanted of each at most (0: all), then paths with NUL */
static void read_each(struct job *job)
{
	struct output out = { 0 };
	const char *path = (const char *)job->payload + 4, *end = (const char *)job->payload + job->length;
	uint32_t most = job->length < 4 ? 0 : u32_at(job->payload);
	int64_t result = job->length < 4 || most > CHUNK ? -EINVAL : 0;

	for (; result >= 0 && path < end; path += strlen(path) + 1) {
		if (put_file(job, path, most, &out) < 0)
			result = -ENOMEM;
		else if (is_cancelled(job) || (out.used > CHUNK && send_data(job, DATA_OUT, out.data, out.used) < 0))
			result = -EINTR;
		else
			result++;
		if (out.used > CHUNK)
			out.used = 0;
	}
	send_done(job->id, result, out.data, result < 0 ? 0 : out.used);
	free(out.data);
}

static void list_directory(struct job *job)
{
	struct output names = { 0 };
	int64_t result = 0;
	struct dirent *entry;
	DIR *directory = opendir((const char *)job->payload);

	if (!directory) {
		send_done(job->id, -errno, NULL, 0);
		return;
	}
	while (errno = 0, (entry = readdir(directory))) {
		size_t length = strlen(entry->d_name) + 1;

		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (make_room(&names, length) < 0) {
			result = -ENOMEM;
			break;
		}
		memcpy(names.data + names.used, entry->d_name, length);
		names.used += length;
		result++;
	}
	if (!entry && errno)
		result = -errno;
	closedir(directory);
	if (result >= 0 && names.used && send_data(job, DATA_OUT, names.data, names.used) < 0)
		result = -EINTR;
	free(names.data);
	send_done(job->id, result, NULL, 0);
}

static void stat_path(struct job *job)
{
	uint8_t reply[48];
	struct stat status;

	if (stat((const char *)job->payload, &status) < 0) {
		send_done(job->id, -errno, NULL, 0);
		return;
	}
	put_s64(reply, status.st_mode);
	put_s64(reply + 8, status.st_size);
	put_s64(reply + 16, status.st_uid);
	put_s64(reply + 24, status.st_gid);
	put_s64(reply + 32, status.st_ino);
	put_s64(reply + 40, status.st_mtim.tv_sec);
	send_done(job->id, 0, reply, sizeof reply);
}

static void read_descriptor(struct job *job)
{
	int fd = descriptor(job->payload, job->length, 8, 0);
	uint32_t size = job->length >= 8 ? u32_at(job->payload + 4) : 0;
	uint8_t *buffer = NULL;
	int64_t result;

	if (size > FRAME_CAP - 64)
		size = FRAME_CAP - 64;
	buffer = malloc(size ? size : 1);
	result = buffer ? outcome(read(fd, buffer, size)) : -ENOMEM;
	send_done(job->id, result, buffer, result > 0 ? result : 0);
	free(buffer);
}

static int64_t poll_descriptor(const uint8_t *p, uint32_t length)
{
	struct pollfd one = { .fd = descriptor(p, length, 12, 0) };
	int n;

	if (one.fd < 0)
		return -EBADF;
	one.events = u32_at(p + 4);
	n = poll(&one, 1, (int32_t)u32_at(p + 8));
	return n < 0 ? -errno : n ? one.revents : 0;
}

/* ---- processes ---- */

static struct job *find_job(uint32_t id)
{
	struct job *job;

	for (job = jobs; job && job->id != id; job = job->next)
		;
	return job;
}

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
	environ = envp; /* where the program is looked for, too */
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

/* u32 flags (1: capture, 2: the input comes by INPUT), u32 argc, u32 envc, then strings with NUL: directory, input file,
   argv, environment */
static void run(struct job *job)
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

/* The pipe's end is held open for as long as this writes to it, whatever becomes of the program. */
static void feed(struct job *job)
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

/* Process 1 inherits every orphan; the jobs learn of their own children from here. */
static void *reap(void *unused)
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
						say("a program's end was told to nobody");
				}
		} else if (errno == ECHILD && !children)
			pthread_cond_wait(&child_born, &lock);
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

/* ---- jobs ---- */

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

/* Have a stream's thread look; answer for it if there is none. */
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

/* A signal that came just before the system call was lost: send it again until the job has ended, or looked. */
static int nudge_again(void)
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

static int dispatch(uint32_t id, uint8_t op, const uint8_t *p, uint32_t length)
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

static void serve(void)
{
	static uint8_t buffer[HEADER + FRAME_CAP + LINE_MOST];
	size_t held = 0;
	int nudge = 0;

	for (;;) {
		struct pollfd one = { .fd = port, .events = POLLIN };
		size_t at = 0;
		ssize_t n;

		if (nudge) {
			int is_quiet = poll(&one, 1, 5) == 0;

			/* a host that asks on and on holds up no nudge */
			nudge = nudge_again();
			if (is_quiet)
				continue;
		}
		n = is_serial ? receive_packet(buffer + held) : read(port, buffer + held, sizeof buffer - held);
		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0 && getpid() != 1)
			return;
		if (n < 0 && errno == EBADMSG) {
			say("serial port: a packet came damaged: port closed");
			return;
		}
		if (n <= 0) {
			struct timespec pause = { .tv_nsec = 10000000 };

			nanosleep(&pause, NULL);	/* no host at the other end: it may come back */
			continue;
		}
		held += n;
		while (held - at >= HEADER) {
			uint32_t length = u32_at(buffer + at);

			if (length > FRAME_CAP) {
				say("frame of %u bytes is longer than %u: port closed", length, FRAME_CAP);
				return;
			}
			if (held - at < HEADER + length)
				break;
			if (dispatch(u32_at(buffer + at + 4), buffer[at + 8], buffer + at + HEADER, length) < 0) {
				say("unknown operation %u: port closed", buffer[at + 8]);
				return;
			}
			nudge |= buffer[at + 8] == OP_CANCEL || buffer[at + 8] == OP_LOOK;
			at += HEADER + length;
		}
		memmove(buffer, buffer + at, held - at);
		held -= at;
	}
}

/* ---- process 1 ---- */

static void mount_at(const char *type, const char *place, const char *options)
{
	mkdir(place, 0755);
	if (mount(type, place, type, 0, options) < 0 && errno != EBUSY)
		say("mount %s on %s: %s", type, place, strerror(errno));
}

/* By finit_module(2), which kernels have since 3.8, else by init_module(2). */
static int load_module(int fd)
{
	struct stat status;
	void *image;
	int result = syscall(SYS_finit_module, fd, "", 0);

	if (!result || errno != ENOSYS || fstat(fd, &status) < 0 || !(image = malloc(status.st_size)))
		return result;
	result = read(fd, image, status.st_size) == status.st_size
		? syscall(SYS_init_module, image, (unsigned long)status.st_size, "") : -1;
	free(image);
	return result;
}

static void load_modules(void)
{
	struct dirent **entries;
	int count = scandir("/modules", &entries, NULL, alphasort), i;

	for (i = 0; i < count; i++) {
		char path[512];
		int fd;

		if (entries[i]->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "/modules/%s", entries[i]->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || (load_module(fd) < 0 && errno != EEXIST))
			say("module %s: %s", path, strerror(errno));
		close(fd);
	}
}

/* Make the nodes of a kernel without devtmpfs: DEVNAME= of every device that sysfs lists. */
static void make_nodes(const char *list, mode_t kind)
{
	DIR *devices = opendir(list);
	struct dirent *entry;

	while (devices && (entry = readdir(devices))) {
		char path[320], text[512], *name;
		unsigned major_number, minor_number;
		int fd, n;

		if (sscanf(entry->d_name, "%u:%u", &major_number, &minor_number) != 2)
			continue;
		snprintf(path, sizeof path, "%s/%s/uevent", list, entry->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
		close(fd);
		text[n > 0 ? n : 0] = 0;
		if (!(name = strstr(text, "DEVNAME=")))
			continue;
		name += strlen("DEVNAME=");
		name[strcspn(name, "\n")] = 0;
		if (strchr(name, '/'))
			continue;
		snprintf(path, sizeof path, "/dev/%s", name);
		if (!mknod(path, kind | 0600, makedev(major_number, minor_number)))
			chmod(path, !strcmp(name, "null") || !strcmp(name, "zero") || !strcmp(name, "full") ||
				    !strcmp(name, "tty") || strstr(name, "random") ? 0666 : 0600);
	}
	if (devices)
		closedir(devices);
}

/* The second serial port, raw: not a bit that isn't ours, at the most that a UART gives. */
static int open_serial(void)
{
	struct termios line;
	int fd, trigger;

	mknod(SERIAL_PORT, S_IFCHR | 0600, SERIAL_NUMBER);
	fd = open(SERIAL_PORT, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	/* EIO: the driver is there, but found no UART */
	if (fd < 0 || tcgetattr(fd, &line) < 0) {
		int error = errno;

		if (fd >= 0)
			close(fd);
		errno = error;
		return -1;
	}
	cfmakeraw(&line);
	line.c_cflag |= CLOCAL | CREAD;
	line.c_cflag &= ~(CRTSCTS | HUPCL);
	line.c_cc[VMIN] = 1;
	line.c_cc[VTIME] = 0;
	cfsetspeed(&line, B115200);
	if (tcsetattr(fd, TCSANOW, &line) < 0 || fcntl(fd, F_SETFL, 0) < 0) {
		close(fd);
		return -1;
	}
	/* an interrupt for each 14 bytes, and not for 8, where the driver lets that be chosen (3.18) */
	trigger = open("/sys/class/tty/ttyS1/rx_trig_bytes", O_WRONLY | O_CLOEXEC);
	if (trigger >= 0 && write(trigger, "14", 2) < 0)
		say("%s: %s", SERIAL_PORT, strerror(errno));
	close(trigger);
	return fd;
}

static int has_entries(const char *place)
{
	DIR *directory = opendir(place);
	struct dirent *entry;
	int found = 0;

	while (directory && !found && (entry = readdir(directory)))
		found = entry->d_name[0] != '.';
	if (directory)
		closedir(directory);
	return found;
}

static int open_port(void)
{
	struct timespec pause = { .tv_nsec = 10000000 };
	int attempt;

	for (attempt = 0; attempt < (has_entries("/sys/bus/virtio/devices") ? 1000 : 20); attempt++) {
		DIR *ports = opendir("/sys/class/virtio-ports");
		struct dirent *entry;

		while (ports && (entry = readdir(ports))) {
			char path[300], name[64] = "";
			int fd, n;

			snprintf(path, sizeof path, "/sys/class/virtio-ports/%s/name", entry->d_name);
			fd = open(path, O_RDONLY | O_CLOEXEC);
			n = fd < 0 ? 0 : read(fd, name, sizeof name - 1);
			close(fd);
			if (n <= 0 || strncmp(name, PORT_NAME, strlen(PORT_NAME)))
				continue;
			snprintf(path, sizeof path, "/dev/%s", entry->d_name);
			fd = open(path, O_RDWR | O_CLOEXEC);
			if (fd < 0 && errno == ENOENT) {	/* no devtmpfs */
				make_nodes("/sys/dev/char", S_IFCHR);
				fd = open(path, O_RDWR | O_CLOEXEC);
			}
			if (fd >= 0) {
				closedir(ports);
				return fd;
			}
		}
		if (ports)
			closedir(ports);
		else if (attempt >= 20)
			break;	/* no driver made the class before we came, or since: it makes no port either */
		nanosleep(&pause, NULL);
	}
	errno = ENODEV;
	return -1;
}

/* Kernels have a file system of its own for tracing since 4.1; before, it is a directory of debugfs. */
static const char *tracing_place(void)
{
	struct statfs found;

	if (!statfs("/sys/kernel/tracing", &found) && found.f_type == TRACEFS)
		return "/sys/kernel/tracing";
	return access("/sys/kernel/debug/tracing", F_OK) ? "/sys/kernel/tracing" : "/sys/kernel/debug/tracing";
}

static void hello(void)
{
	uint8_t head[16];
	char text[512];
	struct utsname name;
	int length;

	uname(&name);
	/* uname -r, uname -v, where the tracefs is, which port this is: each with its NUL */
	length = snprintf(text, sizeof text, "%s%c%s%c%s%c%s", name.release, 0, name.version, 0, tracing_place(), 0,
			  is_serial ? "serial" : "virtio") + 1;
	put_u32(head, PROTOCOL);
	put_u32(head + 4, sysconf(_SC_PAGESIZE));
	put_u32(head + 8, sysconf(_SC_NPROCESSORS_ONLN));
	put_u32(head + 12, WINDOW);
	send_frame(0, REPLY_HELLO, head, sizeof head, text, length);
}

static void on_signal(int number)
{
	(void)number;	/* only there to interrupt a system call */
}

static void become_init(void)
{
	umask(022);
	mount_at("proc", "/proc", NULL);
	mount_at("sysfs", "/sys", NULL);
	mount_at("devtmpfs", "/dev", NULL);
	if (access("/dev/zero", F_OK)) {	/* of a kernel without devtmpfs: by ourselves */
		make_nodes("/sys/dev/char", S_IFCHR);
		make_nodes("/sys/dev/block", S_IFBLK);
	}
	mount_at("tmpfs", "/tmp", "mode=1777");
	mount_at("tmpfs", "/run", "mode=0755");
	mount_at("debugfs", "/sys/kernel/debug", NULL);
	if (!mkdir("/sys/kernel/tracing", 0755) || errno == EEXIST)
		mount_at("tracefs", "/sys/kernel/tracing", NULL);
	sethostname("guest", 5);
	load_modules();
	port = open_port();
	if (port < 0) {
		say("no port " PORT_NAME);
		is_serial = 1;
		port = open_serial();
	}
	if (port < 0)
		give_up("no serial port " SERIAL_PORT);
}

/* Not as process 1 but with a descriptor as its argument, it serves that: so the tests need no guest. */
int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal };
	pthread_attr_t attributes;
	pthread_t reaper;

	if (getpid() != 1) {
		console = STDERR_FILENO;
		port = argc >= 2 ? atoi(argv[1]) : -1;
		is_serial = argc == 3 && !strcmp(argv[2], "serial");
		if (fcntl(port, F_SETFD, FD_CLOEXEC) < 0) {
			say("usage: agent DESCRIPTOR [serial] (or be process 1)");
			return 2;
		}
	} else {
		console = open("/dev/console", O_RDWR | O_CLOEXEC | O_NOCTTY);
		become_init();
	}
	sigaction(SIGUSR1, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 256 * 1024);
	if (pthread_create(&reaper, &attributes, reap, NULL))
		give_up("thread");
	hello();
	serve();
	close(port);
	if (getpid() != 1)
		return 1;
	for (;;)
		pause();
}
