#include "comm/cores.h"

void tt_cores_own(cpu_set_t *out)
{
    if (sched_getaffinity(0, sizeof *out, out) != 0)
        CPU_ZERO(out);
}

static uint8_t cpu_set_byte(const cpu_set_t *set, int i)
{
    uint8_t v = 0;

    for (int bit = 0; bit < 8; bit++)
        v |= (uint8_t)(CPU_ISSET(8 * i + bit, set) ? 1 << bit : 0);
    return v;
}

/* Format: number of bytes, then the bytes, with eight processors each, up to the last used one. */
void tt_cores_write(const cpu_set_t *set, struct tt_writer *w)
{
    int n = CPU_SETSIZE / 8;

    while (n > 0 && cpu_set_byte(set, n - 1) == 0)
        n--;
    tt_write_u8(w, (uint8_t)n);
    for (int i = 0; i < n; i++)
        tt_write_u8(w, cpu_set_byte(set, i));
}

void tt_cores_read(cpu_set_t *out, struct tt_reader *r)
{
    const int n = tt_read_u8(r);

    CPU_ZERO(out);
    if (n > CPU_SETSIZE / 8)
        r->bad = true;
    for (int i = 0; i < n && !r->bad; i++) {
        const uint8_t v = tt_read_u8(r);

        for (int bit = 0; bit < 8; bit++)
            if (v >> bit & 1)
                CPU_SET(8 * i + bit, out);
    }
}
