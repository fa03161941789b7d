/* Rendezvous over sockets and files. One rank of each host connects to the server's address
 * repeatedly until the server responds with the id of the start-up, and shares this id with the
 * others of its host (host_share.h). With the id, the ranks of a host find their first rank (the
 * leader). Then each rank runs a node of the start-up tree (tree_node.h): the leader uses its
 * connection to the server, the others connect to the leader. If the server is lost, a rank
 * retries, until it has the table or a refusal, or the deadline passes. The server is:
 *   tcp://   rank 0, if it can listen there; if the port is taken, another process serves (a
 *   launcher), and rank 0 only connects
 *   file://  rank 0, at an arbitrary port, which it writes to the file
 *   etcd://  rank 0, at an arbitrary port, which it writes to a key of etcd; one rank of each host
 *            reads the key
 *   id:      the process that created the id
 *   ""       rank 0, at an arbitrary port, published in the launcher's key-value space
 * Then the overlay is connected, and rank 0 serves until all ranks have the table. */
#include "boot/boot.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/hostport.h"
#include "base/log.h"
#include "base/near.h"
#include "base/prng.h"
#include "base/resolve.h"
#include "base/status.h"
#include "boot/endpoint.h"
#include "boot/etcd_key.h"
#include "boot/flood.h"
#include "boot/host_share.h"
#include "boot/id.h"
#include "boot/kv.h"
#include "boot/overlay.h"
#include "boot/records.h"
#include "boot/samehost.h"
#include "boot/serve.h"
#include "boot/tree_node.h"

#define ADDRESSES_MAX TT_TREE_ROOTS_MAX
#define CONNECT_NS (3 * TT_SECOND)      /* per address */
#define CHALLENGE_NS \
    (10 * TT_SECOND) /* a server that takes longer for its challenge is not
                                           ours */
#define RETRY_FIRST_NS (5 * TT_MS)
#define RETRY_LAST_NS (250 * TT_MS)
#define SERVE_ON_NS (5 * TT_SECOND)     /* time for which a failed rank 0 notifies others */
#define SHARE_NS TT_SECOND              /* between responses of a first rank without a result */
#define WHY_BYTES TT_SHARE_BYTES_MAX
#define CHALLENGE 1u                    /* type of the server's first frame */
#define CHALLENGE_BYTES_MAX 64
/* Jobs up to this size do not connect by doubling, since most pairs of ranks have a link anyway. */
#define RANKS_WITHOUT_DOUBLING 4
#define RECORDS_NS (2 * TT_SECOND)      /* after this time, the address is taken from the table */

_Static_assert(TT_TREE_CARD_MAX <= TT_RECORD_BYTES, "the overlay passes them on");
_Static_assert(TT_BOOT_CONSTANTS_BYTES <= TT_TREE_CONSTANTS_MAX, "the tree distributes them");
_Static_assert(TT_BOOT_PLACE_BYTES <= TT_TREE_PLACE_MAX, "the tree distributes them");
_Static_assert(TT_BOOT_SETTINGS_BYTES - 1 <= TT_TREE_SETTINGS_MAX, "the tree compares them");

enum where { AT_TCP, AT_FILE, AT_ETCD, AT_ID };

/* State of one rendezvous; on the caller's stack. */
struct meet {
    const struct tt_launch *launch;
    const struct tt_boot_offer *offer;
    uint64_t began_ns, deadline_ns;
    enum where where;
    struct tt_hostport at;              /* AT_TCP */
    const char *path;                   /* AT_FILE */
    struct tt_etcd_key *key;            /* AT_ETCD */
    tutti_id id;                        /* AT_ID; AT_FILE, AT_ETCD: the id written by rank 0 */
    bool published;

    struct tt_endpoint own;             /* address of the overlay's listener */
    int overlay_listener, overlay_near;     /* overlay_near: second listener while lo is down
                                               (base/near.h), or -1 */
    int listener;                       /* from the launcher's exchange: rank 0 must serve it */
    uint16_t serve_port;
    struct tt_serve *serve;
    bool translated;                    /* this process serves, but the rendezvous address is not
                                           one of this host */

    char token[128];
    uint64_t process;
    uint8_t card[TT_TREE_CARD_MAX];     /* boot's own part, then the caller's */
    uint16_t card_bytes;
    struct tt_samehost samehost;
    uint8_t gathering[TT_NONCE_BYTES];      /* the gathering for which samehost is valid */
    bool knows_host;
    struct tt_host_share share;         /* of the id of the server's gathering; not of rank 0 */
    uint64_t shared_ns;                 /* last response to the ranks that wait for this one */
    struct tt_tree_node *node;          /* in the tree; or NULL */
    bool accepted;                      /* the server, or the leader, has accepted this rank, and is
                                           connected */
    struct tt_framer in;
    struct tt_lookup *lookup;           /* AT_TCP: pending lookup of the address's name, or NULL */
    int fd;                             /* the current connection to the server, or -1 */
    bool connected;
    struct tt_address addresses[ADDRESSES_MAX];
    size_t naddresses, next;
    uint64_t attempt_ns, retry_ns, backoff_ns;
    unsigned attempts;
    char why[WHY_BYTES];                /* cause of the last failed attempt */
    char cannot[2 * WHY_BYTES + 256];       /* rank 0: why it cannot serve; "": it can, or may be
                                               able to */
};

/* ---- the rendezvous address ---- */

static bool url_has_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Returns the source of the rendezvous address, in the user's terms. */
static const char *rendezvous_source(const struct meet *m)
{
    return *m->launch->rendezvous_from ? m->launch->rendezvous_from : "the rendezvous";
}

/* Lets the ranks of this host that have the same server share the id that it sends. */
static void share_server(struct meet *m)
{
    struct tt_host_share share;

    tt_host_share_init(&share, m->token, "tutti challenge", m->launch->rendezvous, m->launch->host);
    if (memcmp(share.name, m->share.name, sizeof share.name) == 0)
        return;
    tt_host_share_fini(&m->share);
    m->share = share;
}

static tutti_status parse_tcp(struct meet *m, const char *text)
{
    const char *address = text + strlen("tcp://"),
               *why = tt_hostport_parse(&m->at, address, strlen(address));

    if (why)
        return tt_fail(TUTTI_ERR_INVALID, "%s is \"%s\": invalid address after tcp://: %s",
                       rendezvous_source(m), text, why);
    if (!m->at.host[0])
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s is \"%s\": no host before the port (use tcp://host:port)",
                       rendezvous_source(m), text);
    if (!m->at.number)
        return tt_fail(TUTTI_ERR_INVALID, "%s is \"%s\": invalid port 0: must be 1 to 65535",
                       rendezvous_source(m), text);
    m->serve_port = m->at.number;
    share_server(m);
    return TUTTI_OK;
}

