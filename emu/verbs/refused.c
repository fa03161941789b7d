/* Calls that are not emulated. They set errno to EOPNOTSUPP, and also return it if the real call
 * returns an errno value. Inline functions of the header fail by themselves if the table of a
 * context has no entry for them, e.g. ibv_create_cq_ex and ibv_alloc_mw. */
#include "process.h"

#include <errno.h>
#include <infiniband/sa.h>

static void *refuse_pointer(void)
{
    errno = EOPNOTSUPP;
    return NULL;
}

static int refuse_status(void)
{
    errno = EOPNOTSUPP;
    return EOPNOTSUPP;
}

/* ---- objects of other processes ---- */

RDMA_EXPORT struct ibv_context *ibv_import_device(int fd)
{
    (void)fd;
    return refuse_pointer();
}

RDMA_EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *c, uint32_t handle)
{
    (void)c;
    (void)handle;
    return refuse_pointer();
}

RDMA_EXPORT void ibv_unimport_pd(struct ibv_pd *pd)
{
    (void)pd;
}

RDMA_EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
    (void)pd;
    (void)handle;
    return refuse_pointer();
}

RDMA_EXPORT void ibv_unimport_mr(struct ibv_mr *mr)
{
    (void)mr;
}

RDMA_EXPORT struct ibv_dm *ibv_import_dm(struct ibv_context *c, uint32_t handle)
{
    (void)c;
    (void)handle;
    return refuse_pointer();
}

RDMA_EXPORT void ibv_unimport_dm(struct ibv_dm *dm)
{
    (void)dm;
}

/* ---- memory ---- */

RDMA_EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t bytes,
                                             uint64_t iova, int fd, int access)
{
    (void)pd;
    (void)offset;
    (void)bytes;
    (void)iova;
    (void)fd;
    (void)access;
    return refuse_pointer();
}

RDMA_EXPORT int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *mem,
                             size_t bytes, int access)
{
    (void)mr;
    (void)flags;
    (void)pd;
    (void)mem;
    (void)bytes;
    (void)access;
    errno = EOPNOTSUPP;
    return IBV_REREG_MR_ERR_INPUT;
}

/* ---- datagrams and multicast ---- */

RDMA_EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    (void)pd;
    (void)attr;
    return refuse_pointer();
}

RDMA_EXPORT int ibv_init_ah_from_wc(struct ibv_context *c, uint8_t port, struct ibv_wc *wc,
                                    struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
    (void)c;
    (void)port;
    (void)wc;
    (void)grh;
    (void)attr;
    return refuse_status();
}

RDMA_EXPORT struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc,
                                                 struct ibv_grh *grh, uint8_t port)
{
    (void)pd;
    (void)wc;
    (void)grh;
    (void)port;
    return refuse_pointer();
}

RDMA_EXPORT int ibv_destroy_ah(struct ibv_ah *ah)
{
    (void)ah;
    return refuse_status();
}

RDMA_EXPORT int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    (void)qp;
    (void)gid;
    (void)lid;
    return refuse_status();
}

RDMA_EXPORT int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    (void)qp;
    (void)gid;
    (void)lid;
    return refuse_status();
}

RDMA_EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *c, struct ibv_ah_attr *attr,
                                            uint8_t mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
    (void)c;
    (void)attr;
    (void)mac;
    (void)vid;
    return refuse_status();
}

/* ---- queue pairs ---- */

RDMA_EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
    (void)qp;
    return refuse_pointer();
}

RDMA_EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    (void)qp;
    (void)ece;
    return refuse_status();
}

RDMA_EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    (void)qp;
    (void)ece;
    return refuse_status();
}

/* ---- fork ----
 *
 * Copy-on-write pages of a child do not matter: each access uses the current pages of the
 * process. */

RDMA_EXPORT int ibv_fork_init(void)
{
    return 0;
}

RDMA_EXPORT enum ibv_fork_status ibv_is_fork_initialized(void)
{
    return IBV_FORK_UNNEEDED;
}
