#include "comm/rank_place.h"

#include "base/status.h"

size_t tt_rank_place_write(const struct tt_rank_place *p, uint8_t out[TT_BOOT_PLACE_BYTES])
{
    struct tt_rank_location location = p->location;
    struct tt_writer wr;

    location.host = 0;
    tt_writer_init(&wr, out, TT_BOOT_PLACE_BYTES);
    tt_cores_write(&p->cores, &wr);
    tt_rank_location_write(&location, &wr);
    tt_write_u8(&wr, p->shares);
    tt_assert(!wr.bad);
    return tt_writer_bytes(&wr);
}

bool tt_rank_place_read(struct tt_rank_place *out, const uint8_t *place, size_t bytes)
{
    uint8_t shares;
    struct tt_reader r;

    tt_reader_init(&r, place, bytes);
    tt_cores_read(&out->cores, &r);
    tt_rank_location_read(&out->location, &r);
    shares = tt_read_u8(&r);
    out->shares = shares;
    return !r.bad && r.at == r.end && shares <= 1 && out->location.host == 0;
}

/* Adds a rank's processors to those of its host. */
static void add_cores(struct tt_world *w, uint64_t host, const cpu_set_t *own)
{
    if (host == w->places[w->rank].host)
        CPU_OR(&w->cores_here, &w->cores_here, own);
    if (host == w->places[0].host)
        CPU_OR(&w->cores_first, &w->cores_first, own);
}

void tt_world_add_place(struct tt_world *w, uint32_t rank, const struct tt_rank_place *p)
{
    w->places[rank] = p->location;
    w->shares[rank / 8] |= (uint8_t)(p->shares << rank % 8);
    add_cores(w, p->location.host, &p->cores);
    if (p->location.host != w->places[w->rank].host)
        return;
    if (w->nlocal++ == 0)
        w->first_here = rank;
}

bool tt_world_all_local(const struct tt_world *w, const uint32_t *ranks, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!(w->shares[ranks[i] / 8] >> ranks[i] % 8 & 1) ||
            tt_layout_host(&w->layout, ranks[i]) != tt_layout_host(&w->layout, ranks[0]))
            return false;
    return true;
}
