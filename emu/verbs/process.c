#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct rdma_process rdma = { .lifecycle = PTHREAD_MUTEX_INITIALIZER,
                             .lock = PTHREAD_MUTEX_INITIALIZER,
                             .dir_fd = -1,
                             .slots_fd = -1,
                             .segment_fd = -1,
                             .watcher_fd = -1,
                             .stop_fd = -1 };

uint64_t rdma_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

/* ---- the directory ---- */

static void directory_name(char *out, size_t bytes)
{
    const char *set = getenv("TUTTI_EMU_RDMA_DIR");

    if (set && *set)
        snprintf(out, bytes, "%s", set);
    else
        snprintf(out, bytes, "/tmp/tutti-emu-rdma-%u", (unsigned)geteuid());
}

/* Opens the directory, which must belong to this user alone. Returns an errno value. */
static int directory_open(void)
{
    char name[400];
    struct stat st;

    directory_name(name, sizeof name);
    if (mkdir(name, 0700) != 0 && errno != EEXIST) {
        const int err = errno;

        rdma_log("cannot create the directory %s: %s (TUTTI_EMU_RDMA_DIR sets it)", name,
                 strerror(err));
        return err;
    }
    rdma.dir_fd = open(name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (rdma.dir_fd < 0 || fstat(rdma.dir_fd, &st) != 0) {
        const int err = errno;

        rdma_log("cannot open the directory %s: %s", name, strerror(err));
        return err;
    }
    if (st.st_uid != geteuid() || (st.st_mode & 0777) != 0700) {
        rdma_log("the directory %s must belong to this user and have mode 0700", name);
        return EACCES;
    }
    return 0;
}

/* ---- slots ----
 *
 * The file "slots" has a record for each slot. A live process holds a lock on the first byte of its
 * record; the kernel releases it when the process ends. */

struct slot_record {
    int32_t pid, fd;            /* the segment is file descriptor fd of that process */
};

static off_t slot_at(uint32_t slot)
{
    return (off_t)(slot * sizeof(struct slot_record));
}

static bool slot_lock(uint32_t slot)
{
    struct flock f = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = slot_at(slot), .l_len = 1
    };

    return fcntl(rdma.slots_fd, F_SETLK, &f) == 0;
}

static int slot_take(void)
{
    const uint32_t first = (uint32_t)getpid();

    rdma.slots_fd = openat(rdma.dir_fd, "slots", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (rdma.slots_fd < 0)
        return errno;
    for (uint32_t i = 0; i < RDMA_SLOTS - 1; i++) {
        rdma.slot = 1 + (first + i) % (RDMA_SLOTS - 1);
        if (slot_lock(rdma.slot))
            return 0;
    }
    rdma.slot = 0;
    rdma_log("there are already %u processes with RDMA devices", RDMA_SLOTS - 1);
    return EAGAIN;
}

/* ---- our segment ---- */

static bool page_is_kept(uint64_t page)
{
    return rdma.kept[page / 64] >> page % 64 & 1;
}

int rdma_keep(const void *at, size_t bytes)
{
    const uint64_t from = (uint64_t)((const uint8_t *)at - (const uint8_t *)rdma.own) / 4096;
    const uint64_t to =
        (uint64_t)((const uint8_t *)at - (const uint8_t *)rdma.own + bytes + 4095) / 4096;

    for (uint64_t page = from, n; page < to; page += n) {
        int err;

        for (n = 0; page + n < to && !page_is_kept(page + n);)
            n++;
        if (n == 0) {
            n = 1;
            continue;
        }
        do
            err =
                fallocate(rdma.segment_fd, 0, (off_t)(page * 4096), (off_t)(n * 4096)) ? errno : 0;
        while (err == EINTR);
        if (err && err != EOPNOTSUPP)
            return err == ENOSPC ? ENOMEM : err;
        for (uint64_t i = page; i < page + n; i++)
            rdma.kept[i / 64] |= 1ull << i % 64;
    }
    return 0;
}

/* The segment has no name: nothing outlives the process. Others open it in /proc. */
static int segment_create(void)
{
    const rlim_t bytes = RDMA_SEGMENT_BYTES;
    struct rlimit limit;
    int err;

    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes) {
        rdma_log("the limit on file sizes (ulimit -f) must be at least %llu bytes",
                 (unsigned long long)bytes);
        return EFBIG;
    }
    rdma.segment_fd = memfd_create("tutti-emu-rdma", MFD_CLOEXEC);
    if (rdma.segment_fd < 0 || ftruncate(rdma.segment_fd, (off_t)RDMA_SEGMENT_BYTES) != 0)
        return errno;
    rdma.own = mmap(NULL, RDMA_SEGMENT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                    rdma.segment_fd, 0);
    if (rdma.own == MAP_FAILED) {
        rdma.own = NULL;
        return errno;
    }
    madvise(rdma.own, RDMA_SEGMENT_BYTES, MADV_DONTFORK);
    memset(rdma.kept, 0, sizeof rdma.kept);
    err = rdma_keep(rdma.own, offsetof(struct shm_segment, qp));
    if (err)
        return err;
    rdma.own->bytes = RDMA_SEGMENT_BYTES;
    rdma.own->pid = getpid();
    rdma.own->slot = rdma.slot;
    rdma_mutex_init(&rdma.own->alive);
    for (uint32_t i = 0; i < RDMA_DEVICES; i++)
        rdma_mutex_init(&rdma.own->atomics[i]);
    return 0;
}

