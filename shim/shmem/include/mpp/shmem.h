/* Older programs include <mpp/shmem.h>. */
#include <shmem.h>
