#include "trace/comms.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "trace/tick.h"

#define PAGE 64u            /* number of entries allocated together */

struct entry {
    struct tt_comms_entry e;    /* members: owned by the table */
    uint64_t members_bytes;
    uint64_t closed;            /* position in the order of closing; 0: open */
};

static struct {
    pthread_mutex_t lock;
    struct entry *page[TT_COMMS_MAX / PAGE];    /* allocated on first use, never freed */
    uint32_t n;                 /* entries ever used; entry 0 is never used */
    uint32_t nclosed;
    uint64_t closings, members_bytes;
} comms = { .lock = PTHREAD_MUTEX_INITIALIZER, .n = 1 };

/* ---- lists of members ---- */

struct list {
    char *text;
    uint64_t bytes, cap, most;
    bool failed;
};

static void list_add(struct list *l, const char *text)
{
    const uint64_t n = strlen(text);

    if (l->failed || l->bytes + n + 1 > l->most) {
        l->failed = true;
        return;
    }
    if (l->bytes + n + 1 > l->cap) {
        const uint64_t cap = 2 * l->cap + n + 32;
        char *more = realloc(l->text, cap);

        if (!more) {
            l->failed = true;
            return;
        }
        l->text = more;
        l->cap = cap;
    }
    memcpy(l->text + l->bytes, text, n + 1);
    l->bytes += n;
}

static uint64_t member_at(const uint32_t *ranks, const uint64_t *ids, uint32_t i)
{
    return ranks ? ranks[i] : ids[i];
}

/* Returns the number of members, beginning with `i`, at equal distances. A pair is not a range:
 * "3,9" is shorter than "3-9:6". */
static uint32_t run_length(const uint32_t *ranks, const uint64_t *ids, uint32_t i, uint32_t n)
{
    const uint64_t first = member_at(ranks, ids, i);
    uint64_t step, last;
    uint32_t len = 2;

    if (i + 1 == n || member_at(ranks, ids, i + 1) <= first)
        return 1;
    last = member_at(ranks, ids, i + 1);
    step = last - first;
    for (; i + len < n && member_at(ranks, ids, i + len) > last &&
           member_at(ranks, ids, i + len) - last == step;
         len++)
        last = member_at(ranks, ids, i + len);
    return len == 2 && step > 1 ? 1 : len;
}

char *tt_comms_print_members(const uint32_t *ranks, const uint64_t *ids, uint32_t n, uint64_t most)
{
    struct list l = { .most = most };
    char part[80];

    for (uint32_t i = 0, len; i < n && !l.failed; i += len) {
        const uint64_t first = member_at(ranks, ids, i);
        const char *comma = i ? "," : "";
        uint64_t last;

        len = run_length(ranks, ids, i, n);
        last = member_at(ranks, ids, i + len - 1);
        if (len == 1)
            snprintf(part, sizeof part, "%s%" PRIu64, comma, first);
        else if (last - first == len - 1)
            snprintf(part, sizeof part, "%s%" PRIu64 "-%" PRIu64, comma, first, last);
        else
            snprintf(part, sizeof part, "%s%" PRIu64 "-%" PRIu64 ":%" PRIu64, comma, first, last,
                     (last - first) / (len - 1));
        list_add(&l, part);
    }
    if (!l.failed && !l.text)
        list_add(&l, "");
    if (l.failed) {
        free(l.text);
        return NULL;
    }
    return l.text;
}

/* ---- the table ---- */

/* Returns the entry, or NULL; the caller holds the lock. */
static struct entry *entry_at(uint16_t number)
{
    return number && number < comms.n ? &comms.page[number / PAGE][number % PAGE] : NULL;
}

static uint16_t take_unused(void)
{
    const uint32_t number = comms.n;

    if (number == TT_COMMS_MAX)
        return 0;
    if (!comms.page[number / PAGE]) {
        comms.page[number / PAGE] = calloc(PAGE, sizeof(struct entry));
        if (!comms.page[number / PAGE])
            return 0;
    }
    comms.n++;
    return (uint16_t)number;
}

