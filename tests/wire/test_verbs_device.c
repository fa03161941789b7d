/* The ports of RDMA devices that the verbs transport selects, and the attributes of its queue
 * pairs. The devices are emulated in this file, by replacing functions of libibverbs: machines with
 * several ports and partitions are rare. */
#include "support/unit.h"

#if TUTTI_HAVE_VERBS

#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/log.h"
#include "wire/verbs/verbs.h"

#define DEVICES 3
#define PORTS 3

/* ---- devices ---- */

static struct fake {
    const char *name;
    uint8_t nports;
    bool up[PORTS + 1];             /* by port */
    bool infiniband;
    uint32_t nkeys;
    uint16_t keys[4];
} fakes[DEVICES];
static uint32_t nfakes;
static struct ibv_device devices[DEVICES];

static struct ibv_qp_attr inited, joined;   /* last attributes of a queue pair */
static struct ibv_qp qp = { .qp_num = 17 };

static const struct fake *fake_of(const struct ibv_context *c)
{
    return &fakes[c->device - devices];
}

int ibv_fork_init(void)
{
    return 0;
}

struct ibv_device **ibv_get_device_list(int *n)
{
    struct ibv_device **list = calloc(DEVICES + 1, sizeof *list);

    *n = (int)nfakes;
    for (uint32_t i = 0; list && i < nfakes; i++)
        list[i] = &devices[nfakes - 1 - i];     /* not sorted by name */
    return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
    free(list);
}

const char *ibv_get_device_name(struct ibv_device *d)
{
    return fakes[d - devices].name;
}

struct ibv_context *ibv_open_device(struct ibv_device *d)
{
    struct ibv_context *c = calloc(1, sizeof *c);

    if (!c)
        return NULL;
    c->device = d;
    c->async_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return c;
}

int ibv_close_device(struct ibv_context *c)
{
    close(c->async_fd);
    free(c);
    return 0;
}

int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *attr)
{
    *attr = (struct ibv_device_attr){ .phys_port_cnt = fake_of(c)->nports,
                                      .max_srq = 64,
                                      .max_srq_wr = 1 << 20,
                                      .max_cqe = 1 << 20 };
    return 0;
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *c, uint8_t port, struct _compat_ibv_port_attr *out)
{
    struct ibv_port_attr *attr = (struct ibv_port_attr *)out;

    attr->state = fake_of(c)->up[port] ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
    attr->lid = port;
    attr->active_mtu = IBV_MTU_4096;
    attr->link_layer = fake_of(c)->infiniband ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
    attr->pkey_tbl_len = (uint16_t)fake_of(c)->nkeys;
    return 0;
}

/* Returns two entries per port: an IPv4 address of this machine, and another one. */
ssize_t _ibv_query_gid_table(struct ibv_context *c, struct ibv_gid_entry *entries, size_t max,
                             uint32_t flags, size_t bytes)
{
    size_t n = 0;

    (void)flags;
    assert_int_equal(bytes, sizeof *entries);
    for (uint32_t port = 1; port <= fake_of(c)->nports && n + 2 <= max; port++)
        for (uint32_t i = 0; i < 2; i++) {
            struct ibv_gid_entry *e = &entries[n++];

            *e = (struct ibv_gid_entry){ .port_num = port,
                                         .gid_index = i,
                                         .gid_type = IBV_GID_TYPE_ROCE_V2 };
            e->gid.raw[10] = e->gid.raw[11] = 0xff;
            inet_pton(AF_INET, i == 0 ? "192.0.2.1" : "127.0.0.1", e->gid.raw + 12);
        }
    return (ssize_t)n;
}

int ibv_query_pkey(struct ibv_context *c, uint8_t port, int index, __be16 *key)
{
    (void)port;
    *key = htobe16(fake_of(c)->keys[index]);
    return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *c)
{
    static struct ibv_pd pd;

    (void)c;
    return &pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
    (void)pd;
    return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *c)
{
    struct ibv_comp_channel *channel = calloc(1, sizeof *channel);

    (void)c;
    if (channel)
        channel->fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    close(channel->fd);
    free(channel);
    return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    (void)pd;
    (void)attr;
    return &qp;
}

