#include "analyze/line.h"

static bool line_wrong(struct tt_line *l, const char *error)
{
    if (!l->error)
        l->error = error;
    l->at = l->end;
    return false;
}

static void line_blanks(struct tt_line *l)
{
    while (l->at < l->end && (*l->at == ' ' || *l->at == '\t' || *l->at == '\r' || *l->at == '\n'))
        l->at++;
}

static bool line_take(struct tt_line *l, char c)
{
    line_blanks(l);
    if (l->at == l->end || *l->at != c)
        return false;
    l->at++;
    return true;
}

static bool line_enter(struct tt_line *l, char open, const char *error)
{
    if (l->error)
        return false;
    if (!line_take(l, open))
        return line_wrong(l, error);
    if (l->depth == TT_LINE_DEPTH)
        return line_wrong(l, "objects and arrays are nested deeper than the format allows");
    l->is_first[++l->depth] = true;
    return true;
}

bool tt_line_begin(struct tt_line *l, const char *text, size_t bytes)
{
    *l = (struct tt_line){ .at = text, .end = text + bytes };
    return line_enter(l, '{', "a JSON object is expected");
}

bool tt_line_object(struct tt_line *l)
{
    return line_enter(l, '{', "an object is expected");
}

bool tt_line_array(struct tt_line *l)
{
    return line_enter(l, '[', "an array is expected");
}

/* Returns whether another member or element follows, and reads the comma before it. */
static bool line_more(struct tt_line *l, char close, const char *error)
{
    bool first;

    if (l->error || l->depth == 0)
        return false;
    if (line_take(l, close)) {
        l->depth--;
        return false;
    }
    first = l->is_first[l->depth];
    l->is_first[l->depth] = false;
    if (!first && !line_take(l, ','))
        return line_wrong(l, error);
    return true;
}

bool tt_line_key(struct tt_line *l, struct tt_line_text *key)
{
    if (!line_more(l, '}', "a comma or } is expected"))
        return false;
    if (!tt_line_string(l, key))
        return line_wrong(l, "a key in quotes is expected");
    if (!line_take(l, ':'))
        return line_wrong(l, "a colon is expected after a key");
    return true;
}

bool tt_line_element(struct tt_line *l)
{
    return line_more(l, ']', "a comma or ] is expected");
}

bool tt_line_string(struct tt_line *l, struct tt_line_text *out)
{
    if (l->error)
        return false;
    if (!line_take(l, '"'))
        return line_wrong(l, "a text in quotes is expected");
    out->text = l->at;
    while (l->at < l->end && *l->at != '"') {
        if ((unsigned char)*l->at < 0x20)
            return line_wrong(l, "a control character in a text");
        l->at += *l->at == '\\' ? 2 : 1;
    }
    if (l->at >= l->end)
        return line_wrong(l, "a text has no end");
    out->bytes = (size_t)(l->at - out->text);
    l->at++;
    return true;
}

static bool line_word(struct tt_line *l, const char *word)
{
    const size_t n = strlen(word);

    line_blanks(l);
    if ((size_t)(l->end - l->at) < n || memcmp(l->at, word, n) != 0)
        return false;
    l->at += n;
    return true;
}

bool tt_line_null(struct tt_line *l)
{
    return !l->error && line_word(l, "null");
}

