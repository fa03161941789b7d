/* The interface between libibverbs and its drivers, and helpers of librdmacm. Other libraries need
 * these symbols to be loaded, e.g. the drivers that libfabric links. A driver can register, but is
 * never used. */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

#define REFUSE(name)                                                                  \
    EXPORT int name(void);                                                            \
    EXPORT int name(void)                                                             \
    {                                                                                 \
        errno = EOPNOTSUPP;                                                           \
        return EOPNOTSUPP;                                                            \
    }

#define REFUSE_POINTER(name)                                                          \
    EXPORT void *name(void);                                                          \
    EXPORT void *name(void)                                                           \
    {                                                                                 \
        errno = EOPNOTSUPP;                                                           \
        return NULL;                                                                  \
    }

#define IGNORE(name)                                                                  \
    EXPORT void name(void);                                                           \
    EXPORT void name(void)                                                            \
    {                                                                                 \
    }

EXPORT extern bool verbs_allow_disassociate_destroy;
bool verbs_allow_disassociate_destroy;

IGNORE(verbs_register_driver_34)
IGNORE(__verbs_log)
IGNORE(verbs_set_ops)
IGNORE(verbs_uninit_context)
IGNORE(verbs_init_cq)
IGNORE(ibv_copy_ah_attr_from_kern)
IGNORE(ibv_copy_path_rec_from_kern)
IGNORE(ibv_copy_path_rec_to_kern)
IGNORE(ibv_copy_qp_attr_from_kern)
REFUSE_POINTER(_verbs_init_and_alloc_context)
REFUSE_POINTER(verbs_open_device)
REFUSE_POINTER(ibv_get_sysfs_path)
REFUSE(ibv_read_sysfs_file)
REFUSE(ibv_read_ibdev_sysfs_file)
REFUSE(ibv_query_gid_type)
REFUSE(ibv_dofork_range)
REFUSE(ibv_dontfork_range)
REFUSE(__ioctl_final_num_attrs)
REFUSE(execute_ioctl)
REFUSE(ibv_cmd_advise_mr)
REFUSE(ibv_cmd_alloc_dm)
REFUSE(ibv_cmd_alloc_mw)
REFUSE(ibv_cmd_alloc_pd)
REFUSE(ibv_cmd_attach_mcast)
REFUSE(ibv_cmd_close_xrcd)
REFUSE(ibv_cmd_create_ah)
REFUSE(ibv_cmd_create_counters)
REFUSE(ibv_cmd_create_cq)
REFUSE(ibv_cmd_create_cq_ex)
REFUSE(ibv_cmd_create_flow)
REFUSE(ibv_cmd_create_flow_action_esp)
REFUSE(ibv_cmd_create_qp)
REFUSE(ibv_cmd_create_qp_ex)
REFUSE(ibv_cmd_create_qp_ex2)
REFUSE(ibv_cmd_create_rwq_ind_table)
REFUSE(ibv_cmd_create_srq)
REFUSE(ibv_cmd_create_srq_ex)
REFUSE(ibv_cmd_create_wq)
REFUSE(ibv_cmd_dealloc_mw)
REFUSE(ibv_cmd_dealloc_pd)
REFUSE(ibv_cmd_dereg_mr)
REFUSE(ibv_cmd_destroy_ah)
REFUSE(ibv_cmd_destroy_counters)
REFUSE(ibv_cmd_destroy_cq)
REFUSE(ibv_cmd_destroy_flow)
REFUSE(ibv_cmd_destroy_flow_action)
REFUSE(ibv_cmd_destroy_qp)
REFUSE(ibv_cmd_destroy_rwq_ind_table)
REFUSE(ibv_cmd_destroy_srq)
REFUSE(ibv_cmd_destroy_wq)
REFUSE(ibv_cmd_detach_mcast)
REFUSE(ibv_cmd_free_dm)
REFUSE(ibv_cmd_get_context)
REFUSE(ibv_cmd_modify_cq)
REFUSE(ibv_cmd_modify_flow_action_esp)
REFUSE(ibv_cmd_modify_qp)
REFUSE(ibv_cmd_modify_qp_ex)
REFUSE(ibv_cmd_modify_srq)
REFUSE(ibv_cmd_modify_wq)
REFUSE(ibv_cmd_open_qp)
REFUSE(ibv_cmd_open_xrcd)
REFUSE(ibv_cmd_poll_cq)
REFUSE(ibv_cmd_post_recv)
REFUSE(ibv_cmd_post_send)
REFUSE(ibv_cmd_post_srq_recv)
REFUSE(ibv_cmd_query_context)
REFUSE(ibv_cmd_query_device_any)
REFUSE(ibv_cmd_query_mr)
REFUSE(ibv_cmd_query_port)
REFUSE(ibv_cmd_query_qp)
REFUSE(ibv_cmd_query_srq)
REFUSE(ibv_cmd_read_counters)
REFUSE(ibv_cmd_reg_dm_mr)
REFUSE(ibv_cmd_reg_dmabuf_mr)
REFUSE(ibv_cmd_reg_mr)
REFUSE(ibv_cmd_req_notify_cq)
REFUSE(ibv_cmd_rereg_mr)
REFUSE(ibv_cmd_resize_cq)