/* Sets the token for an id: the user's joined with the id's. */
static tutti_status use_id(struct meet *m)
{
    uint8_t token[TT_ID_TOKEN_BYTES];
    struct tt_endpoint server;
    tutti_status st;

    st = tt_id_parse(&m->id, &server, token);
    if (st)
        return st;
    if (server.host != m->own.host)
        tt_endpoint_without_loopback(&server);
    m->naddresses = tt_endpoint_candidates(&m->own, &server, m->addresses);
    if (m->naddresses == 0)
        snprintf(m->why, sizeof m->why,
                 "the rendezvous server has no address that another host can reach");
    st = tt_id_join_token(m->token, m->launch->token, token);
    if (!st)
        share_server(m);
    return st;
}

static tutti_status parse_where(struct meet *m, const char *text)
{
    if (url_has_prefix(text, "tcp://")) {
        m->where = AT_TCP;
        return parse_tcp(m, text);
    }
    if (url_has_prefix(text, "file://")) {
        m->where = AT_FILE;
        m->path = text + strlen("file://");
        if (*m->path != '/')
            return tt_fail(TUTTI_ERR_INVALID,
                           "%s is \"%s\": the path is not absolute (use file:///path)",
                           rendezvous_source(m), text);
        return TUTTI_OK;
    }
    if (url_has_prefix(text, TT_ETCD_KEY_URL)) {
        m->where = AT_ETCD;
        return tt_etcd_key_open(&m->key, text, rendezvous_source(m), m->launch->token,
                                m->launch->host);
    }
    m->where = AT_ID;
    if (!tt_id_from_text(&m->id, text))
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s is \"%s\": invalid rendezvous: must be tcp://host:port, file:///path, "
                       "etcd://host:port/prefix or id:HEX",
                       rendezvous_source(m), text);
    return use_id(m);
}

/* ---- the rendezvous file ---- */

/* Reads the file: one line, the text of an id. The file may be missing, incomplete (written on
 * another host), or of an earlier run. The server in it then does not respond or has another token,
 * and the file is read again. */
static bool read_file(struct meet *m)
{
    char text[TT_ID_TEXT_BYTES + 2];
    const int fd = open(m->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);    /* it may be a FIFO */
    ssize_t n;

    if (fd < 0) {
        snprintf(m->why, sizeof m->why, "%s", strerror(errno));
        return false;
    }
    n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    if (!tt_id_from_text(&m->id, text)) {
        snprintf(m->why, sizeof m->why, "the file contains no address");
        return false;
    }
    return use_id(m) == TUTTI_OK;
}

/* Returns an error if the path exists, and is neither the file of an earlier run nor empty. */
static tutti_status check_replaceable(const char *path)
{
    char text[3];                   /* "id:", or the beginning of another file */
    struct stat s;
    ssize_t n = -1;
    int fd;

    if (lstat(path, &s) != 0)
        return TUTTI_OK;
    fd = S_ISREG(s.st_mode) ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    if (fd >= 0) {
        n = read(fd, text, sizeof text);
        close(fd);
    }
    if (n == 0 || (n == (ssize_t)sizeof text && memcmp(text, "id:", sizeof text) == 0))
        return TUTTI_OK;
    return tt_fail(TUTTI_ERR_INVALID,
                   "rendezvous: cannot write %s: it exists, and is not the file of an earlier run "
                   "(use another path, or remove it)",
                   path);
}

/* Writes the file atomically: under a temporary name, then renamed. Readable only by this user,
 * since it has the token. */
static tutti_status write_file(const char *path, const tutti_id *id)
{
    char temporary[300], text[TT_ID_TEXT_BYTES + 1];
    uint64_t nonce;
    size_t n;
    ssize_t written;
    const tutti_status st = check_replaceable(path);
    struct rlimit limit;
    int fd, err;

    if (st)
        return st;
    tt_random_bytes(&nonce, sizeof nonce);
    snprintf(temporary, sizeof temporary, "%s.%016llx", path, (unsigned long long)nonce);
    tt_id_text(id, text);
    n = strlen(text);
    text[n++] = '\n';
    /* a write beyond the limit would end the process with SIGXFSZ */
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < n)
        return tt_fail(TUTTI_ERR_SYSTEM,
                       "rendezvous: cannot write %zu bytes to %s: RLIMIT_FSIZE is %llu bytes "
                       "(raise it with ulimit -f)",
                       n, path, (unsigned long long)limit.rlim_cur);
    fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return tt_fail_errno(errno, "rendezvous: cannot create %s", temporary);
    written = write(fd, text, n);
    err = written == (ssize_t)n ? 0 : errno ? errno : ENOSPC;
    if (close(fd) != 0 && !err)
        err = errno;
    if (!err && rename(temporary, path) != 0)
        err = errno;
    if (err) {
        unlink(temporary);
        return tt_fail_errno(err, "rendezvous: cannot write %s", path);
    }
    return TUTTI_OK;
}

/* Removes the file if it is still ours: a later run may have replaced it. */
static void remove_file(struct meet *m)
{
    const tutti_id ours = m->id;

    if (!m->published)
        return;
    m->published = false;
    if (read_file(m) && memcmp(&m->id, &ours, sizeof ours) == 0)
        unlink(m->path);
}

/* ---- server (rank 0) ---- */

static tutti_status begin_serving(struct meet *m, int listener)
{
    const struct tt_serve_conf conf = { .listener = listener,
                                        .token = m->token,
                                        .nranks = m->launch->nranks,
                                        .began_ns = m->began_ns,
                                        .deadline_ns = m->deadline_ns };
    const tutti_status st = tt_serve_open(&m->serve, &conf);

    if (st)
        close(listener);
    return st;
}

static bool address_is_loopback(const struct tt_address *a)
{
    if (a->storage.ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)&a->storage)->sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)&a->storage)->sin6_addr);
}

static void end_lookup(struct meet *m)
{
    tt_lookup_end(m->lookup);
    m->lookup = NULL;
}

/* Resolves the address's name: starts a lookup, or takes its result. Returns false if there is no
 * result yet. An unknown name has no addresses, and m->why states that. */
