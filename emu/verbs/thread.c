/* Threads of a process with devices: the device thread repeats requests that could not be executed,
 * and raises the events that other processes have set; the watcher waits for changes of
 * interfaces. */
#include "process.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STACK_BYTES (256u << 10)

/* ---- events ---- */

void rdma_event_raise(struct rdma_context *c, const struct ibv_async_event *e)
{
    struct rdma_event *node = malloc(sizeof *node);
    const uint64_t one = 1;

    if (!node)
        return;
    *node = (struct rdma_event){ .public = *e };
    *c->events_end = node;
    c->events_end = &node->next;
    if (write(c->verbs.context.async_fd, &one, sizeof one) < 0)
        rdma_log("cannot signal an event: %s", strerror(errno));
}

void rdma_ports_update(bool addresses)
{
    uint32_t n;
    struct rdma_device *const d = rdma_devices(&n);

    for (uint32_t i = 0; i < n; i++) {
        const bool up = rdma_port_is_up(&d[i]), changed = up != rdma.up[i];
        struct shm_port *port = &rdma.own->port[i];
        const struct ibv_async_event e = {
            .element.port_num = 1,
            .event_type = !changed ? IBV_EVENT_GID_CHANGE
                          : up     ? IBV_EVENT_PORT_ACTIVE
                                   : IBV_EVENT_PORT_ERR,
        };

        rdma.up[i] = up;
        __atomic_store_n(&port->up, up, __ATOMIC_SEQ_CST);
        if (addresses)
            __atomic_store_n(&port->ngids, rdma_gids(&d[i], port->gid), __ATOMIC_SEQ_CST);
        for (struct rdma_context *c = rdma.contexts; c; c = c->next)
            if (c->device == &d[i] && (changed || addresses))
                rdma_event_raise(c, &e);
    }
}

/* ---- device thread ---- */

void rdma_stall(struct rdma_qp *qp)
{
    const uint64_t bit = 1ull << qp->index % 64;

    if (!(__atomic_fetch_or(&rdma.stalled[qp->index / 64], bit, __ATOMIC_SEQ_CST) & bit))
        rdma_wake(rdma.own);
}

/* Clears the table, and calls act for each bit that was set. */
static void each_of(uint64_t *table, uint32_t nwords, void (*act)(uint32_t index))
{
    for (uint32_t i = 0; i < nwords; i++) {
        uint64_t bits = __atomic_load_n(&table[i], __ATOMIC_SEQ_CST)
                            ? __atomic_exchange_n(&table[i], 0, __ATOMIC_SEQ_CST)
                            : 0;

        for (; bits; bits &= bits - 1)
            act(i * 64 + (uint32_t)__builtin_ctzll(bits));
    }
}

static void qp_act(uint32_t index)
{
    if (rdma.qp[index])
        rdma_qp_news(rdma.qp[index]);
}

static void cq_act(uint32_t index)
{
    if (rdma.cq[index])
        rdma_cq_deliver(rdma.cq[index]);
}

static void srq_act(uint32_t index)
{
    if (rdma.srq[index])
        rdma_srq_deliver(rdma.srq[index]);
}

static uint64_t earliest;       /* time of the device thread's next run; 0: when woken */

static void note_time(uint64_t at_ns)
{
    if (at_ns && (!earliest || at_ns < earliest))
        earliest = at_ns;
}

static void stalled_act(uint32_t index)
{
    struct rdma_qp *qp = rdma.qp[index];
    uint64_t next;

    if (!qp)
        return;
    pthread_mutex_lock(&qp->lock);
    next = rdma_pump(qp);
    if (next)
        __atomic_fetch_or(&rdma.stalled[index / 64], 1ull << index % 64, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&qp->lock);
    note_time(next);
}

/* Ends the injected port faults that are over. */
static void ports_act(void)
{
    bool over = false;

    for (uint32_t i = 0; i < RDMA_DEVICES; i++) {
        const uint64_t until = __atomic_load_n(&rdma.down_until_ns[i], __ATOMIC_SEQ_CST);

        if (until == 0)
            continue;
        over |= rdma.up[i] || rdma_now_ns() >= until;
        if (rdma_now_ns() >= until)
            __atomic_store_n(&rdma.down_until_ns[i], 0, __ATOMIC_SEQ_CST);
        else
            note_time(until);
    }
    if (over)
        rdma_ports_update(false);
}

static void device_step(void)
{
    pthread_mutex_lock(&rdma.lock);
    earliest = 0;
    ports_act();
    each_of(rdma.own->qp_news, RDMA_QPS / 64, qp_act);
    each_of(rdma.stalled, RDMA_QPS / 64, stalled_act);
    each_of(rdma.own->cq_news, RDMA_CQS / 64, cq_act);
    each_of(rdma.own->srq_news, RDMA_SRQS / 64, srq_act);
    pthread_mutex_unlock(&rdma.lock);
}

