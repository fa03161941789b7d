/* The order that fences ask for. Threads: any. */
#ifndef TUTTI_SHIM_SHMEM_ORDER_H
#define TUTTI_SHIM_SHMEM_ORDER_H

/* Records for so many PEs; and their end. */
void sh_order_init(int npes);
void sh_order_fini(void);
/* Before a put or an atomic to the PE: what was before a fence has landed there. */
void sh_order_before_put(const char *call, int pe);
/* Before a signal without a put: it is seen after what was before a fence. */
void sh_order_before_signal(const char *call, int pe);
/* A change without a result has gone to the PE, perhaps by message. */
void sh_order_asked(int pe);

#endif