static bool resolve_server_name(struct meet *m, uint64_t now_ns)
{
    struct addrinfo *found = NULL;
    const char *why = "out of memory";

    if (!m->lookup)
        m->lookup = tt_lookup_begin(m->at.host, m->at.port, 0, now_ns);
    if (m->lookup && !tt_lookup_step(m->lookup, now_ns))
        return false;
    m->naddresses = 0;
    if (!m->lookup || tt_lookup_take(m->lookup, &found, &why) != 0)
        snprintf(m->why, sizeof m->why, "%s", why);
    for (const struct addrinfo *i = found; i && m->naddresses < ADDRESSES_MAX; i = i->ai_next) {
        struct tt_address *a = &m->addresses[m->naddresses++];

        memcpy(&a->storage, i->ai_addr, i->ai_addrlen);
        a->bytes = i->ai_addrlen;
    }
    if (found)
        freeaddrinfo(found);
    end_lookup(m);
    return true;
}

/* Rank 0 logs at once why it is unreachable: the other ranks only see that no server responds. */
static void log_cannot_serve(struct meet *m, const char *why)
{
    if (strcmp(m->cannot, why) == 0)
        return;
    snprintf(m->cannot, sizeof m->cannot, "%s", why);
    tt_log(TT_LOG_WARN, "start-up: rank 0 cannot listen at %s (%s): %s", m->launch->rendezvous,
           rendezvous_source(m), m->cannot);
}

/* Tries to listen at the rendezvous address. A taken port is not an error, as its owner may be
 * serving. An address of another host may be translated to one of this host, which then listens on
 * all of its addresses. The same holds if the host's own name maps to loopback, to which other
 * hosts cannot connect. */
static tutti_status try_to_serve_tcp(struct meet *m)
{
    const char *host = m->at.host;
    const bool named_loopback =
        strcmp(host, "localhost") == 0 || strchr(host, ':') || url_has_prefix(host, "127.");
    uint16_t port;
    int fd;

    if (m->serve || m->naddresses == 0)
        return TUTTI_OK;
    if (address_is_loopback(&m->addresses[0]) && !named_loopback) {
        fd = tt_listen(NULL, m->serve_port, &port);
    } else {
        fd = tt_listen(&m->addresses[0], m->serve_port, &port);
        m->translated = fd < 0 && errno == EADDRNOTAVAIL;
        if (m->translated)
            fd = tt_listen(NULL, m->serve_port, &port);
    }
    m->translated &= fd >= 0;
    if (m->translated) {
        char why[2 * WHY_BYTES + 256];

        snprintf(
            why, sizeof why,
            "\"%s\" is not an address of this host; rank 0 listens on port %u of all addresses",
            host, m->serve_port);
        log_cannot_serve(m, why);
    }
    if (fd < 0 && errno == EADDRINUSE)
        snprintf(m->cannot, sizeof m->cannot,
                 "the port is in use, and its owner did not answer as a rendezvous server");
    if (fd < 0 && (errno == EADDRINUSE || errno == EADDRNOTAVAIL))
        return TUTTI_OK;
    if (fd < 0)
        return tt_fail_errno(errno, "rendezvous: cannot listen at %s", m->launch->rendezvous);
    return begin_serving(m, fd);
}

/* Listens at an arbitrary port, and writes its address to the file or the key. */
static tutti_status serve_published(struct meet *m)
{
    struct tt_endpoint endpoint;
    uint16_t port = 0;
    tutti_status st;
    const int fd = tt_listen(NULL, 0, &port);

    if (fd < 0)
        return tt_fail_errno(errno, "rendezvous: cannot listen");
    st = tt_endpoint_init(&endpoint, port, m->launch->interfaces);
    if (!st) {
        tt_id_init(&m->id, &endpoint);
        st = use_id(m);
    }
    if (st) {
        close(fd);
        return st;
    }
    st = begin_serving(m, fd);
    if (st)
        return st;
    if (m->where == AT_ETCD)
        return tt_etcd_key_publish(m->key, &m->id, m->deadline_ns);
    st = write_file(m->path, &m->id);
    m->published = !st;
    return st;
}

/* ---- member ---- */

/* Finds the first rank of this host in the server's gathering. */
static void find_holder(struct meet *m, const uint8_t gathering[TT_NONCE_BYTES])
{
    const struct tt_samehost_conf conf = { .token = m->token,
                                           .gathering = gathering,
                                           .host = m->launch->host,
                                           .rank = m->launch->rank,
                                           .nranks = m->launch->nranks,
                                           .deadline_ns = m->deadline_ns };

    if (m->knows_host && memcmp(m->gathering, gathering, sizeof m->gathering) == 0)
        return;
    tt_samehost_fini(&m->samehost);
    tt_samehost_find(&m->samehost, &conf);
    memcpy(m->gathering, gathering, sizeof m->gathering);
    m->knows_host = true;
}

/* Makes the ranks of this host that wait for this one try again. */
static void share_not_yet(struct meet *m)
{
    tt_host_share_not_yet(&m->share, m->why);
    m->shared_ns = tt_now_ns();
}

static void retry_later(struct meet *m)
{
    share_not_yet(m);
    m->retry_ns = tt_now_ns() + m->backoff_ns;
    m->backoff_ns = 2 * m->backoff_ns < RETRY_LAST_NS ? 2 * m->backoff_ns : RETRY_LAST_NS;
}

/* The connection failed: tries the next address at once, or all again after a growing pause. */
static void member_disconnect(struct meet *m, const char *why)
{
    snprintf(m->why, sizeof m->why, "%s", why);
    if (m->fd >= 0)
        close(m->fd);
    m->fd = -1;
    m->connected = false;
    tt_framer_fini(&m->in);
    m->next++;
    if (m->next >= m->naddresses)
        retry_later(m);
}

/* Reads the key, which may not exist yet, or be one of an earlier run. */
static tutti_status read_key(struct meet *m)
{
    const tutti_status st = tt_etcd_key_read(m->key, &m->id, m->deadline_ns, m->why);

    m->naddresses = 0;
    if (st)
        return st == TUTTI_ERR_TIMEOUT ? TUTTI_OK : st;
    return use_id(m);
}

/* Determines the addresses again before each round, as names and files may change. AT_TCP: the name
 * has just been resolved. */
static tutti_status find_server(struct meet *m)
{
    const struct tt_endpoint self = { .port = m->serve_port };

    m->next = 0;
    if (m->where == AT_FILE && m->launch->rank != 0 && !read_file(m))
        m->naddresses = 0;
    if (m->where == AT_ETCD && m->launch->rank != 0)
        return read_key(m);
    if (m->where != AT_TCP)
        return TUTTI_OK;
    if (m->launch->rank != 0)
        return TUTTI_OK;
    if (m->naddresses == 0) {
        char why[2 * WHY_BYTES + 256];

        snprintf(why, sizeof why, "this host cannot resolve the name \"%s\": %s", m->at.host,
                 m->why);
        log_cannot_serve(m, why);
    } else if (!m->translated) {
        m->cannot[0] = '\0';
    }
    if (m->translated && tt_serve_ncame(m->serve) > 0) {    /* other ranks reach us at an address
                                                               that this host cannot use */
        m->naddresses = tt_endpoint_candidates(&self, &self, m->addresses);
        return TUTTI_OK;
    }
    return try_to_serve_tcp(m);
}

