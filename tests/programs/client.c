/* A client of libtracefs and libtraceevent: what a tracing program does, in the order in which it does it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tracefs.h>
#include <unistd.h>

static int show(struct tep_event *event, struct tep_record *record, int cpu, void *context)
{
	struct tep_handle *tep = context;
	static struct trace_seq seq;
	int pid = tep_data_pid(tep, record);

	if (!seq.buffer)
		trace_seq_init(&seq);
	trace_seq_reset(&seq);
	tep_print_event(tep, &seq, record, "%s: %s", TEP_PRINT_NAME, TEP_PRINT_INFO);
	trace_seq_terminate(&seq);
	printf("cpu %d %s: %s\n", cpu, pid > 0 ? "task" : "idle", seq.buffer);
	return 0;
}

static void list(const char *title, char **names)
{
	int count = 0;

	for (char **name = names; name && *name; name++)
		count++;
	printf("%s: %d, first %s\n", title, count, names && *names ? names[0] : "none");
	tracefs_list_free(names);
}

int main(void)
{
	const char *systems[] = { "kprobes", "sched", "syscalls", "raw_syscalls", NULL };
	struct tracefs_instance *instance;
	struct tep_handle *tep;
	pid_t child;
	char *text;
	FILE *file;

	setvbuf(stdout, NULL, _IONBF, 0);
	printf("at %s\n", tracefs_tracing_dir());
	list("systems", tracefs_event_systems(NULL));
	list("tracers", tracefs_tracers(NULL));
	list("events of sched", tracefs_system_events(NULL, "sched"));

	printf("probe: %d\n", tracefs_kprobe_raw("mine", "open", "do_sys_openat2", "path=+0(%si):string flags=+0(%dx):x64"));
	printf("return probe: %d\n", tracefs_kretprobe_raw("mine", "opened", "do_sys_openat2", "result=$retval:s32"));
	errno = 0;
	printf("bad probe: %d", tracefs_kprobe_raw("mine", "bad", "do_sys_openat2", "path=+0(%zz):string"));
	text = tracefs_error_last(NULL);
	printf(" %s\n%s", strerror(errno), text ? strchr(text, ']') : "\n");
	free(text);

	instance = tracefs_instance_create("client");
	printf("instance %s: %s\n", tracefs_instance_get_name(instance), tracefs_instance_is_new(instance) ? "new" : "old");
	tracefs_trace_off(instance);
	printf("clock %s\n", text = tracefs_get_clock(instance));
	free(text);
	systems[0] = "mine";
	tep = tracefs_local_events_system(NULL, systems);
	printf("filter: %d\n", tracefs_instance_file_write(instance, "events/mine/open/filter", "path ~ \"*hostname\"") > 0);
	printf("enable: %d %d\n", tracefs_event_enable(instance, "mine", "open"), tracefs_event_enable(instance, "sched", "sched_process_exec"));
	tracefs_trace_on(instance);
	child = fork();
	if (!child) {
		if (!freopen("/dev/null", "w", stdout))
			_exit(126);
		execl("/bin/cat", "cat", "/etc/hostname", NULL);
		_exit(127);
	}
	waitpid(child, NULL, 0);
	tracefs_trace_off(instance);
	printf("iterated: %d\n", tracefs_iterate_raw_events(tep, instance, NULL, 0, show, tep));

	text = tracefs_instance_file_read(instance, "events/mine/open/filter", NULL);
	printf("filter is %s", text);
	free(text);
	printf("disable: %d\n", tracefs_event_disable(instance, "mine", NULL) | tracefs_event_disable(instance, "sched", NULL));
	file = fopen(text = tracefs_get_tracing_file("kprobe_events"), "r");
	for (char line[256]; fgets(line, sizeof line, file);)
		printf("%s", line);
	fclose(file);
	tracefs_put_tracing_file(text);
	printf("destroy: %d\n", tracefs_instance_destroy(instance));
	tracefs_instance_free(instance);
	printf("clear: %d\n", tracefs_dynevent_destroy_all(TRACEFS_DYNEVENT_ALL, true));
	tep_free(tep);
	return 0;
}