/* Adds the segment to the file "slots", where other processes find it. */
static int segment_publish(void)
{
    const struct slot_record r = { .pid = getpid(), .fd = rdma.segment_fd };
    ssize_t n;

    __atomic_store_n(&rdma.own->magic, RDMA_MAGIC, __ATOMIC_RELEASE);
    n = pwrite(rdma.slots_fd, &r, sizeof r, slot_at(rdma.slot));
    return n == sizeof r ? 0 : n < 0 ? errno : EIO;
}

/* Releases the process's state, of which only a part may be open. */
static void process_free(void)
{
    if (rdma.segment_fd >= 0)
        close(rdma.segment_fd);
    if (rdma.own)
        munmap(rdma.own, RDMA_SEGMENT_BYTES);
    if (rdma.slots_fd >= 0)
        close(rdma.slots_fd);       /* releases the slot */
    if (rdma.dir_fd >= 0)
        close(rdma.dir_fd);
    rdma.own = NULL;
    rdma.dir_fd = rdma.slots_fd = rdma.segment_fd = -1;
    rdma.slot = 0;
}

static void fork_begins(void)
{
    pthread_mutex_lock(&rdma.lifecycle);
    pthread_mutex_lock(&rdma.lock);
}

static void fork_ends(void)
{
    pthread_mutex_unlock(&rdma.lock);
    pthread_mutex_unlock(&rdma.lifecycle);
}

/* A child has neither the threads nor the segment of its parent. */
static void forget_in_child(void)
{
    memset(&rdma.open, 0, sizeof rdma - offsetof(struct rdma_process, open));
    rdma.dir_fd = rdma.slots_fd = rdma.segment_fd = rdma.watcher_fd = rdma.stop_fd = -1;
    fork_ends();
}

static void handlers_set(void)
{
    pthread_atfork(fork_begins, fork_ends, forget_in_child);
}

int rdma_process_open(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int err;

    if (rdma.open)
        return 0;
    pthread_once(&once, handlers_set);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);      /* other processes write to our memory */
    err = directory_open();
    if (!err)
        err = slot_take();
    if (!err)
        err = segment_create();
    if (!err)
        err = rdma_threads_begin();
    if (err) {
        process_free();
        return err;
    }
    err = segment_publish();
    if (err) {
        rdma_process_close();
        return err;
    }
    rdma.open = true;
    return 0;
}

void rdma_process_close(void)
{
    __atomic_store_n(&rdma.own->closed, true, __ATOMIC_SEQ_CST);
    rdma_threads_end();
    process_free();
    memset(rdma.used, 0, sizeof rdma.used);
    memset(rdma.stalled, 0, sizeof rdma.stalled);
    rdma.open = false;
}

/* ---- heap: whole pages, first fit ---- */

static bool page_is_used(uint64_t page)
{
    return rdma.used[page / 64] >> page % 64 & 1;
}

