#include "support/one_host.h"

#include <string.h>

#include "algo/algos.h"
#include "support/unit.h"

void one_host_make(struct one_host *r, const char *algo, enum tt_coll_kind kind, uint32_t n,
                   uint64_t bytes)
{
    memset(r, 0, sizeof *r);
    tt_layout_regular(&r->layout, n, n, 1, 1, TT_NODE_MESH);
    r->net.layout = &r->layout;
    r->net.link[TT_NEAR_SOCKET].bytes_per_s = 1e15;
    r->coll = (struct tt_coll){ .kind = kind, .nranks = n, .elem_bytes = 4, .bytes = bytes };
    r->conf = (struct tt_des_conf){
        .algo = tt_algo_find(&r->coll, algo),
        .coll = &r->coll,
        .net = &r->net,
        .eager_bytes = 4096,
        .depth = 4,
        .seed = 1,
    };
    assert_non_null(r->conf.algo);
}

struct tt_des_result one_host_run(const struct one_host *r)
{
    struct tt_des_result out;
    char why[256] = "";

    if (tt_des_run(&r->conf, &out, why, sizeof why))
        fail_msg("%s: %s", r->conf.algo->name, why);
    return out;
}
