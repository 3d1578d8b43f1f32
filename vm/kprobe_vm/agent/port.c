/* The port to the host: frames as they are, or in packets on a serial port. */
#include "agent.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

int port = -1;
int is_serial;
static pthread_mutex_t line_lock = PTHREAD_MUTEX_INITIALIZER;	/* one packet on a serial port at a time */
static pthread_mutex_t out_lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t out_buffer[HEADER + 9 + FRAME_CAP];

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

/* Read what has come, LINE_MOST bytes or more if there is room for them; errno EBADMSG: it came damaged. */
ssize_t receive(uint8_t *buffer, size_t room)
{
	return is_serial ? receive_packet(buffer) : read(port, buffer, room);
}

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

void send_frame(uint32_t id, uint8_t kind, const void *head, size_t head_length, const void *data, size_t length)
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

void send_done(uint32_t id, int64_t result, const void *data, size_t length)
{
	uint8_t head[8];

	put_s64(head, result);
	send_frame(id, REPLY_DONE, head, sizeof head, data, length);
}

int64_t outcome(int64_t result)
{
	return result < 0 ? -errno : result;
}

/* Send output as far as credit goes; wait for more; give -1 if the job is cancelled. */
int send_data(struct job *job, uint8_t which, const uint8_t *data, size_t length)
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
