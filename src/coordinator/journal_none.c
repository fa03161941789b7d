/* A journal that stores nothing. */
#include "coordinator/journal.h"

#include <stdlib.h>
#include "base/status.h"

static tutti_status none_read(struct tt_journal *j,
                              bool (*take)(void *context, const void *data, size_t bytes),
                              void *context)
{
    (void)j;
    (void)take;
    (void)context;
    return TUTTI_OK;
}

static tutti_status none_append(struct tt_journal *j, const void *data, size_t bytes)
{
    (void)j;
    (void)data;
    (void)bytes;
    return TUTTI_OK;
}

static tutti_status none_done(struct tt_journal *j)
{
    (void)j;
    return TUTTI_OK;
}

static void none_close(struct tt_journal *j)
{
    free(j);
}

static const struct tt_journal_ops none_ops = {
    .name = "none",
    .read = none_read,
    .append = none_append,
    .replace = none_done,
    .commit = none_done,
    .check = none_done,
    .close = none_close,
};

tutti_status tt_journal_none_open(struct tt_journal **out)
{
    struct tt_journal *j = malloc(sizeof *j);

    if (!j)
        return tt_fail(TUTTI_ERR_NOMEM, "coordinator: out of memory for a journal");
    j->ops = &none_ops;
    *out = j;
    return TUTTI_OK;
}