int ibv_modify_qp(struct ibv_qp *q, struct ibv_qp_attr *attr, int mask)
{
    assert_ptr_equal(q, &qp);
    if (attr->qp_state == IBV_QPS_INIT && mask & IBV_QP_PKEY_INDEX)
        inited = *attr;
    if (attr->qp_state == IBV_QPS_RTR && mask & IBV_QP_AV)
        joined = *attr;
    return 0;
}

/* ---- tests ---- */

static struct tt_verbs_rail rail[TT_VERBS_RAILS];
static uint32_t nrails;

static tutti_status rails_open(const char *rule, const char *gid)
{
    memset(rail, 0, sizeof rail);
    nrails = 0;
    return tt_verbs_rails_open(rail, &nrails, rule, gid);
}

/* Returns the selected devices and ports in their order, e.g. "a:1 b:2". */
static const char *taken(void)
{
    static char text[TT_VERBS_RAILS * 80];
    size_t n = 0;

    text[0] = 0;
    for (uint32_t i = 0; i < nrails; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s:%u", i ? " " : "", rail[i].name,
                              rail[i].port);
    return text;
}

static void rails_close(void)
{
    for (uint32_t i = 0; i < nrails; i++)
        tt_verbs_rail_close(&rail[i]);
    nrails = 0;
}

static int set_up(void **state)
{
    (void)state;
    unsetenv("TUTTI_RDMA_PKEY");
    unsetenv("TUTTI_RDMA_PORT");
    unsetenv("TUTTI_RDMA_SERVICE_LEVEL");
    unsetenv("TUTTI_RDMA_TRAFFIC_CLASS");
    nfakes = 2;
    fakes[0] = (struct fake){ .name = "a",
                              .nports = 2,
                              .up = { [1] = true, [2] = true },
                              .nkeys = 3,
                              .keys = { 0xffff, 0x0005, 0x8005 } };
    fakes[1] = (struct fake){
        .name = "b", .nports = 2, .up = { [1] = true, [2] = true }, .nkeys = 1, .keys = { 0xffff }
    };
    return 0;
}

static void devices_precede_additional_ports(void **state)
{
    (void)state;
    assert_int_equal(rails_open("a,b", NULL), TUTTI_OK);
    assert_string_equal(taken(), "a:1 b:1");
    rails_close();
    fakes[0].up[1] = false;
    assert_int_equal(rails_open("a,b", NULL), TUTTI_OK);
    assert_string_equal(taken(), "a:2 b:1");
    rails_close();
}

static void single_device_uses_all_ports(void **state)
{
    (void)state;
    assert_int_equal(rails_open("=a", NULL), TUTTI_OK);
    assert_string_equal(taken(), "a:1 a:2");
    assert_ptr_not_equal(rail[0].context, rail[1].context);
    assert_int_equal(rail[1].lid, 2);
    rails_close();
    fakes[0].nports = 3;
    fakes[0].up[2] = false;
    fakes[0].up[3] = true;
    assert_int_equal(rails_open("=a", NULL), TUTTI_OK);
    assert_string_equal(taken(), "a:1 a:3");
    rails_close();
}

static void named_port_is_the_only_one(void **state)
{
    (void)state;
    setenv("TUTTI_RDMA_PORT", "2", 1);
    assert_int_equal(rails_open("a", NULL), TUTTI_OK);
    assert_string_equal(taken(), "a:2");
    rails_close();
    fakes[0].up[2] = false;
    assert_int_equal(rails_open("a", NULL), TUTTI_ERR_UNSUPPORTED);
    assert_non_null(strstr(tutti_last_error(), "a has no active port"));
    setenv("TUTTI_RDMA_PORT", "3", 1);
    assert_int_equal(rails_open("a", NULL), TUTTI_ERR_UNSUPPORTED);
    assert_non_null(strstr(tutti_last_error(), "TUTTI_RDMA_PORT"));
}

