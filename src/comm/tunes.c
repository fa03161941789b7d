#include "comm/tunes.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/log.h"
#include "base/status.h"
#include "comm/comm.h"
#include "comm/pathlist.h"
#include "comm/rank_place.h"

/* ---- reading, on rank 0 ---------------------------------------------------------------------- */

/* Warns about rows of external algorithms that this process does not have. */
static void warn_missing_algorithms(const struct tt_tunefile *f)
{
    const struct tt_tune_row *first = NULL;
    uint32_t n = 0;

    for (uint32_t i = 0; i < f->nrows; i++)
        if (!f->row[i].algo && n++ == 0)
            first = &f->row[i];
    if (first)
        tt_log(TT_LOG_WARN,
               "tune file %s: %u of %u rows %s ignored: unknown algorithm (the first is \"%s\" of "
               "%s)",
               f->path, n, f->nrows, n == 1 ? "is" : "are", first->name, tt_coll_name(first->kind));
}

/* Appends a file to the distributed data: path, size, text. */
static bool append_file(struct tt_tunes *t, const char *path, const char *text, size_t bytes)
{
    const size_t more = 2 + strlen(path) + 4 + bytes;
    uint8_t *told = realloc(t->told, t->told_bytes + more);
    struct tt_writer w;

    if (!told)
        return false;
    t->told = told;
    tt_writer_init(&w, told + t->told_bytes, more);
    tt_write_string(&w, path);
    tt_write_u32(&w, (uint32_t)bytes);
    tt_write_bytes(&w, text, bytes);
    tt_assert(!w.bad);
    t->told_bytes += (uint32_t)tt_writer_bytes(&w);
    return true;
}

static tutti_status load_tune_file(void *arg, const char *path)
{
    struct tt_tunes *t = arg;
    size_t bytes = 0;
    char *text = NULL;
    tutti_status st;

    if (t->n == TT_TUNES_MAX)
        return tt_fail(TUTTI_ERR_INVALID, "TUTTI_TUNE_FILE: too many files: the maximum is %d",
                       TT_TUNES_MAX);
    st = tt_tunefile_load(&t->file[t->n], path, &text, &bytes);
    if (st)
        return st;
    warn_missing_algorithms(t->file[t->n++]);
    if (!append_file(t, path, text, bytes))
        st = tt_fail(TUTTI_ERR_NOMEM,
                     "tune file %s: out of memory for a message to the other ranks", path);
    free(text);
    return st;
}

tutti_status tt_tunes_load(struct tt_tunes *t, const char *list)
{
    return tt_path_list_each("TUTTI_TUNE_FILE", list, load_tune_file, t);
}

void tt_tunes_fini(struct tt_tunes *t)
{
    for (uint32_t i = 0; i < t->n; i++)
        tt_tunefile_free(t->file[i]);
    free(t->told);
    t->n = 0;
    t->told = NULL;
}

/* ---- distribution ---------------------------------------------------------------------------- */

tutti_status tt_tunes_take(struct tt_tunes *t, const uint8_t *told, size_t bytes)
{
    struct tt_reader r;

    tt_reader_init(&r, told, bytes);
    while (r.at < r.end) {
        char path[TT_PATH_BYTES], *text;
        uint32_t n;
        tutti_status st;

        tt_read_string(&r, path, sizeof path);
        n = tt_read_u32(&r);
        if (r.bad || n > (size_t)(r.end - r.at) || t->n == TT_TUNES_MAX)
            return tt_fail(TUTTI_ERR_PROTOCOL,
                           "protocol error: rank 0 sent invalid tune files, %zu bytes", bytes);
        text = malloc((size_t)n + 1);
        if (!text)
            return tt_fail(TUTTI_ERR_NOMEM, "out of memory for the tune file %s", path);
        memcpy(text, r.at, n);
        text[n] = 0;
        r.at += n;
        st = tt_tunefile_read(&t->file[t->n], text, n, path);
        free(text);
        if (st)
            return st;
        t->n++;
    }
    return TUTTI_OK;
}

