/* The rendezvous as two pure state machines, server and member. No socket, no clock: events and
 * time are inputs, actions go out through `emit`, and random numbers are arguments. A simulation
 * with a seed therefore replays any start-up.
 *
 *   member                                        server
 *     |  <------------------------------ CHALLENGE  |   version, a nonce, the gathering's id
 *     |  HELLO -----------------------------------> |   a nonce, a proof of the token, rank, card
 *     |                                   ...       |   until all ranks have joined
 *     |  <---------------------------------- TABLE  |   a proof, the job's secret (masked by the
 *     |                                             |   token), all cards
 *     |  <---------------------------- or REFUSED   |   a proof, a status, a message
 *
 * Each HELLO has the remaining time of its rank. At the earliest deadline the server sends the same
 * message to all members: how many joined, and which are missing. Proofs are HMAC-SHA256 with the
 * token over both nonces and the contents. Without a token they prove nothing, but still exclude
 * processes that connect by mistake. */
#ifndef TT_BOOT_RENDEZVOUS_H
#define TT_BOOT_RENDEZVOUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/bytes.h"
#include "boot/auth.h"
#include "boot/frame.h"
#include "tutti/tutti.h"

#define TT_RDV_VERSION 4
#define TT_RDV_CARD_BYTES 1408          /* the caller's card and boot's additions */
#define TT_RDV_HELLO_BYTES (TT_NONCE_BYTES + TT_MAC_BYTES + 26 + TT_RDV_CARD_BYTES)
#define TT_RDV_MESSAGE_BYTES 512
#define TT_RDV_REFUSAL_BYTES 128        /* maximum length of a refusal message */
#define TT_RDV_NO_TIMEOUT UINT32_MAX       /* left_ms of a rank without a timeout */
#define TT_SECRET_BYTES 16

enum tt_rdv_type { TT_RDV_CHALLENGE = 1, TT_RDV_HELLO, TT_RDV_TABLE, TT_RDV_REFUSED };

enum tt_rdv_event_kind {
    TT_RDV_EV_OPEN,         /* the connection exists; `nonce` is 16 random bytes */
    TT_RDV_EV_FRAME,
    TT_RDV_EV_CLOSED,       /* it ended, or its data is not a frame; conn is not used any more */
    TT_RDV_EV_TICK          /* time has passed; conn is NULL */
};

struct tt_rdv_event {
    uint8_t kind;
    struct tt_rdv_conn *conn;       /* server only */
    struct tt_frame frame;
    uint8_t nonce[TT_NONCE_BYTES];
};

/* ---- server ---- */

/* A connection of the server. The caller owns it, from OPEN until CLOSED or until it has carried
 * out TT_RDV_ACT_CLOSE. */
struct tt_rdv_conn {
    uint8_t stage;
    uint32_t rank;                  /* of a member */
    uint8_t server_nonce[TT_NONCE_BYTES], member_nonce[TT_NONCE_BYTES];
    uint64_t opened_ns;
};

enum tt_rdv_act_kind {
    TT_RDV_ACT_SEND,        /* the caller copies data[bytes] */
    TT_RDV_ACT_SEND_TABLE,  /* data[bytes] is valid as long as the server: many connections send
                               the same */
    TT_RDV_ACT_CLOSE        /* after everything before it is sent; conn gets no further event or
                               action */
};

struct tt_rdv_act {
    uint8_t kind;
    struct tt_rdv_conn *conn;
    const void *data;
    size_t bytes;
};

enum tt_rdv_server_state { TT_RDV_GATHERING, TT_RDV_COMPLETE, TT_RDV_EXPIRED };

struct tt_rdv_server {
    uint8_t state;
    char token[128];
    uint8_t secret[TT_SECRET_BYTES];
    uint32_t nranks;                /* 0 until the first member sets it */
    uint32_t ncame;
    struct tt_rdv_seat *seats;      /* [nranks] */
    uint64_t deadline_ns;           /* earliest deadline of the members */
    uint64_t began_ns;              /* start of that member's wait */
    uint8_t *table;                 /* body of TABLE after the proof, once complete */
    size_t table_bytes;
    uint32_t nrefused;              /* refusals during this gathering, and the reason of the last */
    char refusal[TT_RDV_REFUSAL_BYTES];
    void (*emit)(void *context, const struct tt_rdv_act *act);
    void *context;
};

