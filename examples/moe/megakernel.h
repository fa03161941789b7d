/* A mixture of experts in one kernel: sends tokens, computes them as they arrive, sends them back
 * and combines them, without the host and without a barrier between these steps. The same source is
 * used for CUDA and for the CPU device.
 *
 * Roles, as in "FlashDMoE" (arXiv 2506.04667):
 *   subscriber   (block 0) polls the words of tiles and results, and creates tasks for the arrivals
 *   scheduler    (block 0) assigns tasks to idle processors, through one word per processor, its
 *                bell
 *   processors   (all other blocks) execute tasks: send a tile, compute and return a tile, combine
 *                some tokens
 * A kernel of one block has all three roles and executes one task between two polls. All blocks
 * must run at the same time. */
#ifndef MEGAKERNEL_H
#define MEGAKERNEL_H

#include "ffn.h"

#define MEGA_CHUNK 8            /* tokens per combine task */
#define MEGA_LINE 8             /* words between successive bells */

enum mega_kind { MEGA_SEND, MEGA_TILE, MEGA_COMBINE };

struct mega_task {
    uint32_t kind, rank, number;    /* of a TILE: source rank and tile number; otherwise only the
                                       number */
};

/* State of one kernel run. All memory is accessible to all blocks; parts used only by block 0 are
 * marked. */
struct mega {
    tutti_moe_view view;
    struct ffn ffn;
    float *scratch;             /* [nblocks][mega_scratch] */
    uint64_t *bells;            /* [nblocks][MEGA_LINE]: 0, task number + 1, or MEGA_STOP; the
                                   next word is used by block 0: 1 if a task of the processor is
                                   finished */
    uint64_t *failed;           /* tutti_status of a failed processor */
    struct mega_task *tasks;    /* [mega_tasks]: all tasks in the order in which they became
                                   ready; written by block 0 */
    /* Used only by block 0. */
    uint32_t *ntiles, *low;     /* [nranks]: number of tiles per rank; all tiles below `low` were
                                   received */
    uint8_t *seen;              /* [nranks][tiles_max] */
    uint8_t *returned;          /* [nsends] */
    uint32_t *left;             /* [chunks]: missing results of its tokens */
    uint32_t returned_low;
    uint32_t nready, nhanded, ndone, nwanted;   /* number of tasks: ready, assigned, done; and
                                                   expected in total */
    uint32_t unknown;           /* number of ranks whose tile count is not known yet */
    uint32_t flawed;            /* the routing of a rank is invalid */
    uint32_t turn;              /* consecutive passes without an event; deadline_ms limits them */
    uint64_t deadline_ms;
};

#define MEGA_STOP (~(uint64_t)0)
#define MEGA_UNKNOWN 0xffffffffu

/* Return the floats of a block's scratch, and the maximum number of tasks. */
TUTTI_DEVICE uint64_t mega_scratch(const struct ffn *f)
{
    return ffn_scratch(f) + f->hidden;
}

TUTTI_DEVICE uint32_t mega_chunks(const tutti_moe_view *v)
{
    return (v->ntokens + MEGA_CHUNK - 1) / MEGA_CHUNK;
}

TUTTI_DEVICE uint64_t mega_tasks(const tutti_moe_view *v)
{
    return (uint64_t)v->nsends + (uint64_t)v->device.nranks * v->tiles_max + mega_chunks(v);
}

/* ---- processors ---- */

