/* Ordering of operations after a fence. Any thread. */
#ifndef TUTTI_SHIM_SHMEM_ORDER_H
#define TUTTI_SHIM_SHMEM_ORDER_H

/* Create and free the state for npes PEs. */
void sh_order_init(int npes);
void sh_order_fini(void);
/* Call before a put to the PE, or a load from its memory: waits for remote completion of all
 * operations before the last fence. */
void sh_order_drain(const char *call, int pe);
/* Call before a signal, get or atomic of the window to the PE: orders it after all operations
 * before the last fence. Never waits. */
void sh_order_pass(const char *call, int pe);

#endif