/* This process is the server: connects without the network, as loopback may be down. */
static void connect_to_own_server(struct meet *m)
{
    m->fd = tt_serve_connect(m->serve);
    if (m->fd < 0)
        member_disconnect(m, strerror(errno));
    else
        m->connected = true;
}

/* Starts to connect to the next address. */
static void connect_to_server(struct meet *m, uint64_t now_ns)
{
    m->attempt_ns = now_ns;
    tt_framer_init(&m->in, CHALLENGE_BYTES_MAX);
    if (m->serve && !m->translated) {
        connect_to_own_server(m);
        return;
    }
    m->fd = tt_connect_begin(&m->addresses[m->next]);
    if (m->fd < 0)
        member_disconnect(m, strerror(errno));
}

static void member_connected(struct meet *m)
{
    const int err = tt_connect_result(m->fd);

    if (err)
        member_disconnect(m, strerror(err));
    else
        m->connected = true;
}

/* ---- the node in the tree ---- */

/* Returns whether the overlay connects by doubling (overlay.c). This takes log2(nranks) round trips
 * in sequence. */
static bool doubles(const struct meet *m)
{
    return m->offer->overlay_doubling && m->launch->nranks > RANKS_WITHOUT_DOUBLING;
}

/* Sets the address of this rank for its neighbours: that of its overlay. */
static void set_tree_address(const struct meet *m, struct tt_tree_conf *tree)
{
    struct tt_writer w;

    tt_writer_init(&w, tree->address.data, sizeof tree->address.data);
    tt_endpoint_write(&w, &m->own);
    tt_assert(!w.bad);
    tree->address.bytes = (uint8_t)tt_writer_bytes(&w);
}

/* Opens the listener of a leader to which the root can redirect other leaders, in large jobs.
 * Without a listener, this rank is no server. Neither is the process of the root, which has enough
 * data to send. */
static int open_server(struct meet *m, struct tt_tree_conf *tree)
{
    uint16_t port;
    int fd;

    if (m->launch->nranks <= TT_TREE_CHILDREN_TABLE || m->launch->nranks == m->launch->nlocal ||
        m->samehost.holder != m->launch->rank || m->serve)
        return -1;
    fd = tt_listen(NULL, 0, &port);
    if (fd < 0)
        return -1;
    set_tree_address(m, tree);
    tree->serve_port = port;
    return fd;
}

static struct tt_tree_conf tree_conf(const struct meet *m)
{
    struct tt_tree_conf tree = { .token = m->token,
                                 .rank = m->launch->rank,
                                 .nranks = m->launch->nranks,
                                 .leader = m->samehost.holder,
                                 .nlocal = m->launch->nlocal,
                                 .children_max = TT_TREE_CHILDREN_TABLE,
                                 .process = m->process,
                                 .place = m->offer->place,
                                 .place_bytes = (uint8_t)m->offer->place_bytes,
                                 .card = m->card,
                                 .card_bytes = m->card_bytes,
                                 .settings = m->offer->settings,
                                 .refuses = m->offer->refuses,
                                 .cause = m->offer->cause,
                                 .token_is_final = true,
                                 .began_ns = m->began_ns,
                                 .deadline_ns = m->deadline_ns };

    if (m->launch->rank == 0) {
        tree.constants = m->offer->constants;
        tree.constants_bytes = (uint16_t)m->offer->constants_bytes;
    }
    if (doubles(m))
        set_tree_address(m, &tree);
    memcpy(tree.gathering, m->gathering, sizeof tree.gathering);
    return tree;
}

/* Enters the tree, once the id of the server's gathering is available. A leader keeps the
 * connection over which it received the challenge; other ranks may have neither (-1, NULL). */
static tutti_status node_begin(struct meet *m, const struct tt_frame *challenge)
{
    struct tt_tree_node_conf conf = { .tree = tree_conf(m),
                                      .local = -1,
                                      .up = -1,
                                      .own = &m->own,
                                      .root = m->addresses,
                                      .nroot = m->naddresses };
    struct sockaddr_un leader;
    tutti_status st;

    conf.listener = open_server(m, &conf.tree);
    if (m->samehost.holder == m->launch->rank) {
        conf.up = m->fd;
        conf.challenge = challenge;
        if (m->samehost.listener >= 0)
            conf.local = fcntl(m->samehost.listener, F_DUPFD_CLOEXEC, 0);
    } else {
        if (m->fd >= 0)
            close(m->fd);
        conf.leader_bytes = tt_samehost_address(&m->samehost, &leader);
        conf.leader = &leader;
    }
    m->fd = -1;
    m->connected = false;
    st = tt_tree_node_open(&m->node, &conf);
    if (st && conf.listener >= 0)
        close(conf.listener);
    tt_framer_fini(&m->in);
    return st;
}

static int key_fd(void *arg)
{
    const struct meet *m = arg;

    return tt_etcd_key_fd(m->key);
}

static void serve_key(void *arg)
{
    struct meet *m = arg;

    tt_etcd_key_serve(m->key, m->deadline_ns);
}

/* Gets the id of the gathering from the first rank of this host, and enters the tree with it.
 * Returns whether this rank has to connect to the server itself: the first rank does not respond,
 * or this one is the leader. */
static bool ask_first_rank(struct meet *m, tutti_status *st)
{
    /* the first rank may wait for this one, to read the key */
    const struct tt_share_meanwhile meanwhile = { .fd = key_fd, .serve = serve_key, .arg = m };
    uint8_t gathering[TT_NONCE_BYTES];

    switch (tt_host_share_ask(&m->share, m->deadline_ns, gathering, sizeof gathering, m->why,
                              m->key ? &meanwhile : NULL)) {
    case TT_SHARE_FOUND:
        find_holder(m, gathering);
        if (m->samehost.holder == m->launch->rank)
            break;
        *st = node_begin(m, NULL);
        return false;
    case TT_SHARE_NOT_YET:
        if (m->where != AT_TCP)
            m->next = m->naddresses;    /* the file or key may have changed; a name is looked up
                                           again only when its addresses have failed */
        m->backoff_ns = RETRY_FIRST_NS;     /* the first rank already paused */
        retry_later(m);
        return false;
    case TT_SHARE_ALONE:
        break;
    }
    return true;
}