static void gid_selection_by_namespace_network_index(void **state)
{
    static const struct {
        const char *gid;
        int index;                  /* less than 0: none */
        const char *why;
    } cases[] = {
        { NULL, 1, NULL },
        { "127.0.0.0/8", 1, NULL },
        { "0", 0, NULL },           /* by its index, in any network */
        { "1", 1, NULL },
        { "192.0.2.0/24", -1, "an address of this network namespace" },
        { "10.0.0.0/8", -1, "TUTTI_RDMA_GID" },
        { "7", -1, "TUTTI_RDMA_GID" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tutti_status st = rails_open("=b", cases[i].gid);

        assert_int_equal(st, cases[i].index < 0 ? TUTTI_ERR_UNSUPPORTED : TUTTI_OK);
        if (st == TUTTI_OK)
            assert_int_equal(rail[0].gid_index, cases[i].index);
        else
            assert_non_null(strstr(tutti_last_error(), cases[i].why));
        rails_close();
    }
}

static void device_outside_the_partition_is_skipped(void **state)
{
    (void)state;
    setenv("TUTTI_RDMA_PKEY", "5", 1);
    assert_int_equal(rails_open("a,b", NULL), TUTTI_OK);
    assert_string_equal(taken(), "a:1 a:2");
    assert_int_equal(rail[0].pkey_index, 2);
    rails_close();
    assert_int_equal(rails_open("b", NULL), TUTTI_ERR_UNSUPPORTED);
    assert_non_null(strstr(tutti_last_error(), "b is not in the partition of TUTTI_RDMA_PKEY"));
}

/* Creates a queue pair on the first rail, connected to another end. */
static void make_queue_pair(void)
{
    static struct tt_verbs verbs;
    static struct tt_verbs_group group;
    struct tt_verbs_link link = { .verbs = &verbs, .group = { &group } };
    struct tt_verbs_lane lane = { .link = &link, .wr_depth = 8 };
    const struct tt_verbs_hello theirs = {
        .incarnation = 1, .qp = 5, .psn = 6, .mtu = IBV_MTU_1024, .lid = 7
    };

    memset(&verbs, 0, sizeof verbs);
    memset(&inited, 0, sizeof inited);
    memset(&joined, 0, sizeof joined);
    verbs.rail[0] = rail[0];
    assert_int_equal(tt_verbs_qp_create(&lane), TUTTI_OK);
    assert_int_equal(tt_verbs_qp_connect(&lane, &theirs), TUTTI_OK);
}

static void queue_pairs_get_the_requested_attributes(void **state)
{
    (void)state;
    setenv("TUTTI_RDMA_PKEY", "0x8005", 1);
    setenv("TUTTI_RDMA_PORT", "2", 1);
    setenv("TUTTI_RDMA_SERVICE_LEVEL", "3", 1);
    setenv("TUTTI_RDMA_TRAFFIC_CLASS", "106", 1);
    assert_int_equal(rails_open("a", "127.0.0.1"), TUTTI_OK);
    make_queue_pair();
    assert_int_equal(inited.pkey_index, 2);
    assert_int_equal(inited.port_num, 2);
    assert_int_equal(joined.ah_attr.port_num, 2);
    assert_int_equal(joined.ah_attr.sl, 3);
    assert_int_equal(joined.ah_attr.is_global, 1);
    assert_int_equal(joined.ah_attr.grh.traffic_class, 106);
    assert_int_equal(joined.ah_attr.grh.sgid_index, 1);
    assert_int_equal(joined.path_mtu, IBV_MTU_1024);
    assert_int_equal(joined.dest_qp_num, 5);
    rails_close();
}

static void infiniband_uses_service_level_without_gid(void **state)
{
    (void)state;
    fakes[0].infiniband = true;
    setenv("TUTTI_RDMA_SERVICE_LEVEL", "15", 1);
    assert_int_equal(rails_open("=a", NULL), TUTTI_OK);
    make_queue_pair();
    assert_int_equal(inited.pkey_index, 0);
    assert_int_equal(inited.port_num, 1);
    assert_int_equal(joined.ah_attr.sl, 15);
    assert_int_equal(joined.ah_attr.dlid, 7);
    assert_int_equal(joined.ah_attr.is_global, 0);
    rails_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(devices_precede_additional_ports, set_up),
        cmocka_unit_test_setup(single_device_uses_all_ports, set_up),
        cmocka_unit_test_setup(named_port_is_the_only_one, set_up),
        cmocka_unit_test_setup(gid_selection_by_namespace_network_index, set_up),
        cmocka_unit_test_setup(device_outside_the_partition_is_skipped, set_up),
        cmocka_unit_test_setup(queue_pairs_get_the_requested_attributes, set_up),
        cmocka_unit_test_setup(infiniband_uses_service_level_without_gid, set_up),
    };

    tt_log_set(TT_LOG_NONE);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 77;      /* skipped: this build has no libibverbs */
}

#endif
