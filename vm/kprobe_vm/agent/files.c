/* Files of the guest: descriptors that the host holds, whole files, streams, directories. */
#include "agent.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES_MAX 4096

static uint8_t is_open[FILES_MAX];	/* the descriptors that OPEN handed out; under `lock` */

int64_t open_file(const uint8_t *p, uint32_t length)
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
	is_open[fd] = 1;
	pthread_mutex_unlock(&lock);
	return fd;
}

int descriptor(const uint8_t *p, uint32_t length, uint32_t needed, int forget)
{
	uint32_t fd;
	int known = 0;

	if (length >= needed && (fd = u32_at(p)) < FILES_MAX) {
		pthread_mutex_lock(&lock);
		known = is_open[fd];
		if (forget)
			is_open[fd] = 0;
		pthread_mutex_unlock(&lock);
	}
	return known ? (int)fd : -1;	/* -1: the kernel itself then says EBADF */
}

int64_t write_file(const uint8_t *p, uint32_t length)
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

void read_file(struct job *job, int is_stream)
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

/* Payload: u32 most bytes of each file (0: all), then paths with NUL. */
void read_each(struct job *job)
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

void list_directory(struct job *job)
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

void stat_path(struct job *job)
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

void read_descriptor(struct job *job)
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

int64_t poll_descriptor(const uint8_t *p, uint32_t length)
{
	struct pollfd polled = { .fd = descriptor(p, length, 12, 0) };
	int n;

	if (polled.fd < 0)
		return -EBADF;
	polled.events = u32_at(p + 4);
	n = poll(&polled, 1, (int32_t)u32_at(p + 8));
	return n < 0 ? -errno : n ? polled.revents : 0;
}