static tutti_status member_connect(struct meet *m, uint64_t now_ns)
{
    tutti_status st = TUTTI_OK;

    if (m->next >= m->naddresses && (m->where != AT_TCP || resolve_server_name(m, now_ns)))
        st = find_server(m);
    else if (m->next >= m->naddresses)
        m->next = 0;        /* no result yet: use the addresses of the previous one, if any */
    if (st || (m->naddresses == 0 && m->lookup))
        return st;
    if (m->naddresses == 0 && (!m->serve || m->translated)) {
        retry_later(m);
        return TUTTI_OK;
    }
    m->attempts++;
    if (m->launch->rank == 0 || tt_host_share_is_first(&m->share) || ask_first_rank(m, &st))
        connect_to_server(m, tt_now_ns());
    return st;
}

/* Sends the id of the gathering to the ranks of this host that wait for it. The id is valid as long
 * as this rank waits in the gathering. Later ranks belong to another start-up. */
static void share_gathering(struct meet *m)
{
    const bool waits =
        tt_tree_node_tree(m->node)->state == TT_TREE_GATHERING && !tt_tree_node_lost(m->node);

    tt_host_share_answer(&m->share, waits ? TT_SHARE_FOUND : TT_SHARE_ALONE, m->gathering,
                         sizeof m->gathering);
}

/* Leaves the tree; the next attempt starts at the server. */
static void node_end(struct meet *m, const char *why)
{
    snprintf(m->why, sizeof m->why, "%s", why);
    tt_tree_node_close(m->node);
    m->node = NULL;
    m->accepted = false;
    m->next = m->naddresses;        /* files and names may have changed */
    retry_later(m);
}

/* Reads the server's first frame, with the id of its gathering. */
static tutti_status member_take_challenge(struct meet *m, const struct tt_frame *f)
{
    uint8_t nonce[TT_NONCE_BYTES], gathering[TT_NONCE_BYTES];
    struct tt_reader r;
    uint16_t version;

    tt_reader_init(&r, f->body, f->bytes);
    version = tt_read_u16(&r);
    tt_read_bytes(&r, nonce, sizeof nonce);
    if (f->type == CHALLENGE && !r.bad && version != TT_TREE_VERSION)
        return tt_fail(TUTTI_ERR_PROTOCOL,
                       "start-up of rank %u: rendezvous protocol mismatch: the server has version "
                       "%u, this rank has version %u",
                       m->launch->rank, version, TT_TREE_VERSION);
    tt_read_bytes(&r, gathering, sizeof gathering);
    if (f->type != CHALLENGE || r.bad) {
        member_disconnect(m, "protocol error: not a rendezvous server");
        return TUTTI_OK;
    }
    find_holder(m, gathering);
    return node_begin(m, f);
}

static tutti_status member_receive(struct meet *m)
{
    struct tt_frame f;
    size_t room;
    uint8_t *at = tt_framer_space(&m->in, &room);
    const ssize_t n = at ? recv(m->fd, at, room, 0) : 0;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return TUTTI_OK;
    if (n <= 0) {
        member_disconnect(m, n < 0 ? strerror(errno) : "connection closed by the server");
        return TUTTI_OK;
    }
    tt_framer_added(&m->in, (size_t)n);
    if (tt_framer_next(&m->in, &f))
        return member_take_challenge(m, &f);
    if (m->in.bad)
        member_disconnect(m, "protocol error: not a rendezvous server");
    return TUTTI_OK;
}

static tutti_status member_check_connection(struct meet *m, short revents, uint64_t now_ns)
{
    if (m->fd < 0)
        return TUTTI_OK;
    if (m->connected && revents)
        return member_receive(m);
    if (!m->connected && revents)
        member_connected(m);
    else if (!m->connected && now_ns - m->attempt_ns > CONNECT_NS)
        member_disconnect(m, strerror(ETIMEDOUT));
    else if (m->connected && now_ns - m->attempt_ns > CHALLENGE_NS)
        member_disconnect(m, "no message from the server after connecting");
    return TUTTI_OK;
}

/* ---- event loop ---- */

static int poll_ms(uint64_t now_ns, uint64_t wake_ns)
{
    const uint64_t ms = wake_ns > now_ns ? (wake_ns - now_ns + TT_MS - 1) / TT_MS : 0;

    return ms < 100 ? (int)ms : 100;
}

/* Returns whether the next connection attempt needs the lookup's result. If not, the lookup's
 * descriptor must not be polled: it may stay readable until that attempt, and poll would return at
 * once. */
static bool awaits_lookup(const struct meet *m)
{
    return m->fd < 0 && !m->node && m->lookup && m->naddresses == 0;
}

/* Waits for the descriptors of the connection, the node, the server, the overlay, the lookup, and
 * the ranks that wait for this one, if they exist. Makes progress of all but the overlay. */
static tutti_status rendezvous_poll(struct meet *m, int other_fd, uint64_t wake_ns)
{
    tutti_status st;
    struct pollfd p[7] = {
        { .fd = m->fd, .events = m->connected ? POLLIN : POLLOUT },
        { .fd = m->serve ? tt_serve_fd(m->serve) : -1, .events = POLLIN },
        { .fd = other_fd, .events = POLLIN },
        { .fd = awaits_lookup(m) ? tt_lookup_fd(m->lookup) : -1, .events = POLLIN },
        { .fd = m->node ? tt_tree_node_fd(m->node) : -1, .events = POLLIN },
        { .fd = tt_etcd_key_fd(m->key), .events = POLLIN },
        { .fd = m->node ? m->share.listener : -1, .events = POLLIN },
    };

    if (m->serve && tt_serve_wake_ns(m->serve) < wake_ns)
        wake_ns = tt_serve_wake_ns(m->serve);
    if (m->node && tt_tree_node_wake_ns(m->node) < wake_ns)
        wake_ns = tt_tree_node_wake_ns(m->node);
    poll(p, 7, poll_ms(tt_now_ns(), wake_ns));
    if (p[5].revents)
        tt_etcd_key_serve(m->key, m->deadline_ns);
    if (p[6].revents)
        share_gathering(m);
    else if (!m->node && tt_now_ns() - m->shared_ns >= SHARE_NS)
        share_not_yet(m);
    st = member_check_connection(m, p[0].revents, tt_now_ns());
    if (m->node)
        tt_tree_node_step(m->node, tt_now_ns());
    if (m->serve)
        tt_serve_step(m->serve, tt_now_ns());
    return st;
}

/* Returns whether this rank waits for its leader, which has lost the server or does not respond. */
static bool awaits_leader(const struct meet *m)
{
    return m->node && !m->accepted && tt_tree_node_tree(m->node)->where == TT_TREE_TO_LEADER;
}

