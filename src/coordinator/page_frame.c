#include "coordinator/page_frame.h"

#include <openssl/evp.h>
#include <string.h>
#include <time.h>
#include "base/status.h"
#include "base/xml.h"
#include "coordinator/text.h"

extern const char tt_page_html[];   /* generated from page.html by cmake/Embed.cmake;
                                       NUL-terminated */

#define TITLE_MARK "<!--title-->"
#define LIVE_MARK "<!--live-->"

void tt_page_frame_text(const char *text, FILE *to)
{
    char clean[TT_TEXT_CLEAN_BYTES];

    tt_xml_put(to, tt_text_clean(clean, sizeof clean, text));
}

void tt_page_frame_time(int64_t unix_ms, FILE *to)
{
    const time_t at = (time_t)(unix_ms / 1000);
    char day[16] = "", hour[16] = "";
    struct tm tm;

    if (gmtime_r(&at, &tm)) {
        strftime(day, sizeof day, "%Y-%m-%d", &tm);
        strftime(hour, sizeof hour, "%H:%M:%S", &tm);
    }
    fprintf(to, "<time datetime=\"%sT%sZ\">%s %s</time>", day, hour, day, hour);
}

const char *tt_page_frame_begin(const char *title, FILE *to)
{
    const char *head = strstr(tt_page_html, TITLE_MARK), *live = strstr(tt_page_html, LIVE_MARK);

    tt_assert(head && live && head < live);
    fwrite(tt_page_html, 1, (size_t)(head - tt_page_html), to);
    tt_page_frame_text(title, to);
    fputs(": Tutti", to);
    head += strlen(TITLE_MARK);
    fwrite(head, 1, (size_t)(live - head), to);
    return live + strlen(LIVE_MARK);
}

/* ---- policy ---- */

/* Computes the hash of the text between two tags, for the policy. */
static void hash_between(const char *begin, const char *end, char out[64])
{
    const char *first = strstr(tt_page_html, begin), *last;
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned bytes = 0;

    tt_assert(first);
    first += strlen(begin);
    last = strstr(first, end);
    tt_assert(last &&
              EVP_Digest(first, (size_t)(last - first), hash, &bytes, EVP_sha256(), NULL) == 1);
    EVP_EncodeBlock((unsigned char *)out, hash, (int)bytes);
}

void tt_page_policy(char out[TT_PAGE_POLICY_BYTES])
{
    char script[64], style[64];

    hash_between("<script>", "</script>", script);
    hash_between("<style>", "</style>", style);
    snprintf(out, TT_PAGE_POLICY_BYTES,
             "default-src 'none'; script-src 'sha256-%s'; style-src 'sha256-%s'; connect-src "
             "'self'; img-src data:; base-uri 'none'; "
             "form-action 'none'; frame-ancestors 'none'",
             script, style);
}