/* nranks 0: set by the first member. deadline_ns is the server's own deadline (TT_NEVER: none),
 * with its wait since began_ns. Allocates only [nranks] entries, and a card for each authenticated
 * member. */
void tt_rdv_server_init(struct tt_rdv_server *s, const char *token,
                        const uint8_t secret[TT_SECRET_BYTES], uint32_t nranks, uint64_t began_ns,
                        uint64_t deadline_ns);
void tt_rdv_server_fini(struct tt_rdv_server *s);
void tt_rdv_server_step(struct tt_rdv_server *s, const struct tt_rdv_event *ev, uint64_t now_ns);
/* Returns whether members are waiting for others, including `rank`, in a gathering of nranks. */
bool tt_rdv_server_waits_for(const struct tt_rdv_server *s, uint32_t nranks, uint32_t rank);
/* Writes the missing ranks in the format of tt_rdv_name_ranks. */
void tt_rdv_server_name_missing(const struct tt_rdv_server *s, char *out, size_t cap);
/* Ends a gathering that cannot succeed: all members get the message, as PEER_LOST. */
void tt_rdv_server_give_up(struct tt_rdv_server *s, const char *sentence);
/* Returns whether this connection has been unauthenticated for `age_ns`: the caller may drop it,
 * and then passes CLOSED. */
bool tt_rdv_conn_is_unauthenticated(const struct tt_rdv_conn *c, uint64_t now_ns, uint64_t age_ns);

/* ---- member ---- */

enum tt_rdv_member_state {
    TT_RDV_DISCONNECTED,            /* no connection, or a failed one: retry until the deadline */
    TT_RDV_CONNECTED,         /* connected, waits for the challenge */
    TT_RDV_WAITING,         /* hello is sent */
    TT_RDV_HAVE_TABLE,      /* secret and cards are available */
    TT_RDV_MEMBER_REFUSED      /* the cause is in status and sentence */
};

struct tt_rdv_member {
    uint8_t state;
    bool final;             /* TURNED_AWAY permanently; otherwise (wrong token) a rendezvous that
                               may change is retried */
    char token[128];
    uint32_t rank, nranks;
    uint64_t process;       /* random: distinguishes a reconnecting rank from a second process
                               with the same rank */
    uint64_t began_ns, deadline_ns;
    uint8_t server_nonce[TT_NONCE_BYTES], member_nonce[TT_NONCE_BYTES];
    uint8_t card[TT_RDV_CARD_BYTES];
    uint16_t card_bytes;
    uint8_t secret[TT_SECRET_BYTES];
    struct tt_reader cards; /* HAVE_TABLE: [nranks] of u16 length and bytes, in the received
                               frame */
    tutti_status status;
    char sentence[TT_RDV_MESSAGE_BYTES];
    void (*emit)(void *context, const struct tt_rdv_act *act);
    /* May be NULL. Called before each HELLO; may change `card`. `gathering` is equal for all
     * members of one gathering, and unique. */
    void (*prepare)(void *context, const uint8_t gathering[TT_NONCE_BYTES]);
    void *context;
};

/* Initializes everything but `emit`, `prepare` and `context`, which the caller sets. */
void tt_rdv_member_init(struct tt_rdv_member *m, const char *token, uint32_t rank, uint32_t nranks,
                        uint64_t process, const void *card, size_t card_bytes, uint64_t began_ns,
                        uint64_t deadline_ns);
void tt_rdv_member_step(struct tt_rdv_member *m, const struct tt_rdv_event *ev, uint64_t now_ns);
/* Returns the maximum body of a server of nranks, the framer's limit. */
size_t tt_rdv_table_bytes_max(uint32_t nranks);

/* Writes "2, 5-9 and 40 more": the ranks for which `missing` is true. Limited by cap. */
void tt_rdv_name_ranks(char *out, size_t cap, uint32_t nranks,
                       bool (*missing)(const void *context, uint32_t rank), const void *context);

#endif
