/* tutti <subcommand> [options]. */
#include "tools/tool.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tools/failed.h"
#include "tutti/tutti.h"

static const struct tool tools[] = {
    { "run", "start the ranks of a job, on this or other hosts", tool_run_main, false },
    { "perf", "measure and check collectives", tool_perf_main, false },
    { "tune", "find the fastest algorithms by measurement and write a tune file", tool_tune_main,
      false },
    { "info", "show this build, its transports, parameters and algorithms", tool_info_main, false },
    { "sim", "simulate a collective on a machine of a given topology", tool_sim_main, false },
    { "topo", "show or measure the topology; place ranks on hosts", tool_topo_main, false },
    { "plan", "show, draw and explain the schedule of a collective", tool_plan_main, false },
    { "ring", "find the fastest ring order of peers from measured links", tool_ring_main, false },
    { "lanes", "simulate limits on outstanding segments per lane", tool_lanes_main, false },
    { "status", "show the operations in progress on each rank of a job", tool_status_main, true },
    { "top", "show operations, bytes and late ranks of a running job every second",
      tool_top_main, true },
    { "analyze", "find the cause of a hang in the trace dumps of a job", tool_analyze_main, false },
    { "profile", "report how a job spent its time, from its trace dumps",
      tool_profile_main, false },
    { "coordinator", "run the coordinator of an elastic run", tool_coordinator_main, true },
};
#define NTOOLS (sizeof tools / sizeof *tools)

#define USAGE_STATUS 2 /* exit status of every command after a usage error */

static char running[64] = "tutti"; /* the command, for finish_output */
static bool reader_may_leave;
static int write_error; /* errno of the first failed write of standard output; 0: none */

/* Makes this process independent of the signal settings of its parent. An ignored SIGCHLD would
 * make waitid fail with ECHILD, and a blocked signal would never arrive. With SIGXFSZ ignored, a
 * write beyond the file size limit fails with EFBIG and is reported. */
static void reset_signals(void)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGXFSZ, SIG_IGN);
}

/* Opens /dev/null for standard streams that the parent closed, so that no socket or pipe of this
 * process gets descriptor 0, 1 or 2. A write to an output opened here still fails with EBADF. */
static void open_standard_streams(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

/* Writes to standard output, and records the errno of a failure, which stdio does not keep. */
static ssize_t write_output(void *unused, const char *text, size_t bytes)
{
    size_t done = 0;

    (void)unused;
    while (done < bytes) {
        const ssize_t n = write(STDOUT_FILENO, text + done, bytes - done);

        if (n >= 0) {
            done += (size_t)n;
        } else if (errno == EAGAIN) {
            poll(&(struct pollfd){ .fd = STDOUT_FILENO, .events = POLLOUT }, 1, -1);
        } else if (errno != EINTR) {
            write_error = write_error ? write_error : errno;
            return -1;
        }
    }
    return (ssize_t)done;
}

static void watch_output(void)
{
    FILE *out = fopencookie(NULL, "w", (cookie_io_functions_t){ .write = write_output });

    if (!out)
        return;
    setvbuf(out, NULL, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, BUFSIZ);
    stdout = out;
}

/* Runs at exit. If a write of standard output failed, reports it and exits with status 1. Some file
 * systems report a failed write only when a descriptor is closed. This function closes a copy,
 * because other threads may still run. */
static void finish_output(void)
{
    const bool failed = fflush(stdout) != 0 || ferror(stdout);
    int copy;

    if (!failed) {
        copy = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
        if (copy < 0 || close(copy) == 0)
            return;
        write_error = errno;
    }
    if (write_error == EPIPE && reader_may_leave)
        return;
    fprintf(stderr, "%s: cannot write standard output: %s%s\n", running,
            strerror(write_error ? write_error : EIO), write_error == EFBIG ? FILE_SIZE_HINT : "");
    _exit(EXIT_FAILURE);
}

static void usage(FILE *to)
{
    fprintf(to, "Usage: tutti COMMAND [OPTION...]\nRuns, measures, simulates and explains "
                "collectives.\n\nCommands:\n");
    for (size_t i = 0; i < NTOOLS; i++)
        fprintf(to, "  %-11s %s\n", tools[i].name, tools[i].summary);
    fprintf(to,
            "\n`tutti COMMAND --help` describes a command; `tutti --version` prints the version "
            "(%s).\n\n"
            "Exit status: 0 on success, 1 on failure, 2 on a usage error. `tutti run` returns the "
            "status of\n"
            "its program; an interrupted `tutti tune` returns 130.\n\n"
            "Examples:\n    tutti run -n 4 -- ./program\n    tutti perf allreduce -n 4 --check\n",
            tutti_version());
}

static const struct tool *find(const char *command)
{
    for (size_t i = 0; i < NTOOLS; i++)
        if (strcmp(command, tools[i].name) == 0)
            return &tools[i];
    return NULL;
}

static int run_tool(const struct tool *tool, int argc, char **argv)
{
    snprintf(running, sizeof running, "tutti %s", tool->name);
    reader_may_leave = tool->reader_may_leave;
    argv[0] = running;
    argp_err_exit_status = USAGE_STATUS;
    return tool->main(argc, argv);
}

int main(int argc, char **argv)
{
    static char help[] = "--help";
    const char *command = argc > 1 ? argv[1] : "";
    const struct tool *tool = find(command);

    open_standard_streams();
    reset_signals();
    watch_output();
    atexit(finish_output);
    if (strcmp(command, "--version") == 0 || strcmp(command, "-V") == 0 ||
        strcmp(command, "version") == 0) {
        printf("tutti %s\n", tutti_version());
        return 0;
    }
    if (tool && argc > 2 && strcmp(argv[2], "-h") == 0)
        argv[2] = help;
    if (tool)
        return run_tool(tool, argc - 1, argv + 1);
    if (argc > 2 && strcmp(command, "help") == 0) {     /* "help perf" is "perf --help" */
        tool = find(argv[2]);
        argv[1] = argv[2];
        argv[2] = help;
        if (tool)
            return run_tool(tool, 2, argv + 1);
        command = argv[1];
    } else if (strcmp(command, "--help") == 0 || strcmp(command, "-h") == 0 ||
               strcmp(command, "help") == 0) {
        usage(stdout);
        return 0;
    }
    if (*command)
        fprintf(stderr, "tutti: unknown command \"%s\"\n\n", command);
    usage(stderr);
    return USAGE_STATUS;
}
