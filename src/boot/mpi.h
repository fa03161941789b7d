/* Whether this program uses MPI, which then shares the launcher's PMI or PMIx with us. */
#ifndef TT_BOOT_MPI_H
#define TT_BOOT_MPI_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>

static inline bool tt_mpi_is_linked(void)
{
    return dlsym(RTLD_DEFAULT, "MPI_Initialized") != NULL;
}

#endif