/* Computes a received tile, some tokens of one expert at a time, and returns it. */
TUTTI_DEVICE tutti_status mega_compute(const struct mega *m, uint32_t source, uint32_t number,
                                       float *scratch)
{
    const tutti_moe_view *v = &m->view;
    const uint8_t *tile = tutti_moe_tile_at(v, source, number);
    const uint32_t rows = ((const tutti_moe_head *)(const void *)tile)->rows,
                   *experts = tutti_moe_tile_experts(tile);
    float *x = scratch, *y = x + FFN_TOKENS * (uint64_t)v->hidden,
          *gate = y + FFN_TOKENS * (uint64_t)v->hidden,
          *up = gate + FFN_TOKENS * (uint64_t)m->ffn.inner;

    for (uint32_t at = 0, n; at < rows; at += n) {
        for (n = 1; n < FFN_TOKENS && at + n < rows && experts[at + n] == experts[at];)
            n++;
        for (uint32_t i = 0; i < n; i++)
            tutti_moe_row_read(&v->there, tutti_moe_row_at(v, tile, at + i),
                               x + (uint64_t)i * v->hidden);
        tutti_device_sync();
        ffn_tokens(&m->ffn, v->held_at[experts[at]], n, x, gate, up, y);
        for (uint32_t i = 0; i < n; i++)
            tutti_moe_result_write(v, source, number, at + i, y + (uint64_t)i * v->hidden);
        tutti_device_sync();
    }
    return tutti_moe_give_back(v, source, number, rows);
}

TUTTI_DEVICE tutti_status mega_do(const struct mega *m, uint64_t number, uint32_t block)
{
    const struct mega_task task = m->tasks[number];
    float *scratch = m->scratch + block * mega_scratch(&m->ffn);

    if (task.kind == MEGA_SEND)
        return tutti_moe_send(&m->view, task.number);
    if (task.kind == MEGA_TILE)
        return mega_compute(m, task.rank, task.number, scratch);
    for (uint32_t t = task.number * MEGA_CHUNK;
         t < m->view.ntokens && t < (task.number + 1) * MEGA_CHUNK; t++)
        tutti_moe_combine_token(&m->view, t, scratch + ffn_scratch(&m->ffn));
    return TUTTI_OK;
}

/* A processor: executes the tasks of its bell until MEGA_STOP. */
TUTTI_DEVICE tutti_status mega_process(struct mega *m, uint32_t block)
{
    uint64_t *bell = m->bells + (uint64_t)block * MEGA_LINE;
    tutti_status st = TUTTI_OK;

    for (;;) {
        uint64_t rung = 0;

        if (tutti_device_thread() == 0)
            for (uint32_t turn = 0; (rung = tutti_device_load_acquire(bell)) == 0; turn++)
                tutti_device_pause(&m->view.device, turn);
        rung = tutti_moe_share(rung);
        if (rung == MEGA_STOP)
            return st;
        if (!st)
            st = mega_do(m, rung - 1, block);
        tutti_device_sync();
        if (tutti_device_thread() == 0) {
            if (st)
                tutti_device_store_release(m->failed, (uint64_t)st);
            tutti_device_store_release(bell, 0);
        }
    }
}

/* ---- subscriber: run by thread 0 of block 0 ---- */

TUTTI_DEVICE void mega_ready(struct mega *m, uint32_t kind, uint32_t rank, uint32_t number)
{
    struct mega_task task;

    task.kind = kind;
    task.rank = rank;
    task.number = number;
    m->tasks[m->nready++] = task;
}

/* Creates the initial tasks: tiles to send, those for other ranks first, and chunks of tokens
 * without a valid expert. */
TUTTI_DEVICE void mega_begin(struct mega *m)
{
    const tutti_moe_view *v = &m->view;
    const uint32_t own_end = v->first_send[v->device.rank + 1];

    m->deadline_ms = tutti_device_deadline_ms(&v->device);
    m->unknown = v->device.nranks;
    m->nwanted = v->nsends + mega_chunks(v);
    for (uint32_t i = 0; i < v->nsends; i++)
        mega_ready(m, MEGA_SEND, 0, (own_end + i) % v->nsends);
    for (uint64_t i = 0; i < (uint64_t)v->ntokens * v->top_k; i++)
        m->left[i / v->top_k / MEGA_CHUNK] += v->places[i] != TUTTI_MOE_NONE;
    for (uint32_t c = 0; c < mega_chunks(v); c++)
        if (m->left[c] == 0)
            mega_ready(m, MEGA_COMBINE, 0, c);
}

