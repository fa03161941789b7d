/* Memory of a GPU as source and target of RDMA writes: emulated devices of both kinds. A queue pair
 * is connected to itself. */
#include "support/unit.h"

#include <cuda.h>
#include <infiniband/verbs.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#define SKIPPED 77
#define BYTES 300000u

static struct ibv_context *context;

static struct ibv_qp *qp_create(struct ibv_pd *pd, struct ibv_cq *cq)
{
    struct ibv_qp_init_attr init = {
        .send_cq = cq,
        .recv_cq = cq,
        .cap = { .max_send_wr = 4, .max_send_sge = 1 },
        .qp_type = IBV_QPT_RC,
    };
    struct ibv_qp *qp = ibv_create_qp(pd, &init);
    struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT,
                             .port_num = 1,
                             .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

    assert_non_null(qp);
    assert_int_equal(
        ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        0);
    a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
                              .path_mtu = IBV_MTU_1024,
                              .dest_qp_num = qp->qp_num,
                              .ah_attr = { .is_global = 1, .port_num = 1 } };
    assert_int_equal(ibv_query_gid(context, 1, 0, &a.ah_attr.grh.dgid), 0);
    assert_int_equal(ibv_modify_qp(qp, &a,
                                   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                       IBV_QP_MIN_RNR_TIMER),
                     0);
    a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 12, .retry_cnt = 2 };
    assert_int_equal(ibv_modify_qp(qp, &a,
                                   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
                     0);
    return qp;
}

static void write_bytes(struct ibv_qp *qp, struct ibv_cq *cq, const struct ibv_mr *from,
                        const struct ibv_mr *to)
{
    struct ibv_sge sge = { .addr = (uintptr_t)from->addr, .length = BYTES, .lkey = from->lkey };
    struct ibv_send_wr wr = { .sg_list = &sge,
                              .num_sge = 1,
                              .opcode = IBV_WR_RDMA_WRITE,
                              .send_flags = IBV_SEND_SIGNALED,
                              .wr.rdma = { .remote_addr = (uintptr_t)to->addr,
                                           .rkey = to->rkey } },
                       *bad;
    struct ibv_wc wc;
    int n;

    assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
    while ((n = ibv_poll_cq(cq, 1, &wc)) == 0)
        sched_yield();
    assert_int_equal(n, 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

/* Writes from the host to a GPU's memory, from there to other memory of the GPU, and back. */
static void gpu_memory_is_source_and_target(void **state)
{
    static uint8_t out[BYTES], in[BYTES];
    const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
    struct ibv_qp *qp = qp_create(pd, cq);
    struct ibv_mr *mr[4];
    CUdeviceptr gpu[2];

    (void)state;
    for (uint32_t i = 0; i < BYTES; i++)
        out[i] = (uint8_t)(i * 7 + i / 251);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(cuMemAlloc(&gpu[i], BYTES), CUDA_SUCCESS);
        mr[1 + i] = ibv_reg_mr(pd, (void *)(uintptr_t)gpu[i], BYTES, access);
        assert_non_null(mr[1 + i]);
    }
    mr[0] = ibv_reg_mr(pd, out, BYTES, access);
    mr[3] = ibv_reg_mr(pd, in, BYTES, access);
    assert_non_null(mr[0]);
    assert_non_null(mr[3]);
    for (int i = 0; i < 3; i++)
        write_bytes(qp, cq, mr[i], mr[i + 1]);
    assert_memory_equal(in, out, BYTES);
    memset(in, 0, BYTES);
    assert_int_equal(cuMemcpyDtoH(in, gpu[1], BYTES), CUDA_SUCCESS);
    assert_memory_equal(in, out, BYTES);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(ibv_dereg_mr(mr[i]), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(cuMemFree(gpu[i]), CUDA_SUCCESS);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(gpu_memory_is_source_and_target) };
    struct ibv_device **list = ibv_get_device_list(NULL);
    CUcontext gpu;
    CUdevice device;
    int failed;

    context = list && list[0] ? ibv_open_device(list[0]) : NULL;
    if (list)
        ibv_free_device_list(list);
    if (!context || cuInit(0) || cuDeviceGet(&device, 0) ||
        cuDevicePrimaryCtxRetain(&gpu, device) || cuCtxSetCurrent(gpu)) {
        printf("there is no RDMA device, or no GPU\n");
        return SKIPPED;
    }
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    ibv_close_device(context);
    return failed;
}
