/* The order that fences require. Threads: any. */
#ifndef TUTTI_SHIM_SHMEM_ORDER_H
#define TUTTI_SHIM_SHMEM_ORDER_H

/* Records for so many PEs; and their end. */
void sh_order_init(int npes);
void sh_order_fini(void);
/* Before a put to the PE, or a load of its memory: waits until everything before a fence has landed there. */
void sh_order_drain(const char *call, int pe);
/* Before a signal, get or atomic of the window to the PE: it stays behind everything before a fence. Never waits. */
void sh_order_pass(const char *call, int pe);

#endif
