/* Arbitrary bytes between `tutti run` and its relays. The first byte selects a description of a
 * subtree, or the bytes that a relay sends. An accepted subtree survives encoding and decoding, and
 * its division covers each host once. Of the bytes of a relay, only frames about its own ranks and
 * hosts are passed on. */
#include "tools/run/run_links.c"
#include "tools/run/run_frame.c"
#include "tools/run/run_subtree.c"

#include "base/status.h"
#include "tools/run/run_place.h"

#define BYTES_MAX 4096
#define NHOSTS 3u

/* run_links.c needs these only to start and end processes, which this test does not do. */
int child_start(struct child *out, const struct child_conf *conf)
{
    (void)out;
    (void)conf;
    return 126;
}

int child_reap(struct child *c)
{
    (void)c;
    return 0;
}

char *child_relay_command(void)
{
    return NULL;
}

uint64_t child_answer_ns(const char *const *env, size_t n)
{
    (void)env;
    (void)n;
    return TT_NEVER;
}

void guard_add(int guard, const struct child *c)
{
    (void)guard;
    (void)c;
}

/* ---- subtrees ---- */

static void check_groups(const struct subtree *s)
{
    const uint32_t n = s->nhosts, ngroups = subtree_ngroups(n, s->fanout);
    uint32_t next = 0, begin, size;

    tt_assert(ngroups >= 1 && ngroups <= s->fanout);
    for (uint32_t i = 0; i < ngroups; i++) {
        subtree_group(n, ngroups, i, &begin, &size);
        tt_assert(begin == next && size >= 1 && size <= n / ngroups + 1);
        next += size;
    }
    tt_assert(next == n);
}

static void decode(const char *data, size_t bytes)
{
    struct subtree s, again;
    char *text;
    size_t ntext;

    if (subtree_decode(&s, data, bytes))
        return;
    tt_assert(s.nranks >= 1 && s.nranks <= RANKS_MAX && s.nenv <= SUBTREE_ENV_MAX);
    tt_assert(s.nhosts >= 1 && s.argc >= 1 && !s.argv[s.argc]);
    for (uint32_t i = 0; i < s.nhosts; i++) {
        const struct subtree_host *h = &s.hosts[i];

        tt_assert(h->index < HOSTS_MAX && h->nlocal >= 1 && h->first + h->nlocal <= s.nranks);
        tt_assert(h->name[0] && strlen(h->name) < HOST_BYTES);
    }
    check_groups(&s);
    tt_assert(subtree_encode(&s, 0, s.nhosts, &text, &ntext));
    tt_assert(!subtree_decode(&again, text, ntext));
    tt_assert(again.nhosts == s.nhosts && again.argc == s.argc && again.nenv == s.nenv);
    tt_assert(again.nranks == s.nranks && again.fanout == s.fanout && again.bind == s.bind);
    for (uint32_t i = 0; i < s.nhosts; i++)
        tt_assert(strcmp(again.hosts[i].name, s.hosts[i].name) == 0);
    subtree_fini(&again);
    subtree_fini(&s);
    free(text);
}

/* ---- frames ---- */

static struct subtree_host hosts[NHOSTS] = { { "a", 1, 4, 2 }, { "b", 3, 8, 1 }, { "c", 4, 9, 3 } };

static void check_frame(void *arg, const struct frame *f)
{
    const bool of_host = f->kind == FRAME_NOTE || f->kind == FRAME_LOST;

    tt_assert(arg == hosts);
    tt_assert(f->kind >= FRAME_STARTED && f->kind <= FRAME_LOST);
    if (of_host)
        tt_assert(f->subject >= 1 && f->subject <= 4);
    else
        tt_assert(f->subject == 4 || f->subject == 5 || (f->subject >= 8 && f->subject <= 11));
    tt_assert(f->bytes <= FRAME_OUTPUT_BYTES);
}

/* The bytes arrive in pieces of `piece`. */
static void receive(const uint8_t *data, size_t bytes, size_t piece, bool greeted)
{
    struct subtree tree = { .hosts = hosts, .nhosts = NHOSTS };
    struct link k = { .up = 1000000, .err = -1, .nhosts = NHOSTS, .reached = greeted };
    struct links l = { .all = &tree, .at = &k, .n = 1, .frame = check_frame, .arg = hosts };

    k.child.control = -1;
    for (size_t i = 0; i < bytes && k.up >= 0; i += piece) {
        tt_assert(frame_append(&k.in, data + i, bytes - i < piece ? bytes - i : piece));
        take_frames(&l, &k);
        tt_assert(k.in.capacity <= FRAME_SUBTREE_MAX + READ_BYTES);
    }
    end_up(&k);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char *text;

    if (bytes < 1 || bytes > BYTES_MAX)
        return 0;
    if (data[0] & 1) {
        receive(data + 1, bytes - 1, 1 + data[0] / 8, data[0] & 2);
        return 0;
    }
    /* exact, so that a sanitizer detects a read beyond it */
    text = malloc(bytes - 1 ? bytes - 1 : 1);
    tt_assert(text);
    memcpy(text, data + 1, bytes - 1);
    decode(text, bytes - 1);
    free(text);
    return 0;
}
