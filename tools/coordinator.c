/* tutti coordinator: decides the membership of an elastic run. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "coordinator/coordinator.h"
#include "coordinator/listen.h"
#include "coordinator/web.h"
#include "tools/failed.h"
#include "tools/command_line.h"
#include "tools/option_values.h"
#include "secure/security.h"
#include "tools/tool.h"

#define LISTEN_MAX 8
#define TOKEN_BYTES 1024
#define LEASE_MS_MAX 3600000
#define DEFAULT_LISTEN "localhost:29401"
#define NO_JOURNAL "none"
#define STATUS_ARGUMENTS 2  /* exit status after a usage error */

struct options {
    const char *journal, *store, *token_file, *http;
    bool store_plain;
    const char *listen[LISTEN_MAX];
    struct tt_coordinator_conf conf;
    char token[TOKEN_BYTES];
    char journal_default[PATH_MAX];
};

static void take_listen(void *options, struct argp_state *state, char *arg)
{
    struct options *o = options;

    if (o->conf.nlisten == LISTEN_MAX)
        argp_error(state, "--listen %s: too many addresses (the maximum is %d)", arg, LISTEN_MAX);
    o->listen[o->conf.nlisten++] = arg;
}

static void take_lease(void *options, struct argp_state *state, char *arg)
{
    struct options *o = options;

    o->conf.lease_ns = option_number(state, "--lease", arg, 10, LEASE_MS_MAX) * TT_MS;
}

static void take_grace(void *options, struct argp_state *state, char *arg)
{
    struct options *o = options;

    o->conf.grace_ns = option_number(state, "--grace", arg, 1, LEASE_MS_MAX) * TT_MS;
}

static const struct option_row option_rows[] = {
    { "run", 'r', "NAME", 0, OPTION_TEXT(struct options, conf.run),
      "name of the run; members of other runs are rejected (default: the value of TUTTI_RUN, or "
      "\"tutti\")" },
    { "listen", 'l', "HOST:PORT", 0, OPTION_CALL(take_listen),
      "address to listen on for members; may be repeated. \":PORT\" listens on all addresses of "
      "this host; port 0 selects a free port (default " DEFAULT_LISTEN ")" },
    { "journal", 'j', "FILE", 0, OPTION_TEXT(struct options, journal),
      "file for the state of the run, from which a restarted coordinator continues the run "
      "(default NAME.journal in the current directory). \"" NO_JOURNAL
      "\": no file; the run ends with this process" },
    { "store", 0, "URL", 0, OPTION_TEXT(struct options, store),
      "keep the journal in etcd, at etcd://HOST:PORT[,HOST:PORT...]/PREFIX. Of several "
      "coordinators with the same store, one leads and the others stand by. If the leader fails, "
      "one of them takes over" },
    { "store-plain", 0, NULL, 0, OPTION_FLAG(struct options, store_plain),
      "allow unencrypted connections to etcd servers on other hosts" },
    { "http", 0, "HOST:PORT", 0, OPTION_TEXT(struct options, http),
      "serve the status of the run over HTTP at this address, without access control: a web page, "
      "/status.json, and /metrics (Prometheus)" },
    { NULL, 0, NULL, 1, { 0 },
      "Access control (required if other hosts can connect: --token-file, or --cert with --key and "
      "--ca, or --insecure):" },
    { "token-file", 0, "FILE", 1, OPTION_TEXT(struct options, token_file),
      "accept only members that have the token on the first line of FILE (default: security as set "
      "by TUTTI_SECURITY and TUTTI_TOKEN)" },
    { "cert", 0, "FILE", 1, OPTION_TEXT(struct options, conf.secure.certificate),
      "certificate of this coordinator (PEM). With --key and --ca, members must present a "
      "certificate "
      "signed by the CA" },
    { "key", 0, "FILE", 1, OPTION_TEXT(struct options, conf.secure.key),
      "private key of this coordinator's certificate (PEM)" },
    { "ca", 0, "FILE", 1, OPTION_TEXT(struct options, conf.secure.authority),
      "certificate of the certificate authority, CA (PEM)" },
    { "insecure", 0, NULL, 1, OPTION_FLAG(struct options, conf.insecure),
      "accept any process, over unencrypted, unauthenticated connections" },
    { NULL, 0, NULL, 2, { 0 },
      "Limits:" },
    { "lease", 0, "MS", 2, OPTION_CALL(take_lease),
      "milliseconds without a message after which a member is declared lost (default 1000)" },
    { "grace", 0, "MS", 2, OPTION_CALL(take_grace),
      "milliseconds within which a disconnected member can reconnect (default: a quarter of "
      "--lease, at most 250)" },
    { "members", 0, "N", 2,
      OPTION_INTEGER(struct options, conf.members_max, 1, TT_ELASTIC_MEMBERS_MAX),
      "maximum number of members, including newcomers (default 4096)" },
    { 0 },
};

