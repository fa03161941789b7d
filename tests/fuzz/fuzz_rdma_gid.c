/* Arbitrary TUTTI_RDMA_GID. An accepted value is an index in a table of GIDs, or a network that
 * contains its own address; otherwise the setting is unchanged. */
#include <stdint.h>
#include <string.h>
#include "base/status.h"
#include "wire/verbs/verbs_filter.h"

#define TEXT_BYTES_MAX 128

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct tt_verbs_filter choice, before;
    char text[TEXT_BYTES_MAX + 1];

    if (bytes > TEXT_BYTES_MAX)
        return 0;
    memcpy(text, data, bytes);
    text[bytes] = 0;
    memset(&choice, 0xa5, sizeof choice);
    before = choice;
    if (tt_verbs_filter_read(&choice, text) != TUTTI_OK) {
        tt_assert(memcmp(&choice, &before, sizeof choice) == 0);
        return 0;
    }
    tt_assert((choice.gid_by == TT_VERBS_GID_BEST) == (strlen(text) == 0));
    tt_assert(choice.gid_index < TT_VERBS_GIDS_MAX && choice.gid_bits <= 128);
    tt_assert(tt_verbs_filter_allows(&choice, choice.gid_index, choice.gid));
    return 0;
}