/* No server responded: the error contains the address, the time and the last cause. */
static tutti_status fail_unreached(const struct meet *m)
{
    const double waited_s = (double)(tt_now_ns() - m->began_ns) / 1e9;
    const char *where = m->launch->rendezvous,
               *from = m->where == AT_ID ? "" : m->launch->rendezvous_from;
    const char *why = *m->why ? m->why : "no answer";
    char address[TT_ADDRESS_TEXT_BYTES] = "";

    if (m->where == AT_ID && m->naddresses > 0) {
        tt_address_text(&m->addresses[0], address);
        where = address;
    }
    if (m->accepted)
        return tt_fail(TUTTI_ERR_TIMEOUT,
                       "rank %u: no answer from the rendezvous server at %s: this rank was "
                       "accepted, but start-up did not complete within %.1f s",
                       m->launch->rank, where, waited_s);
    if (awaits_leader(m))
        return tt_fail(
            TUTTI_ERR_TIMEOUT,
            "rank %u: no result from the rendezvous server at %s within %.1f s: rank %u, "
            "the first rank of this host, is not connected to it, or does not respond",
            m->launch->rank, where, waited_s, m->samehost.holder);
    if (m->lookup && m->naddresses == 0 && !*m->cannot)
        return tt_fail(TUTTI_ERR_TIMEOUT,
                       "rank %u: %s is \"%s\": the lookup of the name \"%s\" timed out after %.1f "
                       "s (check the DNS servers, or set an IP address)",
                       m->launch->rank, rendezvous_source(m), where, m->at.host, waited_s);
    if (*m->cannot)
        return tt_fail(TUTTI_ERR_TIMEOUT,
                       "rank 0 cannot listen at %s (%s), and no rank connected within %.1f s: %s",
                       where, rendezvous_source(m), waited_s, m->cannot);
    if (m->where == AT_ID)
        return tt_fail(TUTTI_ERR_TIMEOUT,
                       "rank %u: no rendezvous server at %s (the address in the id) within %.1f s "
                       "(%u attempts, last error: %s)",
                       m->launch->rank, where, waited_s, m->attempts, why);
    return tt_fail(TUTTI_ERR_TIMEOUT,
                   "rank %u: rank 0 is missing: no rendezvous server at %s%s%s%s, where rank 0 "
                   "listens, within %.1f s (%u "
                   "attempts, last error: %s); only rank 0 can report other missing ranks",
                   m->launch->rank, where, *from ? " (" : "", from, *from ? ")" : "", waited_s,
                   m->attempts, why);
}

/* Checks the node's state: sets *done if it has the table, or returns its error. Retries if the
 * server was lost, or if it has another token (the file may be of an earlier run). */
static tutti_status node_check(struct meet *m, bool *done)
{
    const struct tt_tree *t = tt_tree_node_tree(m->node);
    const char *sentence = t->sentence ? t->sentence : "out of memory";

    if (t->state == TT_TREE_GATHERING)
        m->accepted = tt_tree_is_joined(t);
    *done = t->state == TT_TREE_PLACED && t->place.table;
    if (*done)
        return TUTTI_OK;
    if (t->state == TT_TREE_PLACED)
        return tt_fail(TUTTI_ERR_PROTOCOL, "start-up of rank %u: %s", m->launch->rank,
                       tt_tree_node_lost(m->node) ? tt_tree_node_lost(m->node)
                                                  : "protocol error: no table of address records");
    if (t->state == TT_TREE_FAILED && t->token_rejected &&
        (m->where == AT_FILE || m->where == AT_ETCD))
        node_end(m, sentence);
    else if (t->state == TT_TREE_FAILED && t->job_failed && !t->unreached && m->offer->refuses)
        return m->offer->refuses;       /* all ranks have the cause */
    else if (t->state == TT_TREE_FAILED && t->unreached)
        return fail_unreached(m);
    else if (t->state == TT_TREE_FAILED)
        return tt_fail(t->status, "start-up of rank %u: %s", m->launch->rank, sentence);
    else if (tt_tree_node_lost(m->node))
        node_end(m, tt_tree_node_lost(m->node));
    return TUTTI_OK;
}

/* Connects repeatedly until there is a table, a final refusal, or the deadline. */
static tutti_status member_call(struct meet *m)
{
    tutti_status st = TUTTI_OK;
    bool done = false;

    while (!st) {
        const uint64_t now_ns = tt_now_ns();
        uint64_t wake_ns;

        if (m->node)
            st = node_check(m, &done);
        if (st || done)
            break;
        if (!m->node && now_ns >= m->deadline_ns)
            return fail_unreached(m);
        if (m->fd < 0 && !m->node && now_ns >= m->retry_ns)
            st = member_connect(m, now_ns);
        if (st)
            break;
        wake_ns = m->fd >= 0 || m->node ? TT_NEVER
                  : awaits_lookup(m)    ? tt_lookup_wake_ns(m->lookup)
                                        : m->retry_ns;
        st = rendezvous_poll(m, -1, m->node || wake_ns < m->deadline_ns ? wake_ns : m->deadline_ns);
    }
    return st;
}

/* Notifies the joined ranks after rank 0 has failed. */
static void serve_on(struct meet *m)
{
    const uint64_t give_up_ns = tt_now_ns() + SERVE_ON_NS;

    while (m->serve && tt_serve_ncame(m->serve) > 0 && !tt_serve_is_done(m->serve) &&
           tt_now_ns() < give_up_ns)
        (void)rendezvous_poll(m, -1, tt_now_ns() + 100 * TT_MS);
}

/* ---- the table ---- */

void tt_table_fini(struct tt_table *table)
{
    tt_record_store_fini(&table->records);
    free(table->layout);
    free(table->constants);
    table->layout = NULL;
    table->constants = NULL;
}

/* Copies data[bytes] to *out, malloc'd; what: for the error. */
static tutti_status table_copy(uint8_t **out, size_t *out_bytes, const void *data, size_t bytes,
                               const char *what)
{
    *out = malloc(bytes ? bytes : 1);
    if (!*out)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for %s", what);
    if (bytes)
        memcpy(*out, data, bytes);
    *out_bytes = bytes;
    return TUTTI_OK;
}

static tutti_status table_set_constants(struct tt_table *t, const void *constants, size_t bytes)
{
    return table_copy(&t->constants, &t->constants_bytes, constants, bytes,
                      "the settings of rank 0");
}

/* Writes the record of this rank: the endpoint of its overlay, and its card. Returns its size. */
static uint16_t write_record(uint8_t record[TT_TREE_CARD_MAX], const struct tt_endpoint *own,
                             const struct tt_boot_offer *offer)
{
    struct tt_writer w;

    tt_writer_init(&w, record, TT_TREE_CARD_MAX);
    tt_endpoint_write(&w, own);
    tt_write_bytes(&w, offer->card, offer->card_bytes);
    tt_assert(!w.bad);
    return (uint16_t)tt_writer_bytes(&w);
}