static const struct command_line command = {
    .rows = option_rows,
    .doc =
        "Runs the coordinator, which manages the membership of an elastic run.\vMembers send "
        "heartbeats to the coordinator, and contact it when one of them joins, fails or leaves, "
        "but not for collectives. "
        "After a restart with the same journal, the run continues. The coordinator prints a line "
        "\"listening on ADDRESS...\" when members can connect. SIGTERM or SIGINT ends the "
        "coordinator; changes of the membership then wait until it is started again.\n\n"
        "Exit status: 0 after SIGTERM or SIGINT; 1 if it cannot start or continue (address in use, "
        "journal damaged or not writable); 2 on a usage error. See also docs/coordinator.md.\n\n"
        "Examples:\n"
        "  tutti coordinator --listen :29401 --token-file token --http localhost:9090\n",
};

/* ---- settings ---- */

static int complain(const char *what)
{
    fprintf(stderr, "tutti coordinator: %s\n", what);
    return STATUS_ARGUMENTS;
}

/* Reports the failure unless the library has logged it. Returns the exit status. */
static int fail(tutti_status st)
{
    tool_failed("tutti coordinator", NULL, st);
    return 1;
}

/* As fail, for the checks before the start: an invalid option or variable is a usage error. */
static int refuse(tutti_status st)
{
    const int status = fail(st);

    return st == TUTTI_ERR_INVALID ? STATUS_ARGUMENTS : status;
}

static int read_token(struct options *o)
{
    FILE *f = fopen(o->token_file, "re");
    size_t bytes;

    if (!f || !fgets(o->token, sizeof o->token, f)) {
        fprintf(stderr, "tutti coordinator: cannot read the token file \"%s\": %s\n", o->token_file,
                f && !ferror(f) ? "it is empty" : strerror(errno));
        if (f)
            fclose(f);
        return STATUS_ARGUMENTS;
    }
    fclose(f);
    bytes = strcspn(o->token, "\r\n");
    if (bytes == sizeof o->token - 1 || bytes < TT_SECURE_TOKEN_MIN) {
        fprintf(stderr,
                "tutti coordinator: invalid token in %s: the first line has %zu%s characters (must "
                "be %d to %zu)\n",
                o->token_file, bytes, bytes < TT_SECURE_TOKEN_MIN ? "" : " or more",
                TT_SECURE_TOKEN_MIN, sizeof o->token - 2);
        return STATUS_ARGUMENTS;
    }
    o->token[bytes] = '\0';
    o->conf.secure.token = o->token;
    return 0;
}

/* Selects the access control: certificates, a token or none. Returns 0, or the exit status. */
static int choose_security(struct options *o)
{
    struct tt_secure_conf *s = &o->conf.secure;
    bool asked;
    const int files = !!s->certificate + !!s->key + !!s->authority;

    if (o->conf.insecure && (files || o->token_file))
        return complain(
            "conflicting options: --insecure excludes --token-file, --cert, --key and --ca");
    if (files && o->token_file)
        return complain("conflicting options: --token-file excludes --cert, --key and --ca");
    if (files && files < 3)
        return complain("incomplete options: --cert, --key and --ca require each other");
    if (files) {
        s->mode = TT_SECURE_CERTIFICATE;
    } else if (o->token_file) {
        s->mode = TT_SECURE_TOKEN;
        return read_token(o);
    } else if (!o->conf.insecure) {
        const tutti_status st = tt_security_of_run(s, &asked);

        if (st)
            return refuse(st);
        o->conf.insecure = asked && s->mode == TT_SECURE_PLAIN;
    }
    return 0;
}

