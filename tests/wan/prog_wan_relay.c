/* Forwards packets between hosts with the delays, rates and losses of a matrix: the hosts are
 * network namespaces with one TUN device each, and this process is at the other end of all of them.
 * It is started by tests/support/wan.py; see docs/wan-testbed.md.
 *
 * It exits when its standard input is closed, hence also whenever its parent exits. Standard input
 * has commands, one per line; each gets a reply of one line on standard output. */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "support/wan_matrix.h"
#include "support/wan_net.h"
#include "support/wan_packet.h"

#define DEVICE "wan0"
#define TUN "/dev/net/tun"
/* packets read from one device before due packets are handled */
#define BATCH 32
#define ROOM_BYTES (256ull << 20)       /* in flight, over all pairs */
#define TIMER_SLACK_NS 1000
#define COMMAND_BYTES 256
#define COMMANDS_FROM UINT32_MAX        /* standard input; other values are hosts */

struct relay {
    struct wan_matrix matrix;
    struct wan_net *net;
    int device[WAN_HOSTS_MAX];
    int epoll;
    uint64_t carried;                   /* packets written to a device */
    uint64_t refused;                   /* packets not accepted by a device that is down */
    uint64_t late_ns, late_max_ns;      /* delay of packets after their due time: total and
                                           maximum */
    char command[COMMAND_BYTES];        /* the line so far */
    size_t command_bytes;
};

static uint8_t frame[WAN_FRAME_BYTES_MAX];

/* ---- devices ---- */