static sem_t begun;

static void *device_main(void *arg)
{
    struct shm_segment *s = rdma.own;

    rdma_lock(&s->alive);       /* never released: the kernel marks it when this process ends */
    sem_post(&begun);
    while (!__atomic_load_n(&rdma.stop, __ATOMIC_SEQ_CST)) {
        const uint32_t seen = __atomic_load_n(&s->wake, __ATOMIC_SEQ_CST);
        struct timespec wait;
        uint64_t now;

        device_step();
        now = rdma_now_ns();
        if (earliest && earliest <= now)
            continue;
        wait.tv_sec = (time_t)((earliest - now) / 1000000000u);
        wait.tv_nsec = (long)((earliest - now) % 1000000000u);
        syscall(SYS_futex, &s->wake, FUTEX_WAIT, seen, earliest ? &wait : NULL, NULL, 0);
    }
    rdma_unlock(&s->alive);
    return arg;
}

/* ---- watcher ---- */

static void *watcher_main(void *arg)
{
    struct pollfd fds[2] = { { .fd = rdma.watcher_fd, .events = POLLIN },
                             { .fd = rdma.stop_fd, .events = POLLIN } };
    char buffer[8192];

    for (;;) {
        bool addresses = false;
        ssize_t n;

        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            break;
        if (fds[1].revents)
            break;
        while ((n = recv(rdma.watcher_fd, buffer, sizeof buffer, MSG_DONTWAIT)) > 0 ||
               (n < 0 && errno == ENOBUFS)) {
            const struct nlmsghdr *h = (const struct nlmsghdr *)(void *)buffer;

            addresses |= n < (ssize_t)sizeof *h || h->nlmsg_type == RTM_NEWADDR ||
                         h->nlmsg_type == RTM_DELADDR;
        }
        pthread_mutex_lock(&rdma.lock);
        rdma_ports_update(addresses);
        pthread_mutex_unlock(&rdma.lock);
    }
    return arg;
}

/* Opens the watcher's sockets. Without netlink, changes of interfaces are not detected. */
static void watcher_open(void)
{
    struct sockaddr_nl address = { .nl_family = AF_NETLINK,
                                   .nl_groups =
                                       RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR };

    rdma.stop_fd = eventfd(0, EFD_CLOEXEC);
    rdma.watcher_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (rdma.watcher_fd >= 0 &&
        bind(rdma.watcher_fd, (struct sockaddr *)&address, sizeof address) != 0) {
        close(rdma.watcher_fd);
        rdma.watcher_fd = -1;
    }
}

static void watcher_close(void)
{
    if (rdma.watcher_fd >= 0)
        close(rdma.watcher_fd);
    if (rdma.stop_fd >= 0)
        close(rdma.stop_fd);
    rdma.watcher_fd = rdma.stop_fd = -1;
}

/* ---- both ---- */

static int thread_start(pthread_t *thread, void *(*body)(void *))
{
    pthread_attr_t attr;
    int err;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    err = pthread_create(thread, &attr, body, NULL);
    pthread_attr_destroy(&attr);
    return err;
}

int rdma_threads_begin(void)
{
    sigset_t all, before;
    uint32_t n;
    int err;

    rdma_devices(&n);
    watcher_open();
    rdma.stop = false;
    for (uint32_t i = 0; i < n; i++)
        rdma.up[i] = false;
    rdma_ports_update(true);
    sem_init(&begun, 0, 0);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = thread_start(&rdma.device_thread, device_main);
    if (!err)
        while (sem_wait(&begun) != 0)
            continue;
    if (!err && rdma.watcher_fd >= 0 && thread_start(&rdma.watcher, watcher_main) != 0) {
        close(rdma.watcher_fd);
        rdma.watcher_fd = -1;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err)
        watcher_close();
    return err;
}

/* Releases the lock while it waits, because the threads acquire it. */
void rdma_threads_end(void)
{
    const uint64_t one = 1;

    __atomic_store_n(&rdma.stop, true, __ATOMIC_SEQ_CST);
    rdma_wake(rdma.own);
    if (rdma.watcher_fd >= 0 && write(rdma.stop_fd, &one, sizeof one) < 0)
        rdma_log("cannot stop a thread: %s", strerror(errno));
    pthread_mutex_unlock(&rdma.lock);
    pthread_join(rdma.device_thread, NULL);
    if (rdma.watcher_fd >= 0)
        pthread_join(rdma.watcher, NULL);
    pthread_mutex_lock(&rdma.lock);
    watcher_close();
}