/* Checks the settings before anything is opened or created. Returns 0, or the exit status. */
static int check(const struct options *o)
{
    tutti_status st = tt_coordinator_check(&o->conf);
    bool loopback;

    if (!st && o->http)
        st = tt_listen_check(o->http, TT_LISTEN_FOR_HTTP, &loopback);
    if (!st && o->store)
        st = tt_journal_etcd_check(
            &(struct tt_journal_etcd_conf){ .store = o->store, .plain = o->store_plain });
    return st ? refuse(st) : 0;
}

/* Sets defaults and checks the options. Returns 0, or the exit status. */
static int set_defaults(struct options *o)
{
    const uint64_t lease_ns = o->conf.lease_ns ? o->conf.lease_ns : TT_COORDINATOR_LEASE_NS;
    const char *run = getenv("TUTTI_RUN");
    int status;

    if (!o->conf.run)
        o->conf.run = run && *run ? run : "tutti";
    if (o->conf.nlisten == 0)
        o->listen[o->conf.nlisten++] = DEFAULT_LISTEN;
    o->conf.listen = o->listen;
    if (o->conf.grace_ns > lease_ns) {
        fprintf(
            stderr,
            "tutti coordinator: invalid --grace: %llu ms exceeds the lease of %llu ms (--lease)\n",
            o->conf.grace_ns / TT_MS, lease_ns / TT_MS);
        return STATUS_ARGUMENTS;
    }
    if (o->store_plain && !o->store)
        return complain("missing option: --store-plain needs --store");
    if (o->journal && o->store)
        return complain("conflicting options: --journal excludes --store");
    if (o->journal && !*o->journal)
        return complain("invalid --journal: the name is empty (use a file name, or " NO_JOURNAL
                        ")");
    if (!o->journal && !o->store) {
        if (strchr(o->conf.run, '/'))
            return complain("cannot name the journal after the run: its name contains \"/\" (use "
                            "--journal FILE)");
        if (snprintf(o->journal_default, sizeof o->journal_default, "%s.journal", o->conf.run) >=
            (int)sizeof o->journal_default)
            return complain(
                "cannot name the journal after the run: its name is too long (use --journal FILE)");
        o->journal = o->journal_default;
    }
    status = choose_security(o);
    return status ? status : check(o);
}

/* ---- running ---- */

/* Raises the limit of open files: each member needs a descriptor. */
static void allow_descriptors(void)
{
    struct rlimit most;

    if (getrlimit(RLIMIT_NOFILE, &most) == 0 && most.rlim_cur < most.rlim_max) {
        most.rlim_cur = most.rlim_max;
        setrlimit(RLIMIT_NOFILE, &most);
    }
}

/* The status page. */
struct shown {
    struct tt_web *web;     /* NULL: no status page */
    bool printed;              /* the coordinator's address was printed */
};

/* Prints the address of the page, once. Browsers cannot open a wildcard address; loopback replaces
 * it. */
static void announce_web(struct shown *shown)
{
    static const char four[] = "0.0.0.0:", six[] = "[::]:",
                      others[] = ", and at the other addresses of this host";
    const char *at;

    if (!shown->web || shown->printed)
        return;
    at = tt_web_address(shown->web);
    if (strncmp(at, four, strlen(four)) == 0)
        printf("status page: http://127.0.0.1:%s/%s\n", at + strlen(four), others);
    else if (strncmp(at, six, strlen(six)) == 0)
        printf("status page: http://[::1]:%s/%s\n", at + strlen(six), others);
    else
        printf("status page: http://%s/\n", at);
    fflush(stdout);
    shown->printed = true;
}

static void announce(const struct tt_coordinator *c, struct shown *shown)
{
    printf("listening on");
    for (uint32_t i = 0; tt_coordinator_address(c, i); i++)
        printf(" %s", tt_coordinator_address(c, i));
    printf("\n");
    fflush(stdout);
    announce_web(shown);
}

#define STAND_BY (-1)

