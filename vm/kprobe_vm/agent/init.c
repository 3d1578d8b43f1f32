/* Process 1: mounts what a tracer needs, loads the root image's modules, opens the port to the host. */
#include "agent.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define SERIAL_PORT "/dev/ttyS1"
#define SERIAL_NUMBER makedev(4, 65)	/* Documentation/admin-guide/devices.txt */
#define TRACEFS 0x74726163	/* TRACEFS_MAGIC, include/uapi/linux/magic.h */

static void mount_at(const char *type, const char *path, const char *options)
{
	mkdir(path, 0755);
	if (mount(type, path, type, 0, options) < 0 && errno != EBUSY)
		say("mount %s on %s: %s", type, path, strerror(errno));
}

/* Load a module by finit_module(2), which kernels have since 3.8, or else by init_module(2). */
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

/* Open the second serial port, raw, at the highest speed of a UART. */
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
	/* an interrupt every 14 bytes instead of 8, where the driver offers that choice (since 3.18) */
	trigger = open("/sys/class/tty/ttyS1/rx_trig_bytes", O_WRONLY | O_CLOEXEC);
	if (trigger >= 0 && write(trigger, "14", 2) < 0)
		say("%s: %s", SERIAL_PORT, strerror(errno));
	close(trigger);
	return fd;
}

static int has_entries(const char *path)
{
	DIR *directory = opendir(path);
	struct dirent *entry;
	int any = 0;

	while (directory && !any && (entry = readdir(directory)))
		any = entry->d_name[0] != '.';
	if (directory)
		closedir(directory);
	return any;
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
			break;	/* no driver has made the class: there will be no port */
		nanosleep(&pause, NULL);
	}
	errno = ENODEV;
	return -1;
}

/* Since 4.1 tracing has a file system of its own; before, it is a directory of debugfs. */
const char *tracing_directory(void)
{
	struct statfs status;

	if (!statfs("/sys/kernel/tracing", &status) && status.f_type == TRACEFS)
		return "/sys/kernel/tracing";
	return access("/sys/kernel/debug/tracing", F_OK) ? "/sys/kernel/tracing" : "/sys/kernel/debug/tracing";
}

void become_init(void)
{
	umask(022);
	mount_at("proc", "/proc", NULL);
	mount_at("sysfs", "/sys", NULL);
	mount_at("devtmpfs", "/dev", NULL);
	if (access("/dev/zero", F_OK)) {	/* the kernel has no devtmpfs */
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