bool tt_line_bool(struct tt_line *l, bool *out)
{
    if (l->error)
        return false;
    if (line_word(l, "true"))
        *out = true;
    else if (line_word(l, "false"))
        *out = false;
    else
        return line_wrong(l, "true or false is expected");
    return true;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Reads the digits of a number that is at most `most`. */
static bool line_digits(struct tt_line *l, uint64_t most, uint64_t *out)
{
    uint64_t n = 0;

    if (l->at == l->end || !is_digit(*l->at))
        return line_wrong(l, "a whole number is expected");
    for (; l->at < l->end && is_digit(*l->at); l->at++)
        if (__builtin_mul_overflow(n, 10, &n) ||
            __builtin_add_overflow(n, (uint64_t)(*l->at - '0'), &n) || n > most)
            return line_wrong(l, "a number is too large");
    if (l->at < l->end && (*l->at == '.' || *l->at == 'e' || *l->at == 'E'))
        return line_wrong(l, "a whole number is expected");
    *out = n;
    return true;
}

bool tt_line_u64(struct tt_line *l, uint64_t *out)
{
    if (l->error)
        return false;
    line_blanks(l);
    return line_digits(l, UINT64_MAX, out);
}

bool tt_line_i64(struct tt_line *l, int64_t *out)
{
    uint64_t n;
    bool negative;

    if (l->error)
        return false;
    negative = line_take(l, '-');
    if (!line_digits(l, INT64_MAX, &n))
        return false;
    *out = negative ? -(int64_t)n : (int64_t)n;
    return true;
}

/* Skips a number, true, false or null. */
static bool line_skip_word(struct tt_line *l)
{
    if (line_word(l, "true") || line_word(l, "false") || line_word(l, "null"))
        return true;
    if (l->at == l->end || (*l->at != '-' && !is_digit(*l->at)))
        return line_wrong(l, "a value is expected");
    while (l->at < l->end && (is_digit(*l->at) || (*l->at && strchr("+-.eE", *l->at))))
        l->at++;
    return true;
}

bool tt_line_skip(struct tt_line *l)
{
    struct tt_line_text text;
    char first;

    if (l->error)
        return false;
    line_blanks(l);
    first = l->at < l->end ? *l->at : '\0';
    if (first == '"')
        return tt_line_string(l, &text);
    if (first == '{' && tt_line_object(l))
        while (tt_line_key(l, &text))
            tt_line_skip(l);        /* recursion is bounded by TT_LINE_DEPTH */
    else if (first == '[' && tt_line_array(l))
        while (tt_line_element(l))
            tt_line_skip(l);
    else if (!l->error)
        return line_skip_word(l);
    return !l->error;
}

bool tt_line_end(struct tt_line *l)
{
    if (l->error)
        return false;
    line_blanks(l);
    if (l->depth > 0)
        return line_wrong(l, "the object has no end");
    return l->at == l->end || line_wrong(l, "data after the end of the object");
}

/* Reads four hexadecimal digits. Returns -1 if they are invalid. */
static int32_t hex4(const char *text, size_t bytes)
{
    int32_t n = 0;

    if (bytes < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        const char c = text[i];
        const int digit = is_digit(c)              ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;

        if (digit < 0)
            return -1;
        n = n << 4 | digit;
    }
    return n;
}

/* Writes code point c in UTF-8 and returns its bytes; surrogates become '?'. */
static size_t put_utf8(char out[4], uint32_t c)
{
    if (c < 0x20)
        c = ' ';
    if (c >= 0xd800 && c < 0xe000)
        c = '?';
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    out[0] = (char)(0xe0 | c >> 12);
    out[1] = (char)(0x80 | (c >> 6 & 0x3f));
    out[2] = (char)(0x80 | (c & 0x3f));
    return 3;
}

/* Decodes the escape at text[*at], after the backslash. */
static size_t escape(const struct tt_line_text *t, size_t *at, char out[4])
{
    const char c = *at < t->bytes ? t->text[*at] : ' ';
    int32_t code;

    *at += 1;
    if (c != 'u') {
        out[0] = c && strchr("\"\\/", c) ? c : ' ';
        return 1;
    }
    code = hex4(t->text + *at, t->bytes - *at);
    if (code < 0) {
        out[0] = '?';
        return 1;
    }
    *at += 4;
    return put_utf8(out, (uint32_t)code);
}

/* Returns the bytes of the UTF-8 sequence at text[at], or 0 if it is invalid. */
static size_t utf8_bytes(const struct tt_line_text *t, size_t at)
{
    const unsigned char c = (unsigned char)t->text[at];
    const size_t n = c < 0x80                ? 1
                     : c >= 0xc2 && c < 0xe0 ? 2
                     : (c & 0xf0) == 0xe0    ? 3
                     : c >= 0xf0 && c < 0xf5 ? 4
                                             : 0;

    if (n == 0 || n > t->bytes - at)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((t->text[at + i] & 0xc0) != 0x80)
            return 0;
    return n;
}

size_t tt_line_copy(const struct tt_line_text *t, char *out, size_t cap)
{
    size_t n = 0, at = 0, bytes;
    char piece[4];

    while (at < t->bytes && n + sizeof piece < cap) {
        bytes = utf8_bytes(t, at);
        if (t->text[at] == '\\') {
            at++;
            bytes = escape(t, &at, piece);
        } else if (bytes == 0 || t->text[at] == 0x7f) {
            piece[0] = '?';
            bytes = 1;
            at++;
        } else {
            memcpy(piece, t->text + at, bytes);
            at += bytes;
        }
        memcpy(out + n, piece, bytes);
        n += bytes;
    }
    out[n] = '\0';
    return n;
}
