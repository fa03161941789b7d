#include "comm/plugins.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algos.h"
#include "base/log.h"
#include "comm/pathlist.h"
#include "comm/planfile.h"
#include "comm/plugin.h"
#include "comm/plugin_trampolines.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool loaded;
static struct {
    uint64_t hash;                  /* 0: none */
    char names[128];
} ours;

static bool has_suffix(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}

/* dlopen would search the library path for a name without a slash, so such names are rejected. */
static tutti_status load_algorithm(void *hash, const char *path)
{
    if (has_suffix(path, ".json"))
        return tt_plan_file_load(path, hash);
    if (!strchr(path, '/'))
        return tt_fail(TUTTI_ERR_INVALID,
                       "TUTTI_ALGORITHMS: \"%s\" is not a path: it contains no \"/\" (use ./%s)",
                       path, path);
    return tt_plugin_load(path, hash);
}

/* Lists the names of the algorithms from the n-th on. */
static void list_names(size_t n, char *out, size_t cap)
{
    size_t at = 0;

    out[0] = 0;
    for (size_t i = n; i < tt_nalgos && at < cap; i++)
        at += (size_t)snprintf(out + at, cap - at, "%s%s", i > n ? ", " : "", tt_algos[i]->name);
}

tutti_status tt_plugins_load(void)
{
    const char *list = getenv("TUTTI_ALGORITHMS");
    const size_t nalgos = tt_nalgos;
    const uint32_t nslots = tt_trampolines_used();
    uint64_t hash = 0;
    tutti_status st = TUTTI_OK;

    pthread_mutex_lock(&lock);
    if (!loaded && list) {
        st = tt_path_list_each("TUTTI_ALGORITHMS", list, load_algorithm, &hash);
        if (st) {
            tt_algo_remove_from(nalgos);
            tt_trampolines_free(nslots);
        } else if (tt_nalgos > nalgos) {
            ours.hash = hash | 1;
            list_names(nalgos, ours.names, sizeof ours.names);
            tt_log(TT_LOG_INFO, "algorithms of TUTTI_ALGORITHMS: %s", ours.names);
        }
    }
    loaded = !st;
    pthread_mutex_unlock(&lock);
    return st;
}

void tt_plugins_text(char out[TT_PLUGINS_TEXT_BYTES])
{
    out[0] = 0;
    if (ours.hash)
        snprintf(out, TT_PLUGINS_TEXT_BYTES, "%s (%016" PRIx64 ")", ours.names, ours.hash);
}
