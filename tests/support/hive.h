/* Many members of an elastic run in one thread, as light as can be: each is a real struct tt_member over a real connection to a coordinator,
 * and nothing else. They reach each other always, and their messages to each other are given by hand, without a socket. */
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
    bool deaf;                      /* is alive, but reads nothing and its time does not go on: as when stopped */
    bool unreachable;               /* the others say that they did not reach it */
    uint32_t watched;
    uint64_t connect_ns;            /* when to connect; TT_NEVER */
    uint32_t address;               /* of the hive's, tried in turn */
    uint32_t connections;           /* made, so far */
    uint32_t views, stops;          /* heard of */
    uint32_t calls;                 /* done */
    uint8_t what;                   /* of the last one: enum tt_round_status */
    uint64_t value;
    bool over;
    tutti_status status;
    char text[TT_ELASTIC_TEXT_BYTES];
    char why[128];                  /* why its last connection ended */
};

struct hive {
    struct light *lights;           /* [n] */
    uint32_t n;
    int epoll;
    struct tt_secure *secure;
    const char *addresses[4];       /* of coordinators, "127.0.0.1:4711" */
    uint32_t naddresses;
    uint32_t nroles;
    struct tt_seat *seats;          /* all members' views */
    uint8_t *scratch;
    char run[TT_ELASTIC_TEXT_BYTES];
};

/* n members of run, none of which has begun; light i is of group i / nroles, role i % nroles. members_max: the largest view. Asserts that it
 * works. shared: all have one memory for views, which is good as long as all hear of the same ones: for very many. */
struct hive *hive_create(const char *run, uint32_t n, uint32_t nroles, uint32_t members_max, bool shared,
                         const struct tt_secure_conf *secure);
/* Their connections end as a kill would end them. */
void hive_destroy(struct hive *h);
/* Another coordinator's address; kept by the hive as a pointer. */
void hive_know(struct hive *h, const char *address);
/* Light i begins to connect, as a new member, once hive_turn is called. */
void hive_start(struct hive *h, uint32_t i);
/* Its connection ends; it comes back by itself, or (forget) does nothing any more. */
void hive_cut(struct hive *h, uint32_t i, bool forget);
/* A call, which must be possible now. */
void hive_call(struct hive *h, uint32_t i, const struct tt_elmsg *call);
/* `epoch` with newcomers, at least `least`, of light i. */
void hive_epoch(struct hive *h, uint32_t i, uint32_t least);
/* All begin, call `epoch` for n, and are in one view; false if that takes longer than timeout_ms. */
bool hive_gather(struct hive *h, int timeout_ms);
/* Waits for something and handles it, timeout_ms at most. */
void hive_turn(struct hive *h, int timeout_ms);
/* Turns until holds(h, what) or timeout_ms have passed; whether it does. */
bool hive_until(struct hive *h, bool (*holds)(const struct hive *h, uint64_t what), uint64_t what, int timeout_ms);
/* Good for it. */
bool hive_all_in_epoch(const struct hive *h, uint64_t epoch);   /* all that have begun and are not over */
bool hive_all_called(const struct hive *h, uint64_t calls);     /* have `calls` calls done, at least */
bool hive_all_welcome(const struct hive *h, uint64_t unused);
bool hive_light_over(const struct hive *h, uint64_t i);

#endif