/* Waits for a signal (returns 0) or for the end of the coordinator (returns 1, or STAND_BY if
 * another coordinator may take over). */
static int wait_for_end(const struct options *o, struct tt_coordinator *c, int signals)
{
    struct pollfd fds[] = { { .fd = signals, .events = POLLIN },
                            { .fd = tt_coordinator_ended_fd(c), .events = POLLIN } };
    tutti_status st;
    char why[256];

    while (poll(fds, 2, -1) < 0 && errno == EINTR)
        ;
    if (fds[1].revents == 0)
        return 0;
    st = tt_coordinator_error(c, why, sizeof why);
    if (!tt_log_on(TT_LOG_ERROR)) /* otherwise the library has logged it */
        fprintf(stderr, "tutti coordinator: %s\n", why);
    return o->store && (st == TUTTI_ERR_ABORTED || st == TUTTI_ERR_SYSTEM) ? STAND_BY : 1;
}

/* Called when another coordinator is the leader. */
static void stands_by(void *context, const char *leader)
{
    struct shown *shown = context;

    if (shown->web)
        tt_web_stand_by(shown->web, leader);
    if (*leader)
        announce_web(shown);
}

/* Opens the journal. `again`: this process was the leader before, so it waits for the journal
 * without a time limit. */
static tutti_status open_journal(const struct options *o, int signals, bool again,
                                 struct shown *shown, struct tt_journal **out)
{
    char who[TT_COORDINATOR_CALLED_BYTES];

    if (!o->store)
        return strcmp(o->journal, NO_JOURNAL) == 0 ? tt_journal_none_open(out)
                                                   : tt_journal_sqlite_open(out, o->journal);
    tt_coordinator_call_it(who, sizeof who, o->listen[0]);
    return tt_journal_etcd_open(out, &(struct tt_journal_etcd_conf){ .store = o->store,
                                                                     .who = who,
                                                                     .stop_fd = signals,
                                                                     .patient = again,
                                                                     .plain = o->store_plain,
                                                                     .stands_by = stands_by,
                                                                     .context = shown });
}

static int lead(const struct options *o, int signals, struct shown *shown,
                struct tt_journal *journal)
{
    struct tt_coordinator *c;
    tutti_status st = tt_coordinator_create(&c, &o->conf, journal);
    int status;

    if (st) {
        fail(st);
        journal->ops->close(journal);
        return o->store && (st == TUTTI_ERR_ABORTED) ? STAND_BY : 1;
    }
    if (shown->web)
        tt_web_show(shown->web, tt_coordinator_board(c));
    announce(c, shown);
    status = wait_for_end(o, c, signals);
    if (shown->web)
        tt_web_stand_by(shown->web, "");
    tt_coordinator_destroy(c);
    return status;
}

static int serve(const struct options *o, int signals, struct shown *shown)
{
    struct tt_journal *journal;
    tutti_status st;
    int status = 0;

    do {
        st = open_journal(o, signals, status == STAND_BY, shown, &journal);
        if (st == TUTTI_ERR_ABORTED)    /* a signal ended the standby */
            return 0;
        if (st)
            return fail(st);
        status = lead(o, signals, shown, journal);
    } while (status == STAND_BY);
    return status;
}

static int show_and_serve(const struct options *o, int signals)
{
    struct shown shown = { .web = NULL };
    const tutti_status st =
        o->http ? tt_web_create(&shown.web, o->http, NULL, o->conf.run) : TUTTI_OK;
    int status;

    if (st)
        return fail(st);
    status = serve(o, signals, &shown);
    tt_web_destroy(shown.web);
    return status;
}

int tool_coordinator_main(int argc, char **argv)
{
    static struct options o;
    sigset_t ends;
    int signals, status;

    command_line_read(&command, &o, argc, argv);
    status = set_defaults(&o);
    if (status)
        return status;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    signal(SIGPIPE, SIG_IGN);   /* the reader of the printed address may have exited */
    signals = signalfd(-1, &ends, SFD_CLOEXEC);
    if (signals < 0) {
        perror("tutti coordinator: cannot wait for signals");
        return 1;
    }
    allow_descriptors();
    status = show_and_serve(&o, signals);
    close(signals);
    return status;
}
