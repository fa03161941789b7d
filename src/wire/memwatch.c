#include "wire/memwatch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MESSAGES 16
/* maximum length of a line of /proc/self/maps; longer paths belong to files */
#define LINE_BYTES 512
#define EVENTS (UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE)

#ifndef UFFD_USER_MODE_ONLY         /* Linux 5.11; headers may be older */
#define UFFD_USER_MODE_ONLY 1
#endif

bool tt_memwatch_open(struct tt_memwatch *w, const char **why)
{
    struct uffdio_api api = { .api = UFFD_API, .features = EVENTS };
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);

    if (fd < 0 && errno == EINVAL)  /* older kernels lack this flag, but may still allow
                                       userfaultfd */
        fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        *why = errno == EPERM    ? "userfaultfd is not permitted (a seccomp filter, e.g. of a "
                                   "container, denies it)"
               : errno == ENOSYS ? "this kernel has no userfaultfd"
                                 : "userfaultfd failed";
        return false;
    }
    if (ioctl(fd, UFFDIO_API, &api) != 0 || (api.features & EVENTS) != EVENTS ||
        !(api.features & UFFD_FEATURE_PAGEFAULT_FLAG_WP)) {
        close(fd);
        *why = "this kernel's userfaultfd lacks events or write protection";
        return false;
    }
    w->fd = fd;
    return true;
}

void tt_memwatch_close(struct tt_memwatch *w)
{
    close(w->fd);
    w->fd = -1;
}

/* ---- watchable memory ---- */

/* Parses one line of /proc/self/maps, "begin-end perms offset device inode path". Returns false if
 * it is malformed. */
static bool parse_line(const char *line, uint64_t *begin, uint64_t *end, bool *anonymous)
{
    char *at;
    const char *perms;

    *begin = strtoull(line, &at, 16);
    if (*at != '-')
        return false;
    *end = strtoull(at + 1, &at, 16);
    if (*at != ' ')
        return false;
    perms = at + 1;
    if (strnlen(perms, 5) < 5)
        return false;
    at = strchr(perms + 5, ' ');            /* after the offset */
    at = at ? strchr(at + 1, ' ') : NULL;   /* after the device */
    if (!at)
        return false;
    *anonymous = perms[3] == 'p' && strtoull(at, &at, 10) == 0;
    at += strspn(at, " ");
    if (*at == '[' && strncmp(at, "[heap]", 6) != 0 && strncmp(at, "[anon:", 6) != 0)
        *anonymous = false;                 /* stacks grow, and the kernel's pages cannot be
                                               registered */
    return true;
}

/* Returns whether all of [begin, end) is private anonymous memory, by /proc/self/maps. */
static bool is_anonymous(uint64_t begin, uint64_t end)
{
    const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    char buffer[4096], line[LINE_BYTES];
    size_t filled = 0;
    bool good = fd >= 0, all = false;
    ssize_t n;

    while (good && !all && (n = read(fd, buffer, sizeof buffer)) > 0)
        for (ssize_t i = 0; good && !all && i < n; i++) {
            uint64_t first, past;
            bool anonymous;

            if (buffer[i] != '\n') {
                if (filled < sizeof line - 1)
                    line[filled++] = buffer[i];
                continue;
            }
            line[filled] = '\0';
            filled = 0;
            good = parse_line(line, &first, &past, &anonymous);
            if (!good || past <= begin)
                continue;
            good = anonymous && first <= begin;     /* lines are sorted: first > begin means a
                                                       gap */
            begin = past;
            all = past >= end;
        }
    if (fd >= 0)
        close(fd);
    return good && all;
}

bool tt_memwatch_add(struct tt_memwatch *w, uint64_t begin, uint64_t end)
{
    struct uffdio_register r = { .range = { .start = begin, .len = end - begin },
                                 .mode = UFFDIO_REGISTER_MODE_WP };

    return is_anonymous(begin, end) && ioctl(w->fd, UFFDIO_REGISTER, &r) == 0;
}

void tt_memwatch_remove(struct tt_memwatch *w, uint64_t begin, uint64_t end)
{
    struct uffdio_range r = { .start = begin, .len = end - begin };

    ioctl(w->fd, UFFDIO_UNREGISTER, &r);
}

/* ---- events ---- */

void tt_memwatch_read(struct tt_memwatch *w,
                      void (*gone)(void *arg, uint64_t begin, uint64_t end, bool unmapped),
                      void *arg)
{
    struct uffd_msg m[MESSAGES];
    ssize_t n;

    while ((n = read(w->fd, m, sizeof m)) > 0)
        for (size_t i = 0; i < (size_t)n / sizeof *m; i++)
            if (m[i].event == UFFD_EVENT_REMAP) {
                gone(arg, m[i].arg.remap.from, m[i].arg.remap.from + m[i].arg.remap.len, true);
                tt_memwatch_remove(w, m[i].arg.remap.to, m[i].arg.remap.to + m[i].arg.remap.len);
            } else if (m[i].event == UFFD_EVENT_UNMAP || m[i].event == UFFD_EVENT_REMOVE) {
                gone(arg, m[i].arg.remove.start, m[i].arg.remove.end,
                     m[i].event == UFFD_EVENT_UNMAP);
            }
}

/* The kernel refuses to fill pages while a mapping changes (EAGAIN), and checks this before it
 * checks for an empty range (EINVAL). A change has these steps since Linux 4.14: it is counted as
 * in progress; the pages are removed; its event is queued; the changing thread waits until the
 * event has been read; then the count drops. With madvise, the event is read before the pages are
 * removed. */
bool tt_memwatch_is_changing(const struct tt_memwatch *w)
{
    struct uffdio_zeropage nothing = { .range = { .start = 0, .len = 0 } };

    return ioctl(w->fd, UFFDIO_ZEROPAGE, &nothing) != 0 && errno == EAGAIN;
}