/* Returns the size of the card in a record; SIZE_MAX if the record is invalid. */
static size_t read_record(const struct tt_record_entry *entry, struct tt_endpoint *endpoint,
                          const uint8_t **card)
{
    struct tt_reader r;
    size_t rest;

    tt_reader_init(&r, entry->record, entry->bytes);
    tt_endpoint_read(&r, endpoint);
    rest = (size_t)(r.end - r.at);
    *card = r.at;
    return r.bad || rest > TT_CARD_BYTES ? SIZE_MAX : rest;
}

size_t tt_boot_card(struct tt_record_store *records, uint32_t rank, const uint8_t **card,
                    uint32_t *holder)
{
    const struct tt_record_entry *entry = tt_record_store_get(records, rank);
    struct tt_endpoint endpoint;
    size_t bytes;

    tt_assert(entry);
    bytes = read_record(entry, &endpoint, card);
    tt_assert(bytes != SIZE_MAX);       /* checked at start-up */
    *holder = entry->holder;
    return bytes;
}

/* The neighbours of this rank in the overlay, and their endpoints from the table. */
struct neighbours {
    uint64_t own_host;
    uint32_t n, ranks[TT_FLOOD_LINKS_MAX];
    struct tt_endpoint endpoints[TT_FLOOD_LINKS_MAX];
    struct tt_tree_address before, after;       /* from the place in the tree */
};

static void set_neighbour(struct neighbours *k, uint32_t rank, const struct tt_endpoint *endpoint)
{
    for (uint32_t i = 0; i < k->n; i++)
        if (k->ranks[i] == rank)
            k->endpoints[i] = *endpoint;
}

/* Sets *out to the endpoint of a neighbour: that at the start of its record or, if that is invalid,
 * that of the table. The table also determines whether the neighbour is on this host. */
static void neighbour_endpoint(void *arg, uint32_t peer, const void *record, size_t bytes,
                               struct tt_endpoint *out)
{
    const struct neighbours *k = arg;
    struct tt_endpoint endpoint;
    struct tt_reader r;
    uint32_t i = 0;

    while (k->ranks[i] != peer)
        i++;
    *out = k->endpoints[i];
    tt_reader_init(&r, record, bytes);
    tt_endpoint_read(&r, &endpoint);
    if (r.bad)
        return;
    endpoint.host = out->host;
    if (endpoint.host != k->own_host)
        tt_endpoint_without_loopback(&endpoint);
    *out = endpoint;
}

/* Moves the records out of the node, which has checked the format of the table. */
static tutti_status table_take_records(struct meet *m, struct tt_table *t)
{
    size_t bytes;
    bool shared;
    void *table = tt_tree_node_take_table(m->node, &bytes, &shared);

    return table ? tt_record_store_use(&t->records, t->nranks, table, bytes, shared)
                 : tt_fail(TUTTI_ERR_NOMEM, "out of memory for the address records of %u ranks",
                           t->nranks);
}

/* Checks all records, and sets the endpoints of the neighbours. */
static tutti_status table_read_records(struct meet *m, struct tt_table *t, struct neighbours *k)
{
    k->own_host = m->own.host;
    k->n = tt_flood_neighbours(t->rank, t->nranks, k->ranks);
    for (uint32_t r = 0; r < t->nranks; r++) {
        const struct tt_record_entry *entry = tt_record_store_get(&t->records, r);
        struct tt_endpoint endpoint;
        const uint8_t *card;

        if (read_record(entry, &endpoint, &card) == SIZE_MAX)
            return tt_fail(TUTTI_ERR_PROTOCOL,
                           "start-up: protocol error: invalid address record of rank %u", r);
        /* a common host is proven by equal holders, but not by equal hashes */
        endpoint.host = m->own.host + (entry->holder != m->samehost.holder);
        if (endpoint.host != m->own.host)
            tt_endpoint_without_loopback(&endpoint);
        set_neighbour(k, r, &endpoint);
    }
    return TUTTI_OK;
}

/* Fills *t from the place of this rank in the tree. The caller releases it, also on failure. */
static tutti_status table_fill(struct meet *m, struct tt_table *t, struct neighbours *k)
{
    const struct tt_tree_place *place = &tt_tree_node_tree(m->node)->place;
    tutti_status st;

    *t = (struct tt_table){ .rank = m->launch->rank, .nranks = m->launch->nranks };
    memcpy(t->secret, place->secret, sizeof t->secret);
    k->before = place->before;
    k->after = place->after;
    st = table_take_records(m, t);
    if (!st)
        st = table_read_records(m, t, k);
    if (!st)
        st = table_set_constants(t, place->constants, place->constants_bytes);
    if (!st)
        st = table_copy(&t->layout, &t->layout_bytes, place->layout, place->layout_bytes,
                        "the layout of the job");
    return st;
}

/* Serves until all ranks below have the table, then frees the descriptors of the tree, of which the
 * overlay may need some. The node drops ranks that do not read the table in 10 s. */
static void leave_tree(struct meet *m)
{
    while (!tt_tree_node_is_done(m->node))
        (void)rendezvous_poll(m, -1, tt_now_ns() + 100 * TT_MS);
    tt_tree_node_close(m->node);
    m->node = NULL;
    tt_host_share_fini(&m->share);
    tt_samehost_fini(&m->samehost);
}

/* Waits until each neighbour is connected or lost, and all ranks have the table from this
 * server. */
static tutti_status overlay_settle_and_serve(struct meet *m, struct tt_overlay *o)
{
    for (;;) {
        const tutti_status st = tt_overlay_settle(o, tt_now_ns() >= m->deadline_ns);

        if (st || (tt_overlay_is_settled(o) && (!m->serve || tt_serve_is_done(m->serve))))
            return st;
        (void)rendezvous_poll(m, tt_overlay_is_settled(o) ? -1 : tt_overlay_fd(o),
                              tt_now_ns() + 100 * TT_MS);
    }
}

static void set_ring_neighbour(struct tt_overlay *o, struct neighbours *k, uint32_t peer,
                               const struct tt_tree_address *address)
{
    struct tt_endpoint endpoint;

    neighbour_endpoint(k, peer, address->data, address->bytes, &endpoint);
    tt_overlay_neighbour(o, peer, &endpoint);
}

