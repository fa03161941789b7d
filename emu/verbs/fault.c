/* Injected faults, by TUTTI_EMU_RDMA_FAULTS:
 *   qp=N       each Nth work request of a queue pair fails, and with it the queue pair
 *   late=N:US  each Nth completion of a send queue is delayed by US microseconds
 *   rnr=N:K    each Nth message that needs a receive is refused K times, as if there were none
 *   port=N:US  after each N work requests of the process, the port is down for US microseconds
 *   reg=N:US   each Nth registration takes US microseconds longer */
#include "process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[RDMA_FAULTS] = { "qp", "late", "rnr", "port", "reg" };

/* Reads a decimal number of at most 12 digits. */
static bool number_read(const char **at, uint64_t *out)
{
    const char *from = *at;

    *out = 0;
    for (; **at >= '0' && **at <= '9' && *at - from < 12; (*at)++)
        *out = *out * 10 + (uint64_t)(**at - '0');
    return *at > from;
}

static bool setting_read(const char **at, struct rdma_fault_setting out[RDMA_FAULTS])
{
    const size_t n = strcspn(*at, "=");
    uint32_t which = 0;

    while (which < RDMA_FAULTS && (strlen(names[which]) != n || strncmp(names[which], *at, n) != 0))
        which++;
    if (which == RDMA_FAULTS || (*at)[n] != '=')
        return false;
    *at += n + 1;
    out[which].amount = 1;
    if (!number_read(at, &out[which].every))
        return false;
    if (**at != ':')
        return true;
    (*at)++;
    return number_read(at, &out[which].amount);
}

bool rdma_faults_parse(const char *text, struct rdma_fault_setting out[RDMA_FAULTS],
                       const char **wrong)
{
    const char *at = text;

    memset(out, 0, RDMA_FAULTS * sizeof *out);
    while (*at) {
        *wrong = at;
        if (!setting_read(&at, out) || (*at && *at != ','))
            return false;
        at += *at == ',';
    }
    return true;
}

static struct rdma_fault_setting settings[RDMA_FAULTS];
static bool strict, invalid;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void read_environment(void)
{
    const char *text = getenv("TUTTI_EMU_RDMA_FAULTS"), *wrong;

    strict = getenv("TUTTI_EMU_RDMA_STRICT") != NULL;
    invalid = text && !rdma_faults_parse(text, settings, &wrong);
    if (invalid)
        rdma_log("TUTTI_EMU_RDMA_FAULTS: invalid setting at \"%s\" (expected qp=N, late=N:US, "
                 "rnr=N:K, port=N:US or reg=N:US)",
                 wrong);
}

bool rdma_faults_are_valid(void)
{
    pthread_once(&once, read_environment);
    return !invalid;
}

const struct rdma_fault_setting *rdma_fault(enum rdma_fault f)
{
    pthread_once(&once, read_environment);
    return &settings[f];
}

bool rdma_fault_is_due(enum rdma_fault f, uint64_t *count)
{
    const uint64_t every = rdma_fault(f)->every;

    return every > 0 && __atomic_add_fetch(count, 1, __ATOMIC_RELAXED) % every == 0;
}

void rdma_not_ready(uint32_t qpn)
{
    rdma_fault(RDMA_FAULT_RNR);
    if (!strict)
        return;
    fprintf(stderr,
            "emulated RDMA: no receive was posted for a message to queue pair 0x%x "
            "(TUTTI_EMU_RDMA_STRICT is set)\n",
            qpn);
    abort();
}