/* Returns OK only if all ranks have the files. */
static tutti_status tunes_agree(tutti_comm *comm, tutti_status mine)
{
    const uint64_t outcome = (uint64_t)mine << 32 | comm->rank;
    uint64_t worst = 0;
    const tutti_status st = tutti_allreduce(&outcome, &worst, 1, TUTTI_U64, TUTTI_MAX, comm, NULL);

    if (st || mine)
        return st ? st : mine;
    return worst >> 32
               ? tt_fail((tutti_status)(worst >> 32),
                         "cannot use the tune files: rank %u could not read those of rank 0",
                         (uint32_t)worst)
               : TUTTI_OK;
}

tutti_status tt_tunes_share(tutti_comm *comm)
{
    struct tt_tunes *t = &comm->world->tunes;
    tutti_status st = TUTTI_OK;

    if (!t->told_bytes)
        return TUTTI_OK;
    if (comm->nranks > 1) {
        const bool mine = comm->rank == 0;
        uint8_t *told = mine ? t->told : malloc(t->told_bytes);

        /* The other ranks wait for this one in the collective: fail their context, too. */
        if (!told) {
            st =
                tt_fail(TUTTI_ERR_NOMEM, "out of memory for %u bytes of tune files", t->told_bytes);
            tt_context_fail(comm->context, st, tutti_last_error());
            return st;
        }
        st = tutti_broadcast(told, told, t->told_bytes, TUTTI_U8, 0, comm, NULL);
        if (!st)
            st = tunes_agree(comm, mine ? TUTTI_OK : tt_tunes_take(t, told, t->told_bytes));
        if (!mine)
            free(told);
    }
    free(t->told);
    t->told = NULL;
    t->agreed = !st;
    if (!st)
        tt_tunes_choose(comm);
    return st;
}

/* ---- selection ------------------------------------------------------------------------------- */

/* Returns whether any two ranks of a host share memory; equal on every rank. */
static bool any_local(const tutti_comm *comm, uint32_t host)
{
    const uint32_t nlocal = tt_layout_host_ranks(&comm->layout, host);
    uint32_t nshm = 0;

    for (uint32_t i = 0; i < nlocal && nshm < 2; i++)
        nshm += tt_world_all_local(comm->world,
                                   &comm->ranks[tt_layout_rank(&comm->layout, host, i)], 1);
    return nshm == 2;
}

const char *tt_tunes_wires(const tutti_comm *comm)
{
    if (comm->all_local)
        return "shm";
    for (uint32_t h = 0; h < comm->layout.nhosts; h++)
        if (any_local(comm, h))
            return "shm+tcp";
    return "tcp";
}

static void log_unused(tutti_comm *comm, const char *why)
{
    struct tt_tunes *t = &comm->world->tunes;
    const bool whole = comm->nranks == comm->world->nranks;

    if (comm->rank != 0 || (!whole && atomic_exchange(&t->said, true)))
        return;
    tt_log(whole ? TT_LOG_WARN : TT_LOG_INFO, "tune file %s is not used for %s of %u rank%s: %s%s",
           t->file[0]->path, whole ? "the job" : "a communicator", comm->nranks,
           TT_PLURAL(comm->nranks), why,
           t->n > 1 ? "; the other tune files are not used either" : "");
}

void tt_tunes_choose(tutti_comm *comm)
{
    const struct tt_tunes *t = &comm->world->tunes;
    char why[160] = "", ignored[160];

    comm->tune = NULL;
    if (!t->agreed || t->n == 0 || comm->nranks < 2)
        return;
    for (uint32_t i = 0; i < t->n && !comm->tune; i++)
        if (tt_tunefile_is_for(t->file[i], &comm->layout, tt_tunes_wires(comm),
                               i == 0 ? why : ignored, sizeof why))
            comm->tune = t->file[i];
    if (!comm->tune) {
        log_unused(comm, why);
        return;
    }
    tt_plans_discard(comm);
    if (comm->rank == 0)
        tt_log(TT_LOG_INFO, "tune file %s, measured on %s at %s, is used for %u ranks%s",
               comm->tune->path, comm->tune->host, comm->tune->date, comm->nranks,
               comm->tune->complete ? "" : "; it is incomplete");
}