/* Opens a TUN device in the current network namespace. */
static tutti_status open_device(int *out, const char *host, bool cuts)
{
    struct ifreq ask = { .ifr_flags = (short)(IFF_TUN | IFF_NO_PI | IFF_VNET_HDR) };
    const int fd = open(TUN, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    tutti_status st = TUTTI_OK;

    if (fd < 0)
        return tt_fail_errno(errno, "%s", TUN);
    strcpy(ask.ifr_name, DEVICE);
    if (ioctl(fd, TUNSETIFF, &ask))
        st = tt_fail_errno(errno, "make the device %s of %s", DEVICE, host);
    else if (!cuts &&
             ioctl(fd, TUNSETOFFLOAD, (unsigned long)(TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6)))
        st = tt_fail_errno(errno, "let the device of %s carry long packets", host);
    if (st)
        close(fd);
    else
        *out = fd;
    return st;
}

static tutti_status enter(const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    tutti_status st = TUTTI_OK;

    if (fd < 0)
        return tt_fail_errno(errno, "%s", path);
    if (setns(fd, CLONE_NEWNET))
        st = tt_fail_errno(errno, "enter the network namespace %s", path);
    close(fd);
    return st;
}

static tutti_status watch(struct relay *r, int fd, uint32_t who)
{
    struct epoll_event want = { .events = EPOLLIN, .data.u32 = who };

    return epoll_ctl(r->epoll, EPOLL_CTL_ADD, fd, &want)
               ? tt_fail_errno(errno, "watch a descriptor")
               : TUTTI_OK;
}

/* Opens a device in each host's network namespace; then returns to the original one. */
static tutti_status open_devices(struct relay *r, char *const *networks, bool cuts)
{
    static const char home[] = "/proc/self/ns/net";
    const int back = open(home, O_RDONLY | O_CLOEXEC);
    tutti_status st = TUTTI_OK;

    if (back < 0)
        return tt_fail_errno(errno, "%s", home);
    for (uint32_t h = 0; h < r->matrix.nhosts && !st; h++) {
        st = enter(networks[h]);
        if (!st)
            st = open_device(&r->device[h], r->matrix.host[h].name, cuts);
        if (!st)
            st = watch(r, r->device[h], h);
    }
    if (setns(back, CLONE_NEWNET) && !st)
        st = tt_fail_errno(errno, "go back to the network namespace of this process");
    close(back);
    return st;
}

/* ---- commands ---- */

static void answer_stats(const struct relay *r)
{
    printf("{\"now_ns\": %" PRIu64 ", \"carried\": %" PRIu64 ", \"refused\": %" PRIu64
           ", \"late_mean_us\": %.1f, \"late_max_us\": %.1f, ",
           tt_now_ns(), r->carried, r->refused,
           r->carried ? (double)r->late_ns / 1e3 / (double)r->carried : 0.0,
           (double)r->late_max_ns / 1e3);
    wan_net_write(stdout, r->net);
    puts("}");
}

static void obey(struct relay *r, const char *line)
{
    unsigned from, to;
    char key[16], rest;
    double value;

    if (strcmp(line, "stats") == 0)
        answer_stats(r);
    else if (sscanf(line, "change %u %u %15s %lf%c", &from, &to, key, &value, &rest) == 4)
        puts(wan_net_change(r->net, from, to, key, value) ? "refused" : "changed");
    else
        puts("unknown: stats; change FROM TO delay_ms|rate_mbit|loss|loss_burst VALUE");
    fflush(stdout);
}

/* Processes standard input; *ended is set at its end. A line that is too long is an error. */
static tutti_status take_commands(struct relay *r, bool *ended)
{
    const size_t room = sizeof r->command - 1 - r->command_bytes;
    const ssize_t n = read(STDIN_FILENO, r->command + r->command_bytes, room);
    char *end;

    if (n < 0 && errno != EINTR && errno != EAGAIN)
        return tt_fail_errno(errno, "read commands");
    *ended = n == 0;
    r->command_bytes += n > 0 ? (size_t)n : 0;
    r->command[r->command_bytes] = '\0';
    while ((end = memchr(r->command, '\n', r->command_bytes))) {
        *end = '\0';
        obey(r, r->command);
        r->command_bytes -= (size_t)(end + 1 - r->command);
        memmove(r->command, end + 1, r->command_bytes + 1);
    }
    if (r->command_bytes == sizeof r->command - 1)
        return tt_fail(TUTTI_ERR_INVALID, "a command of %zu characters or more", r->command_bytes);
    return TUTTI_OK;
}

/* ---- packets ---- */

static void read_packets(struct relay *r, uint32_t host)
{
    for (int i = 0; i < BATCH; i++) {
        const ssize_t n = read(r->device[host], frame, sizeof frame);

        if (n <= 0)
            return;
        wan_net_send(r->net, tt_now_ns(), host, frame, (size_t)n);
    }
}

static void write_packets(struct relay *r)
{
    struct wan_arrival a;
    uint64_t now_ns;

    while (now_ns = tt_now_ns(), wan_net_take(r->net, now_ns, &a)) {
        const uint64_t late_ns = now_ns - a.due_ns;

        if (write(r->device[a.to], a.frame, a.bytes) == (ssize_t)a.bytes)
            r->carried++;
        else
            r->refused++;
        r->late_ns += late_ns;
        r->late_max_ns = late_ns > r->late_max_ns ? late_ns : r->late_max_ns;
    }
}

/* Runs until standard input ends. */
static tutti_status carry(struct relay *r)
{
    struct epoll_event ready[16];
    bool ended = false;
    tutti_status st = TUTTI_OK;

    while (!ended && !st) {
        const uint64_t due_ns = wan_net_due(r->net), now_ns = tt_now_ns();
        const uint64_t wait_ns = due_ns > now_ns ? due_ns - now_ns : 0;
        const struct timespec wait = { .tv_sec = (time_t)(wait_ns / TT_SECOND),
                                       .tv_nsec = (long)(wait_ns % TT_SECOND) };
        const int n = epoll_pwait2(r->epoll, ready, 16, due_ns == TT_NEVER ? NULL : &wait, NULL);

        if (n < 0 && errno != EINTR)
            return tt_fail_errno(errno, "wait for packets");
        for (int i = 0; i < n; i++) {
            if (ready[i].data.u32 == COMMANDS_FROM)
                st = take_commands(r, &ended);
            else
                read_packets(r, ready[i].data.u32);
            write_packets(r);
        }
        write_packets(r);
    }
    return st;
}

/* ---- the command line ---- */

struct options {
    const char *matrix;
    char **networks;
    int nnetworks;
    bool shows, cuts;
};

static const char about[] =
    "Carries packets between network namespaces, as a matrix of delays, rates and losses says."
    "\vMATRIX is a file as docs/wan-testbed.md describes it, or - for standard input. NETWORK is "
    "the path of a network namespace, one for "
    "each host of the matrix, in its order; in each a device " DEVICE
    " is made. When they are, \"ready\" is printed. Commands on standard "
    "input:\n"
    "  stats                                        all counters, as one line of JSON\n"
    "  change FROM TO KEY X                         from now on, from host number FROM to host "
    "number TO; KEY is delay_ms, rate_mbit, loss or loss_burst\n"
    "It ends when standard input does.";

static const struct argp_option known[] = {
    { "show", 's', NULL, 0, "print the matrix with all its pairs, as JSON, and carry nothing", 0 },
    { "cut", 'c', NULL, 0, "let the kernel cut long packets into segments before they come: slower",
      0 },
    { 0 },
};

static error_t parse_one(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;

    (void)arg;
    switch (key) {
    case 's':
        o->shows = true;
        return 0;
    case 'c':
        o->cuts = true;
        return 0;
    case ARGP_KEY_ARGS:
        o->matrix = state->argv[state->next];
        o->networks = state->argv + state->next + 1;
        o->nnetworks = state->argc - state->next - 1;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "which matrix?");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static tutti_status relay_run(struct relay *r, const struct options *o)
{
    tutti_status st = open_devices(r, o->networks, o->cuts);

    if (!st)
        st = watch(r, STDIN_FILENO, COMMANDS_FROM);
    if (!st)
        st = wan_net_create(&r->net, &r->matrix, ROOM_BYTES);
    if (st)
        return st;
    puts("ready");
    fflush(stdout);
    st = carry(r);
    wan_net_destroy(r->net);
    return st;
}

/* Raises the priority: computing hosts must not delay packets of others. Without permission it has
 * no effect, and the counters show the delays. */
static void be_prompt(void)
{
    const struct sched_param first = { .sched_priority = sched_get_priority_min(SCHED_RR) };

    prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
    if (sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &first) && errno != EPERM)
        tt_fail_errno(errno, "go before other processes");
}

int main(int argc, char **argv)
{
    static const struct argp argp = {
        .options = known, .parser = parse_one, .args_doc = "MATRIX [NETWORK...]", .doc = about
    };
    static struct relay r;
    struct options o = { 0 };

    argp_parse(&argp, argc, argv, 0, NULL, &o);
    signal(SIGPIPE, SIG_IGN);
    be_prompt();
    if (wan_matrix_load(&r.matrix, o.matrix))
        return EXIT_FAILURE;
    if (o.shows) {
        wan_matrix_write(stdout, &r.matrix);
        return EXIT_SUCCESS;
    }
    if (o.nnetworks != (int)r.matrix.nhosts) {
        tt_fail(TUTTI_ERR_INVALID, "%s has %u hosts, but there are %d network namespaces", o.matrix,
                r.matrix.nhosts, o.nnetworks);
        return EXIT_FAILURE;
    }
    r.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (r.epoll < 0) {
        tt_fail_errno(errno, "make an epoll");
        return EXIT_FAILURE;
    }
    return relay_run(&r, &o) ? EXIT_FAILURE : EXIT_SUCCESS;
}