uint64_t rdma_heap_take(uint64_t bytes)
{
    const uint64_t npages = (bytes + 4095) / 4096, all = RDMA_HEAP_BYTES / 4096;
    uint64_t from = 0, n = 0;
    uint8_t *at;

    while (n < npages && from + n < all) {
        if (page_is_used(from + n)) {
            from += n + 1;
            n = 0;
        } else {
            n++;
        }
    }
    at = (uint8_t *)rdma.own + RDMA_HEAP_AT + from * 4096;
    if (n == 0 || n < npages || rdma_keep(at, npages * 4096))
        return 0;
    for (uint64_t i = from; i < from + n; i++)
        rdma.used[i / 64] |= 1ull << i % 64;
    memset(at, 0, npages * 4096);
    return RDMA_HEAP_AT + from * 4096;
}

/* Returns the memory to the kernel. */
void rdma_heap_give(uint64_t at, uint64_t bytes)
{
    const uint64_t npages = (bytes + 4095) / 4096, from = (at - RDMA_HEAP_AT) / 4096;

    if (at == 0)
        return;
    for (uint64_t i = from; i < from + npages; i++) {
        const uint64_t page = RDMA_HEAP_AT / 4096 + i;

        rdma.used[i / 64] &= ~(1ull << i % 64);
        rdma.kept[page / 64] &= ~(1ull << page % 64);
    }
    if (fallocate(rdma.segment_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at,
                  (off_t)(npages * 4096)) != 0)
        memset((uint8_t *)rdma.own + at, 0, npages * 4096);
}

/* ---- other processes ---- */

static struct shm_segment *segment_map(uint32_t slot)
{
    struct slot_record r;
    struct shm_segment *s;
    struct stat st;
    char name[48];
    int fd;

    if (pread(rdma.slots_fd, &r, sizeof r, slot_at(slot)) != sizeof r || r.pid <= 0 || r.fd < 0)
        return NULL;
    snprintf(name, sizeof name, "/proc/%d/fd/%d", r.pid, r.fd);
    fd = open(name, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    s = fstat(fd, &st) == 0 && st.st_size == (off_t)RDMA_SEGMENT_BYTES
            ? mmap(NULL, RDMA_SEGMENT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
                   0)
            : MAP_FAILED;
    close(fd);
    if (s == MAP_FAILED)
        return NULL;
    madvise(s, RDMA_SEGMENT_BYTES, MADV_DONTFORK);
    if (__atomic_load_n(&s->magic, __ATOMIC_ACQUIRE) == RDMA_MAGIC &&
        s->bytes == RDMA_SEGMENT_BYTES && s->slot == slot)
        return s;
    munmap(s, RDMA_SEGMENT_BYTES);
    return NULL;
}

struct rdma_peer *rdma_peer_get(uint32_t slot)
{
    struct rdma_peer *p;

    for (p = rdma.peers; p; p = p->next)
        if (p->slot == slot && rdma_peer_is_alive(p)) {
            p->users++;
            return p;
        }
    p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    *p = (struct rdma_peer){ .slot = slot, .users = 1, .own = slot == rdma.slot };
    p->segment = p->own ? rdma.own : segment_map(slot);
    if (!p->segment) {
        free(p);
        return NULL;
    }
    p->next = rdma.peers;
    rdma.peers = p;
    return p;
}

void rdma_peer_put(struct rdma_peer *p)
{
    struct rdma_peer **at = &rdma.peers;

    if (!p || --p->users > 0)
        return;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    if (!p->own)
        munmap(p->segment, RDMA_SEGMENT_BYTES);
    free(p);
}

bool rdma_peer_is_alive(const struct rdma_peer *p)
{
    int err;

    if (p->own)
        return true;
    if (__atomic_load_n(&p->segment->closed, __ATOMIC_SEQ_CST))
        return false;
    err = pthread_mutex_trylock(&p->segment->alive);
    if (err == EBUSY)
        return true;
    /* kept here, because glibc's trylock is not reliable for mutexes that remain inconsistent */
    __atomic_store_n(&p->segment->closed, true, __ATOMIC_SEQ_CST);
    if (err == 0 || err == EOWNERDEAD)
        pthread_mutex_unlock(&p->segment->alive);
    return false;
}