/* Polls the tiles from one rank. */
TUTTI_DEVICE tutti_status mega_look_at(struct mega *m, uint32_t source)
{
    const tutti_moe_view *v = &m->view;
    uint8_t *seen = m->seen + (uint64_t)source * v->tiles_max;
    uint32_t n = 0;
    tutti_status st;

    if (m->ntiles[source] == MEGA_UNKNOWN) {
        st = tutti_moe_poll(v, source, 0, &n);
        if (!st && n)
            st = tutti_moe_check(v, tutti_moe_tile_at(v, source, 0), n);
        if (st)
            return st;
        m->ntiles[source] = n;
        m->nwanted += n;
        m->unknown--;
    }
    for (uint32_t t = m->low[source]; t < m->ntiles[source]; t++) {
        if (seen[t])
            continue;
        st = tutti_moe_poll(v, source, t, &n);
        if (st == TUTTI_PENDING)
            continue;
        if (!st)
            st = tutti_moe_check(v, tutti_moe_tile_at(v, source, t), n);
        if (st)
            return st;
        seen[t] = 1;
        mega_ready(m, MEGA_TILE, source, t);
    }
    while (m->low[source] < m->ntiles[source] && seen[m->low[source]])
        m->low[source]++;
    return TUTTI_OK;
}

/* Counts the received results of one of this rank's tiles. */
TUTTI_DEVICE void mega_count(struct mega *m, const tutti_moe_send_tile *s)
{
    const tutti_moe_view *v = &m->view;

    for (uint32_t r = 0; r < s->rows; r++) {
        const uint32_t chunk = v->rows[s->first + r] / v->top_k / MEGA_CHUNK;

        if (--m->left[chunk] == 0)
            mega_ready(m, MEGA_COMBINE, 0, chunk);
    }
}

TUTTI_DEVICE tutti_status mega_look_back(struct mega *m)
{
    const tutti_moe_view *v = &m->view;

    for (uint32_t i = m->returned_low; i < v->nsends; i++) {
        const tutti_moe_send_tile *s = &v->sends[i];
        tutti_status st;

        if (m->returned[i])
            continue;
        st = s->rows ? tutti_moe_poll_result(v, s->peer, s->number) : TUTTI_OK;
        if (st == TUTTI_PENDING)
            continue;
        if (st)
            return st;
        m->returned[i] = 1;
        mega_count(m, s);
    }
    while (m->returned_low < v->nsends && m->returned[m->returned_low])
        m->returned_low++;
    return TUTTI_OK;
}

TUTTI_DEVICE tutti_status mega_subscribe(struct mega *m)
{
    tutti_status st = TUTTI_OK;

    for (uint32_t i = 0; i < m->view.device.nranks && !m->flawed && !st; i++) {
        st = mega_look_at(m, (m->view.device.rank + i) % m->view.device.nranks);
        m->flawed = st == TUTTI_ERR_INVALID;
        if (st == TUTTI_PENDING || m->flawed)
            st = TUTTI_OK;
    }
    return st || m->flawed ? st : mega_look_back(m);
}

/* ---- scheduler: run by thread 0 of block 0 ---- */

/* Takes the next task to assign. Returns false if there is none. After invalid routing, only send
 * tasks are assigned, so that the signal counts stay consistent for the next run. */
TUTTI_DEVICE int mega_take(struct mega *m, uint64_t *number)
{
    while (m->nhanded < m->nready) {
        *number = m->nhanded++;
        if (!m->flawed || m->tasks[*number].kind == MEGA_SEND)
            return 1;
        m->ndone++;
    }
    return 0;
}

