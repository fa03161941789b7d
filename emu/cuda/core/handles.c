#include "handles.h"

#include "fail.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

/* Open addressing with linear probing; a removed entry stays as a tombstone (kind 0, handle
 * set). */
struct entry {
    const void *handle;
    enum tt_emu_handle kind;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *table;
static size_t capacity, used;       /* used counts tombstones, too */

static size_t slot_of(const void *handle, size_t size)
{
    return (size_t)(((uintptr_t)handle >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (size - 1);
}

static struct entry *find(const void *handle)
{
    if (!capacity)
        return NULL;
    for (size_t i = slot_of(handle, capacity); table[i].handle; i = (i + 1) & (capacity - 1))
        if (table[i].handle == handle)
            return &table[i];
    return NULL;
}

static void insert(struct entry *into, size_t size, struct entry e)
{
    size_t i = slot_of(e.handle, size);

    while (into[i].handle)
        i = (i + 1) & (size - 1);
    into[i] = e;
}

static void grow(void)
{
    const size_t size = capacity ? capacity * 2 : 256;
    struct entry *bigger = tt_emu_alloc(size * sizeof(*bigger));
    size_t live = 0;

    for (size_t i = 0; i < capacity; i++)
        if (table[i].handle && table[i].kind) {
            insert(bigger, size, table[i]);
            live++;
        }
    free(table);
    table = bigger;
    capacity = size;
    used = live;
}

void tt_emu_handle_add(const void *handle, enum tt_emu_handle kind)
{
    struct entry *e;

    pthread_mutex_lock(&lock);
    e = find(handle);
    if (e) {
        e->kind = kind;
    } else {
        if ((used + 1) * 2 > capacity)
            grow();
        insert(table, capacity, (struct entry){ handle, kind });
        used++;
    }
    pthread_mutex_unlock(&lock);
}

bool tt_emu_handle_remove(const void *handle, enum tt_emu_handle kind)
{
    struct entry *e;
    bool found;

    pthread_mutex_lock(&lock);
    e = handle ? find(handle) : NULL;
    found = e && e->kind == kind;
    if (found)
        e->kind = 0;
    pthread_mutex_unlock(&lock);
    return found;
}

bool tt_emu_handle_is(const void *handle, enum tt_emu_handle kind)
{
    struct entry *e;
    bool found;

    pthread_mutex_lock(&lock);
    e = handle ? find(handle) : NULL;
    found = e && e->kind == kind;
    pthread_mutex_unlock(&lock);
    return found;
}

void tt_emu_handle_each(enum tt_emu_handle kind, void (*visit)(void *handle, void *arg), void *arg)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < capacity; i++)
        if (table[i].handle && table[i].kind == kind)
            visit((void *)(uintptr_t)table[i].handle, arg);
    pthread_mutex_unlock(&lock);
}
