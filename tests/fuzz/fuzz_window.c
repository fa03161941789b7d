/* Messages of windows, from a peer that sends anything: they are read as written, and accesses are
 * within the window. The input: the size of the window, then messages, each after two bytes with
 * its length. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/status.h"
#include "window/message.h"
#include "wire/wire.h"

/* Processes a message like a receiver. */
static void take(const uint8_t *data, size_t bytes, uint8_t *mem, size_t size)
{
    uint8_t again[TT_WINDOW_HEADER_BYTES];
    struct tt_window_message m;
    uint64_t *word, old;

    if (!tt_window_message_read(&m, data, bytes))
        return;
    tt_window_message_write(&m, again);
    tt_assert(memcmp(again, data, sizeof again) == 0);
    if (m.verb == TT_WINDOW_ANSWER || m.verb == TT_WINDOW_LEAVE) {
        tt_assert(m.bytes <= (m.verb == TT_WINDOW_ANSWER ? TT_WINDOW_CHUNK_BYTES : 0));
        return;
    }
    if (m.verb == TT_WINDOW_GET) {
        if (tt_window_holds(size, m.offset, m.bytes)) {
            uint8_t *out = malloc(m.bytes + 1);

            tt_assert(out);
            memcpy(out, mem + m.offset, m.bytes);
            free(out);
        }
        return;
    }
    word = m.signal_op ? tt_window_word(mem, size, m.signal_offset, sizeof *word) : NULL;
    if (m.signal_op && !word)
        return;
    if (tt_window_apply(&m, data + TT_WINDOW_HEADER_BYTES, mem, size, &old) && word)
        tt_window_raise(word, m.signal_op, m.signal_value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    size_t size;
    uint8_t *mem;

    if (bytes < 2)
        return 0;
    size = data[0];
    mem = malloc(size ? size : 1);      /* on the heap, where sanitizers detect overruns */
    tt_assert(mem);
    memset(mem, 0, size);
    for (data++, bytes--; bytes >= 2;) {
        size_t n = (size_t)data[0] | (size_t)data[1] << 8;

        data += 2;
        bytes -= 2;
        if (n > bytes)
            n = bytes;
        take(data, n, mem, size);
        data += n;
        bytes -= n;
    }
    free(mem);
    return 0;
}
