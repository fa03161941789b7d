#include "refused.h"

#include "fail.h"

#include <cuda.h>
#include <stdatomic.h>

int tt_emu_refused(const char *name, _Atomic int *noted)
{
    if (!atomic_exchange(noted, 1))
        tt_emu_note("%s is not emulated (docs/emulation.md lists the calls)", name);
    return CUDA_ERROR_NOT_SUPPORTED;
}
