/* The rendezvous as two pure state machines, server and member. No socket, no clock: events and time come in, actions go out
 * through `emit`, numbers that must be unpredictable are given. So a simulation with a seed replays any start-up.
 *
 *   member                                            server
 *     |  <------------------------------ CHALLENGE      |   version, a fresh number, the gathering
 *     |  HELLO ------------------------------------->   |   a fresh number, a proof of the token, who I am, my card
 *     |                                   ...           |   until everybody came
 *     |  <---------------------------------- TABLE      |   a proof, the job's secret (masked by the token), all cards
 *     |  <---------------------------- or REFUSED       |   a proof, a status, a sentence
 *
 * Each HELLO says how long its rank is still willing to wait. When the least patient one's time is up, the server tells all who
 * came the same sentence: how many came, and which did not. Proofs are HMAC-SHA256 with the token over both fresh numbers and
 * what is said; without a token they prove nothing, but still keep out whoever came by mistake. */
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
#define TT_RDV_CARD_BYTES 1408          /* the caller's card and what boot adds */
#define TT_RDV_HELLO_BYTES (TT_NONCE_BYTES + TT_MAC_BYTES + 26 + TT_RDV_CARD_BYTES)
#define TT_RDV_SENTENCE_BYTES 512
#define TT_RDV_REFUSAL_BYTES 128        /* of a sentence that says why one rank was turned down */
#define TT_RDV_PATIENT UINT32_MAX       /* left_ms of a rank that waits for ever */
#define TT_SECRET_BYTES 16

enum tt_rdv_type { TT_RDV_CHALLENGE = 1, TT_RDV_HELLO, TT_RDV_TABLE, TT_RDV_REFUSED };

enum tt_rdv_event_kind {
    TT_RDV_EV_OPEN,         /* the connection is there; `nonce` is 16 fresh random bytes */
    TT_RDV_EV_FRAME,
    TT_RDV_EV_CLOSED,       /* it ended, or sent what is no frame; conn is no longer used */
    TT_RDV_EV_TICK          /* time passed; conn is NULL */
};

struct tt_rdv_event {
    uint8_t kind;
    struct tt_rdv_conn *conn;       /* server only */
    struct tt_frame frame;
    uint8_t nonce[TT_NONCE_BYTES];
};

/* ---- server ---- */

/* A connection as the server sees it. The shell owns it, from OPEN until CLOSED or until it carried out TT_RDV_ACT_CLOSE. */
struct tt_rdv_conn {
    uint8_t stage;
    uint32_t rank;                  /* of a member */
    uint8_t server_nonce[TT_NONCE_BYTES], member_nonce[TT_NONCE_BYTES];
    uint64_t opened_ns;
};

enum tt_rdv_act_kind {
    TT_RDV_ACT_SEND,        /* data[bytes] is copied by the shell */
    TT_RDV_ACT_SEND_TABLE,  /* data[bytes] lives as long as the server: many connections send the same */
    TT_RDV_ACT_CLOSE        /* once everything before it is sent; conn gets no further event or action */
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
    uint32_t nranks;                /* 0 until the first member says it */
    uint32_t ncame;
    struct tt_rdv_seat *seats;      /* [nranks] */
    uint64_t deadline_ns;           /* the least patient member's */
    uint64_t began_ns;              /* when that member began to wait */
    uint8_t *table;                 /* body of TABLE after the proof, once complete */
    size_t table_bytes;
    uint32_t nrefused;              /* how many were turned down while others gathered, and why the last one */
    char refusal[TT_RDV_REFUSAL_BYTES];
    void (*emit)(void *context, const struct tt_rdv_act *act);
    void *context;
};

/* nranks 0: learned from the first member. deadline_ns is the server's own patience since began_ns (TT_NEVER: it has none).
 * The only memory it takes is [nranks] seats and a card each, of members that proved the token. */
void tt_rdv_server_init(struct tt_rdv_server *s, const char *token, const uint8_t secret[TT_SECRET_BYTES],
                        uint32_t nranks, uint64_t began_ns, uint64_t deadline_ns);
void tt_rdv_server_fini(struct tt_rdv_server *s);
void tt_rdv_server_step(struct tt_rdv_server *s, const struct tt_rdv_event *ev, uint64_t now_ns);
/* Whether members wait for others, `rank` among them, in a gathering of nranks. */
bool tt_rdv_server_waits_for(const struct tt_rdv_server *s, uint32_t nranks, uint32_t rank);
/* The ranks that did not come yet, as tt_rdv_name_ranks writes them. */
void tt_rdv_server_name_missing(const struct tt_rdv_server *s, char *out, size_t cap);
/* Ends a gathering that cannot succeed: all who came are told the sentence, as PEER_LOST. */
void tt_rdv_server_give_up(struct tt_rdv_server *s, const char *sentence);
/* Whether this connection has not proven itself since `age_ns`: the shell may drop it, and then says CLOSED. */
bool tt_rdv_conn_is_stranger(const struct tt_rdv_conn *c, uint64_t now_ns, uint64_t age_ns);

/* ---- member ---- */

enum tt_rdv_member_state {
    TT_RDV_AWAY,            /* no connection, or one that failed: try again until the deadline */
    TT_RDV_GREETED,         /* connected, waiting for the challenge */
    TT_RDV_WAITING,         /* said hello */
    TT_RDV_HAVE_TABLE,      /* secret and cards are there */
    TT_RDV_TURNED_AWAY      /* status and sentence say why */
};

struct tt_rdv_member {
    uint8_t state;
    bool final;             /* TURNED_AWAY for good; else (wrong token) a rendezvous that is still changing may be tried again */
    char token[128];
    uint32_t rank, nranks;
    uint64_t process;       /* random: tells a rank that comes again from a second process with the same rank */
    uint64_t began_ns, deadline_ns;
    uint8_t server_nonce[TT_NONCE_BYTES], member_nonce[TT_NONCE_BYTES];
    uint8_t card[TT_RDV_CARD_BYTES];
    uint16_t card_bytes;
    uint8_t secret[TT_SECRET_BYTES];
    struct tt_reader cards; /* HAVE_TABLE: [nranks] of u16 length and bytes, in the frame that brought it */
    tutti_status status;
    char sentence[TT_RDV_SENTENCE_BYTES];
    void (*emit)(void *context, const struct tt_rdv_act *act);
    /* May be NULL. Runs before each HELLO and may change `card`. `gathering` is the same for all members of one gathering, and
     * for no other. */
    void (*prepare)(void *context, const uint8_t gathering[TT_NONCE_BYTES]);
    void *context;
};

/* Everything but `emit`, `prepare` and `context`, which the caller sets. */
void tt_rdv_member_init(struct tt_rdv_member *m, const char *token, uint32_t rank, uint32_t nranks, uint64_t process,
                        const void *card, size_t card_bytes, uint64_t began_ns, uint64_t deadline_ns);
void tt_rdv_member_step(struct tt_rdv_member *m, const struct tt_rdv_event *ev, uint64_t now_ns);
/* Longest body that a server of nranks may send: the framer's bound. */
size_t tt_rdv_table_bytes_max(uint32_t nranks);

/* "2, 5-9 and 40 more": the ranks for which `missing` says so. Bounded by cap. */
void tt_rdv_name_ranks(char *out, size_t cap, uint32_t nranks, bool (*missing)(const void *context, uint32_t rank),
                       const void *context);

#endif