/* Returns the number of the entry that was closed first; 0: none is closed. */
static uint16_t take_closed(void)
{
    uint64_t first = UINT64_MAX;
    uint16_t number = 0;

    for (uint32_t i = 1; i < comms.n && comms.nclosed; i++) {
        const struct entry *e = entry_at((uint16_t)i);

        if (e->closed && e->closed < first) {
            first = e->closed;
            number = (uint16_t)i;
        }
    }
    return number;
}

static void drop_members(struct entry *e)
{
    free(e->e.members);
    comms.members_bytes -= e->members_bytes;
    e->e.members = NULL;
    e->members_bytes = 0;
}

static void keep_members(struct entry *e, const uint32_t *ranks, const uint64_t *ids, uint32_t n)
{
    uint64_t most = TT_COMMS_MEMBERS_BYTES - comms.members_bytes;

    if (!ranks && !ids)
        return;
    if (most > TT_COMMS_LIST_BYTES)
        most = TT_COMMS_LIST_BYTES;
    e->e.members = tt_comms_print_members(ranks, ids, n, most);
    e->members_bytes = e->e.members ? strlen(e->e.members) + 1 : 0;
    comms.members_bytes += e->members_bytes;
}

/* Copies a name, and truncates it between UTF-8 characters. */
static void copy_name(char out[TT_COMMS_NAME_BYTES], const char *name)
{
    size_t n = strnlen(name, TT_COMMS_NAME_BYTES);

    if (n == TT_COMMS_NAME_BYTES) {
        n--;
        while (n > 0 && ((unsigned char)name[n] & 0xc0) == 0x80)
            n--;
    }
    memcpy(out, name, n);
    out[n] = 0;
}

uint16_t tt_comms_add(const struct tt_comms_info *info)
{
    struct entry *e;
    uint16_t number;

    pthread_mutex_lock(&comms.lock);
    number = take_unused();
    if (!number)
        number = take_closed();
    e = entry_at(number);
    if (e) {
        comms.nclosed -= e->closed != 0;
        drop_members(e);
        *e = (struct entry){
            .e = { .hash = info->hash, .since = e->closed ? tt_tick_now() : 0, .of = info->of,
                   .rank = info->rank, .nranks = info->nranks, .open = true },
        };
        if (info->name)
            copy_name(e->e.name, info->name);
        keep_members(e, info->ranks, info->ids, info->nranks);
    }
    pthread_mutex_unlock(&comms.lock);
    return number;
}

void tt_comms_close(uint16_t number)
{
    struct entry *e;

    pthread_mutex_lock(&comms.lock);
    e = entry_at(number);
    if (e && !e->closed) {
        e->e.open = false;
        e->closed = ++comms.closings;
        comms.nclosed++;
    }
    pthread_mutex_unlock(&comms.lock);
}

void tt_comms_set_members(uint16_t number, uint32_t rank, uint32_t nranks, const uint64_t *ids)
{
    struct entry *e;

    pthread_mutex_lock(&comms.lock);
    e = entry_at(number);
    if (e) {
        drop_members(e);
        e->e.rank = rank;
        e->e.nranks = nranks;
        keep_members(e, NULL, ids, nranks);
    }
    pthread_mutex_unlock(&comms.lock);
}

void tt_comms_set_name(uint16_t number, const char *name)
{
    struct entry *e;

    pthread_mutex_lock(&comms.lock);
    e = entry_at(number);
    if (e)
        copy_name(e->e.name, name);
    pthread_mutex_unlock(&comms.lock);
}

bool tt_comms_get(uint16_t number, bool with_members, struct tt_comms_entry *out)
{
    const struct entry *e;

    pthread_mutex_lock(&comms.lock);
    e = entry_at(number);
    if (e) {
        *out = e->e;
        out->members = with_members && e->e.members ? strdup(e->e.members) : NULL;
    }
    pthread_mutex_unlock(&comms.lock);
    return e;
}

uint64_t tt_comms_bytes(void)
{
    uint64_t bytes = 0;

    pthread_mutex_lock(&comms.lock);
    for (uint32_t i = 0; i < TT_COMMS_MAX / PAGE; i++)
        bytes += comms.page[i] ? PAGE * sizeof(struct entry) : 0;
    bytes += comms.members_bytes;
    pthread_mutex_unlock(&comms.lock);
    return bytes;
}
