#include "globals.h"

#include <link.h>
#include <string.h>

/* FNV-1a hash of the program headers, which determine the address of every variable. */
static uint64_t hash_of(const struct dl_phdr_info *info)
{
    uint64_t hash = 14695981039346656037ull;

    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        const uint64_t words[] = { p->p_type, p->p_flags, p->p_vaddr, p->p_filesz, p->p_memsz };

        for (size_t k = 0; k < sizeof words / sizeof *words; k++)
            hash = (hash ^ words[k]) * 1099511628211ull;
    }
    return hash;
}

/* Callback of dl_iterate_phdr. The first object is the executable; stops there. */
static int find_program(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct sh_globals *out = arg;
    uintptr_t begin = 0, end = 0, fixed = 0;

    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        const uintptr_t at = info->dlpi_addr + p->p_vaddr;

        if (p->p_type == PT_GNU_RELRO)
            fixed = at + p->p_memsz;
        /* of several writable segments, the last has data and bss */
        if (p->p_type == PT_LOAD && p->p_flags & PF_W && at + p->p_memsz > end) {
            begin = at;
            end = at + p->p_memsz;
        }
    }
    if (fixed > begin && fixed <= end)
        begin = fixed;
    begin = (begin + 7) / 8 * 8;
    *out = (struct sh_globals){ .program = hash_of(info) };
    if (begin < end) {
        out->base = (void *)begin;
        out->bytes = end - begin;
    }
    return 1;
}

void sh_globals_find(struct sh_globals *out)
{
    *out = (struct sh_globals){ 0 };
    dl_iterate_phdr(find_program, out);
}
