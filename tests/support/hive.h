/* Many members of an elastic run in one thread, at minimal cost. Each is a real struct tt_member
 * with a real connection to a coordinator. Members can always reach each other: their messages are
 * passed by function calls, without sockets. */
#ifndef TESTS_SUPPORT_HIVE_H
#define TESTS_SUPPORT_HIVE_H

#include "elastic/member.h"
#include "secure/channel.h"

struct hive;

struct light {
    struct hive *hive;
    struct tt_member m;
    struct tt_channel *channel;     /* NULL: not connected */
    bool started, connecting;
    bool deaf;                      /* alive, but reads nothing and its time does not advance, like
                                       a stopped process */
    bool unreachable;               /* the others report it as unreachable */
    uint32_t watched;
    uint64_t connect_ns;            /* time of the next connection attempt; TT_NEVER: none */
    uint32_t address;               /* index into the hive's addresses, tried in turn */
    uint32_t connections;           /* connections made so far */
    uint32_t views, stops;          /* received so far */
    uint32_t calls;                 /* completed calls */
    uint8_t what;                   /* result of the last call: enum tt_round_status */
    uint64_t value;
    bool over;
    tutti_status status;
    char text[TT_ELASTIC_TEXT_BYTES];
    char why[128];                  /* reason for the end of its last connection */
};

struct hive {
    struct light *lights;           /* [n] */
    uint32_t n;
    int epoll;
    struct tt_secure *secure;
    const char *addresses[4];       /* of coordinators, "127.0.0.1:4711" */
    uint32_t naddresses;
    uint32_t nroles;
    struct tt_surroundings_seat *seats;          /* memory for the views of all members */
    uint8_t *scratch;
    char run[TT_ELASTIC_TEXT_BYTES];
};

/* Creates n members of a run, which have not started; light i is in group i / nroles with role i %
 * nroles. members_max: size of the largest view. Asserts success. shared: all members use the same
 * memory for views, which requires that all receive the same views; for very many members. */
struct hive *hive_create(const char *run, uint32_t n, uint32_t nroles, uint32_t members_max,
                         bool shared, const struct tt_secure_conf *secure);
/* Closes all connections, as if the process was killed. */
void hive_destroy(struct hive *h);
/* Adds another coordinator's address; keeps the pointer. */
void hive_add_address(struct hive *h, const char *address);
/* Light i starts to connect as a new member; hive_turn makes the connection. */
void hive_start(struct hive *h, uint32_t i);
/* Cuts the connection of light i. It reconnects automatically, or (forget) stays idle. */
void hive_cut(struct hive *h, uint32_t i, bool forget);
/* Light i makes a call, which must be allowed in its current state. */
void hive_call(struct hive *h, uint32_t i, const struct tt_elmsg *call);
/* Light i calls `epoch`, with at least `least` newcomers. */
void hive_epoch(struct hive *h, uint32_t i, uint32_t least);
/* All members start, call `epoch` for n, and enter one view. Returns false at the timeout. */
bool hive_gather(struct hive *h, int timeout_ms);
/* Waits for events for at most timeout_ms, and handles them. */
void hive_turn(struct hive *h, int timeout_ms);
/* Handles events until holds(h, what) is true. Returns false at the timeout. */
bool hive_until(struct hive *h, bool (*holds)(const struct hive *h, uint64_t what), uint64_t what,
                int timeout_ms);
/* Conditions for hive_until. */
bool hive_all_in_epoch(const struct hive *h, uint64_t epoch);   /* all that have started and have
                                                                 not ended */
bool hive_all_called(const struct hive *h, uint64_t calls);     /* each has completed at least
                                                               `calls` calls */
bool hive_all_welcome(const struct hive *h, uint64_t unused);
bool hive_light_over(const struct hive *h, uint64_t i);

#endif