/* Assigns tasks to idle processors. */
TUTTI_DEVICE void mega_hand_out(struct mega *m, uint32_t nblocks)
{
    for (uint32_t b = 1; b < nblocks; b++) {
        uint64_t *bell = m->bells + (uint64_t)b * MEGA_LINE, number;

        if (tutti_device_load_acquire(bell) != 0)
            continue;
        m->ndone += (uint32_t)bell[1];
        bell[1] = 0;
        if (mega_take(m, &number)) {
            bell[1] = 1;
            tutti_device_store_release(bell, number + 1);
        }
    }
}

/* Stops the processors after their current tasks. Waits within tasks return by themselves. */
TUTTI_DEVICE void mega_stop(struct mega *m, uint32_t nblocks)
{
    for (uint32_t b = 1; b < nblocks; b++) {
        uint64_t *bell = m->bells + (uint64_t)b * MEGA_LINE;

        for (uint32_t turn = 0; tutti_device_load_acquire(bell) != 0; turn++)
            tutti_device_pause(&m->view.device, turn);
        tutti_device_store_release(bell, MEGA_STOP);
    }
}

/* Returns true if all possible tasks are done. */
TUTTI_DEVICE int mega_is_over(const struct mega *m)
{
    if (m->flawed)
        return m->nhanded == m->nready && m->ndone == m->nready;
    return !m->unknown && m->ndone == m->nwanted;
}

/* Makes one pass: polls and assigns. *number is the task for this block if it is the only one, else
 * MEGA_STOP. */
TUTTI_DEVICE tutti_status mega_pass(struct mega *m, uint32_t nblocks, uint64_t *number)
{
    const uint32_t before = m->ndone + m->nready;
    tutti_status st = mega_subscribe(m);
    int goes_on;

    *number = MEGA_STOP;
    if (!st)
        st = (tutti_status)tutti_device_load_acquire(m->failed);
    if (st)
        return st;
    if (nblocks > 1)
        mega_hand_out(m, nblocks);
    else if (!mega_take(m, number))
        *number = MEGA_STOP;
    goes_on = m->ndone + m->nready != before || *number != MEGA_STOP;
    if (goes_on || m->ndone != m->nhanded)      /* running tasks extend the deadline */
        m->deadline_ms = tutti_device_deadline_ms(&m->view.device);
    else if (tutti_device_load_acquire(m->view.device.clock_ms) > m->deadline_ms)
        return TUTTI_ERR_TIMEOUT;
    m->turn = goes_on ? 0 : m->turn + 1;
    if (!goes_on && !mega_is_over(m))
        tutti_device_pause(&m->view.device, m->turn);
    return TUTTI_OK;
}

/* Block 0: makes passes until all tasks are done or an error occurs. */
TUTTI_DEVICE tutti_status mega_watch(struct mega *m, uint32_t nblocks)
{
    uint64_t number = MEGA_STOP, over = 0;
    tutti_status st = TUTTI_OK;

    if (tutti_device_thread() == 0)
        mega_begin(m);
    while (!st) {
        if (tutti_device_thread() == 0) {
            st = mega_pass(m, nblocks, &number);
            over = mega_is_over(m);
        }
        st = tutti_device_agree(st);
        if (st || tutti_moe_share(over))
            break;
        number = tutti_moe_share(number);
        if (number == MEGA_STOP)
            continue;
        st = mega_do(m, number, 0);
        if (tutti_device_thread() == 0) {
            m->ndone++;
            m->deadline_ms = tutti_device_deadline_ms(&m->view.device);
        }
    }
    if (tutti_device_thread() == 0)
        mega_stop(m, nblocks);
    return st ? st : tutti_device_agree(m->flawed ? TUTTI_ERR_INVALID : TUTTI_OK);
}

/* The kernel; arg is a struct mega. */
TUTTI_DEVICE tutti_status mega_kernel(const tutti_device_view *device, uint32_t block,
                                      uint32_t nblocks, void *arg)
{
    struct mega *m = (struct mega *)arg;

    (void)device;
    return tutti_moe_close(&m->view, block == 0 ? mega_watch(m, nblocks) : mega_process(m, block));
}

#endif