static tutti_status open_overlay(struct meet *m, const struct tt_table *t, struct neighbours *k,
                                 struct tt_overlay **out)
{
    const uint64_t now_ns = tt_now_ns(),
                   left_ns = m->deadline_ns > now_ns ? m->deadline_ns - now_ns : 0;
    const struct tt_overlay_conf conf = {
        .rank = t->rank,
        .nranks = t->nranks,
        .secret = t->secret,
        .listener = m->overlay_listener,
        .near = m->overlay_near,
        .own = &m->own,
        .record = doubles(m) ? m->card : NULL,
        .record_bytes = m->card_bytes,
        .records_until_ns = now_ns + (left_ns / 4 < RECORDS_NS ? left_ns / 4 : RECORDS_NS),
        .endpoint = neighbour_endpoint,
        .arg = k,
    };
    const tutti_status st = tt_overlay_open(out, &conf);

    if (st)
        return st;
    m->overlay_listener = m->overlay_near = -1;
    for (uint32_t i = 0; !conf.record && i < k->n; i++)
        tt_overlay_neighbour(*out, k->ranks[i], &k->endpoints[i]);
    if (conf.record) {
        set_ring_neighbour(*out, k, (t->rank + t->nranks - 1) % t->nranks, &k->before);
        set_ring_neighbour(*out, k, (t->rank + 1) % t->nranks, &k->after);
    }
    return TUTTI_OK;
}

/* ---- complete rendezvous ---- */

/* A single rank needs no rendezvous. */
static tutti_status rendezvous_single(const struct tt_boot_offer *offer, struct tt_table *table,
                                      struct tt_overlay **overlay)
{
    static const struct tt_endpoint nowhere;
    struct tt_overlay_conf conf = { .nranks = 1, .listener = -1, .near = -1, .own = &nowhere };
    struct tt_table t = { .nranks = 1 };
    uint8_t record[TT_TREE_CARD_MAX];
    tutti_status st;

    tt_random_bytes(t.secret, sizeof t.secret);
    conf.secret = t.secret;
    st = tt_record_store_init(&t.records, 1);
    if (!st)
        st = tt_record_store_add(&t.records, 0, record, write_record(record, &nowhere, offer));
    if (!st)
        st = table_set_constants(&t, offer->constants, offer->constants_bytes);
    if (!st)
        st = tt_overlay_open(overlay, &conf);
    if (st) {
        tt_table_fini(&t);
        return st;
    }
    *table = t;
    return TUTTI_OK;
}

/* Opens the overlay's listener, and determines the rendezvous address. */
static tutti_status rendezvous_prepare(struct meet *m, struct tt_launch *launch)
{
    uint16_t port = 0;
    tutti_status st;

    m->overlay_listener = tt_listen(NULL, 0, &port);
    if (m->overlay_listener < 0)
        return tt_fail_errno(errno, "overlay: cannot listen");
    /* opened early: neighbours may connect before the overlay exists */
    m->overlay_near = tt_near_listen(m->overlay_listener);
    st = tt_endpoint_init(&m->own, port, launch->interfaces);
    if (st)
        return st;
    if (!*launch->rendezvous) {
        st = tt_kv_rendezvous(launch, &m->listener, &m->deadline_ns);
        if (st)
            return st;
    }
    tt_random_bytes(&m->process, sizeof m->process);
    snprintf(m->token, sizeof m->token, "%s", launch->token);
    m->card_bytes = write_record(m->card, &m->own, m->offer);
    return parse_where(m, launch->rendezvous);
}

/* Starts the server, at an arbitrary port, if only this rank can serve. With tcp://, each
 * connection attempt tries to start it instead. */
static tutti_status serve_if_mine(struct meet *m)
{
    tutti_status st;

    if (m->listener >= 0) {
        st = begin_serving(m, m->listener);
        m->listener = -1;
        return st;
    }
    if ((m->where == AT_FILE || m->where == AT_ETCD) && m->launch->rank == 0)
        return serve_published(m);
    return TUTTI_OK;
}

static tutti_status rendezvous_run(struct meet *m, struct tt_table *table,
                                   struct tt_overlay **overlay)
{
    struct tt_overlay *o = NULL;
    struct neighbours k;
    struct tt_table t;
    tutti_status st;

    st = serve_if_mine(m);
    if (!st)
        st = member_call(m);
    end_lookup(m);
    if (st)
        return st;
    if (m->serve && tt_serve_ncame(m->serve) == 0) {   /* another process served */
        tt_serve_close(m->serve);
        m->serve = NULL;
    }
    st = table_fill(m, &t, &k);
    if (!st) {
        leave_tree(m);
        st = open_overlay(m, &t, &k, &o);
    }
    if (!st)
        st = overlay_settle_and_serve(m, o);
    if (st) {
        tt_overlay_close(o);
        tt_table_fini(&t);
        return st;
    }
    *table = t;
    *overlay = o;
    return TUTTI_OK;
}

tutti_status tt_boot_rendezvous(const struct tt_launch *launch, const struct tt_boot_offer *offer,
                                uint64_t deadline_ns, struct tt_table *table,
                                struct tt_overlay **overlay)
{
    struct tt_launch l = *launch;
    struct meet m = { .launch = &l,
                      .offer = offer,
                      .began_ns = tt_now_ns(),
                      .deadline_ns = deadline_ns,
                      .overlay_listener = -1,
                      .overlay_near = -1,
                      .listener = -1,
                      .share = { .listener = -1 },
                      .fd = -1,
                      .backoff_ns = RETRY_FIRST_NS };
    tutti_status st;

    tt_assert(offer->card_bytes <= TT_CARD_BYTES);
    tt_assert(offer->place_bytes <= TT_BOOT_PLACE_BYTES);
    tt_assert(offer->constants_bytes <= TT_BOOT_CONSTANTS_BYTES);
    tt_samehost_init(&m.samehost);
    /* the server of an id waits even for a single rank */
    if (launch->nranks == 1 && !url_has_prefix(launch->rendezvous, "id:"))
        return rendezvous_single(offer, table, overlay);

    st = rendezvous_prepare(&m, &l);
    if (!st)
        st = rendezvous_run(&m, table, overlay);
    if (st && m.deadline_ns != deadline_ns)
        tt_kv_reset();
    if (st)
        serve_on(&m);

    remove_file(&m);
    tt_etcd_key_close(m.key);
    tt_tree_node_close(m.node);
    tt_host_share_fini(&m.share);
    tt_samehost_fini(&m.samehost);
    tt_serve_close(m.serve);
    tt_framer_fini(&m.in);
    if (m.fd >= 0)
        close(m.fd);
    if (m.listener >= 0)
        close(m.listener);
    if (m.overlay_listener >= 0)
        close(m.overlay_listener);
    if (m.overlay_near >= 0)
        close(m.overlay_near);
    return st;
}
