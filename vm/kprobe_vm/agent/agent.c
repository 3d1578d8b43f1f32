/* The agent, process 1 of a guest: serves the host's requests.  Start with protocol.h, then jobs.c. */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

static int console = -1;

void say(const char *format, ...)
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

void give_up(const char *what)
{
	say("%s: %s", what, strerror(errno));
	_exit(1);	/* the kernel panics: "Attempted to kill init" */
}

static void hello(void)
{
	uint8_t head[16];
	char text[512];
	struct utsname name;
	int length;

	uname(&name);
	/* uname -r, uname -v, where the tracefs is, which port this is: each with its NUL */
	length = snprintf(text, sizeof text, "%s%c%s%c%s%c%s", name.release, 0, name.version, 0, tracing_directory(), 0,
			  is_serial ? "serial" : "virtio") + 1;
	put_u32(head, PROTOCOL);
	put_u32(head + 4, sysconf(_SC_PAGESIZE));
	put_u32(head + 8, sysconf(_SC_NPROCESSORS_ONLN));
	put_u32(head + 12, WINDOW);
	send_frame(0, REPLY_HELLO, head, sizeof head, text, length);
}

static void serve(void)
{
	static uint8_t buffer[HEADER + FRAME_CAP + LINE_MOST];
	size_t held = 0;
	int nudge = 0;

	for (;;) {
		struct pollfd polled = { .fd = port, .events = POLLIN };
		size_t offset = 0;
		ssize_t n;

		if (nudge) {
			int is_quiet = poll(&polled, 1, 5) == 0;

			/* nudge even while the host sends request after request */
			nudge = nudge_again();
			if (is_quiet)
				continue;
		}
		n = receive(buffer + held, sizeof buffer - held);
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

			nanosleep(&pause, NULL);	/* there is no host at the other end; it may come back */
			continue;
		}
		held += n;
		while (held - offset >= HEADER) {
			uint32_t length = u32_at(buffer + offset);

			if (length > FRAME_CAP) {
				say("frame of %u bytes is longer than %u: port closed", length, FRAME_CAP);
				return;
			}
			if (held - offset < HEADER + length)
				break;
			if (dispatch(u32_at(buffer + offset + 4), buffer[offset + 8], buffer + offset + HEADER, length) < 0) {
				say("unknown operation %u: port closed", buffer[offset + 8]);
				return;
			}
			nudge |= buffer[offset + 8] == OP_CANCEL || buffer[offset + 8] == OP_LOOK;
			offset += HEADER + length;
		}
		memmove(buffer, buffer + offset, held - offset);
		held -= offset;
	}
}

static void on_signal(int number)
{
	(void)number;	/* only there to interrupt a system call */
}

/* Other than as process 1 it serves the descriptor that its argument names, so tests need no guest. */
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
