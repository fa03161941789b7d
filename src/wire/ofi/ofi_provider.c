/* Selection of the provider. libfabric lists providers with reliable datagrams, ordered messages
 * and RMA writes, in its order of preference. It is queried twice: first for providers that order
 * messages after earlier writes, then for providers that only report the delivery of writes. The
 * first provider that the rules allow and that passes the self-test is used. */
#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/host.h"
#include "base/log.h"
#include "base/status.h"
#include "wire/ifaddr.h"
#include "wire/ofi/ofi.h"

#define API FI_VERSION(1, 9)    /* has everything used here */
#define IFADDRS_MAX 64
#define NAMES_MAX 32            /* maximum provider names */

/* State of the search. */
struct search {
    const struct tt_wire_conf *conf;
    struct tt_ifaddr ifaddrs[IFADDRS_MAX];
    size_t nifaddrs;
    char reasons[768];              /* reasons against refused providers */
    size_t nreasons, names_end;     /* lengths: of all reasons, and up to the end of the last
                                       list of names */
    const char *last_why;
    const char *reported[NAMES_MAX];    /* providers whose refusal is already in `reasons`; the
                                           strings belong to libfabric's lists */
    size_t ntold;
};

/* ---- reasons ---- */

/* Adds a reason. Consecutive names with the same reason share it: "net, sockets: comes later". */
static void add_reason(struct search *s, const char *name, const char *why)
{
    const bool same = s->last_why && strcmp(s->last_why, why) == 0;
    const size_t at = same ? s->names_end : s->nreasons;
    const int n = snprintf(s->reasons + at, sizeof s->reasons - at, "%s%s: %s",
                           same ? ", "
                           : at ? "; "
                                : "",
                           name, why);

    if (n < 0 || at + (size_t)n >= sizeof s->reasons) {
        s->reasons[s->nreasons = at] = 0;       /* no space: drops the truncated entry */
        s->last_why = NULL;
        return;
    }
    s->nreasons = at + (size_t)n;
    s->names_end = s->nreasons - strlen(why) - 2;
    s->last_why = why;
}

static bool has_reason(const struct search *s, const char *name)
{
    for (size_t i = 0; i < s->ntold; i++)
        if (strcmp(s->reported[i], name) == 0)
            return true;
    return false;
}

static void refuse_provider(struct search *s, const char *name, const char *why)
{
    if (has_reason(s, name))
        return;
    add_reason(s, name, why);
    if (s->ntold < NAMES_MAX)
        s->reported[s->ntold++] = name;
}

/* ---- available providers ---- */

static struct fi_info *list_providers(bool ordered, bool hmem)
{
    const uint64_t order = FI_ORDER_SAS | (ordered ? FI_ORDER_SAW : 0);
    const struct tt_ofi_library *lib = tt_ofi_library();
    struct fi_info *hints = lib->dupinfo(NULL), *list = NULL;

    if (!hints)
        return NULL;
    hints->caps =
        FI_MSG | FI_SEND | FI_RECV | FI_RMA | FI_WRITE | FI_REMOTE_WRITE | (hmem ? FI_HMEM : 0);
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY |
                                  FI_MR_ENDPOINT | (hmem ? FI_MR_HMEM : 0);
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = order;
    hints->tx_attr->size = TT_OFI_SENDS;        /* otherwise endpoints have megabytes of buffers
                                                   each */
    hints->rx_attr->size = TT_OFI_RECEIVES;
    hints->tx_attr->op_flags = ordered ? 0 : FI_DELIVERY_COMPLETE;
    if (lib->getinfo(API, NULL, NULL, 0, hints, &list) != 0)
        list = NULL;
    lib->freeinfo(hints);
    return list;
}

/* Returns whether the provider claims to support delivery-complete writes. */
static bool claims_delivery(const struct fi_info *info)
{
    const struct tt_ofi_library *lib = tt_ofi_library();
    struct fi_info *hints = lib->dupinfo(info), *list = NULL;
    bool yes;

    if (!hints)
        return false;
    hints->tx_attr->op_flags |= FI_DELIVERY_COMPLETE;
    yes = lib->getinfo(API, NULL, NULL, 0, hints, &list) == 0 && list;
    if (yes)
        lib->freeinfo(list);
    lib->freeinfo(hints);
    return yes;
}

static const char *provider_name(const struct fi_info *info)
{
    return info->fabric_attr->prov_name;
}

static bool is_local(const struct fi_info *info)
{
    return strcmp(provider_name(info), "shm") == 0;
}

/* "tcp" matches "tcp" and also "tcp;ofi_rxm". */
static bool is_named(const char *wanted, const char *name)
{
    const size_t n = strlen(wanted);

    return strncmp(name, wanted, n) == 0 && (name[n] == 0 || name[n] == ';');
}

/* ---- devices ---- */

/* Rates an address of this machine by the interface rule. 0: not allowed. */
static uint32_t address_merit(const struct search *s, int family, const void *ip)
{
    const size_t bytes = family == AF_INET ? 4 : 16;

    for (size_t i = 0; i < s->nifaddrs; i++) {
        const struct tt_ifaddr *a = &s->ifaddrs[i];

        if (a->family != family || memcmp(a->ip, ip, bytes) != 0 || a->link_local)
            continue;
        return a->loopback ? 1 : (uint32_t)(IFADDRS_MAX + 1 - i);
    }
    return 0;
}

/* Rates an entry of libfabric. */
static uint32_t rate_entry(const struct search *s, const struct fi_info *info)
{
    const struct sockaddr *a = info->src_addr;
    const bool device = strncmp(provider_name(info), "verbs", 5) == 0 || !a ||
                        (a->sa_family != AF_INET && a->sa_family != AF_INET6);

    if (device && !is_local(info) &&
        !tt_ifaddr_allows(s->conf->rdma_devices, info->domain_attr->name))
        return 0;
    if (a && info->addr_format == FI_SOCKADDR_IN)
        return address_merit(s, AF_INET, &((const struct sockaddr_in *)info->src_addr)->sin_addr);
    if (a && info->addr_format == FI_SOCKADDR_IN6)
        return address_merit(s, AF_INET6,
                             &((const struct sockaddr_in6 *)info->src_addr)->sin6_addr);
    return 1;
}

/* Returns the best entry of that provider in the list, or NULL if none is allowed. */
static const struct fi_info *best_entry(const struct search *s, const struct fi_info *list,
                                        const char *name)
{
    const struct fi_info *best = NULL;
    uint32_t most = 0;

    for (const struct fi_info *info = list; info; info = info->next) {
        const uint32_t m = strcmp(provider_name(info), name) == 0 ? rate_entry(s, info) : 0;

        if (m > most) {
            most = m;
            best = info;
        }
    }
    return best;
}

/* ---- open ---- */

void tt_ofi_provider_address(const struct tt_ofi_provider *p, struct tt_ofi_address *out)
{
    *out = (struct tt_ofi_address){ .host = p->local ? tt_host_hash() : 0,
                                    .format = p->info->addr_format };
    snprintf(out->provider, sizeof out->provider, "%.*s", TT_OFI_PROVIDER_BYTES - 1, p->name);
}

void tt_ofi_provider_close(struct tt_ofi_provider *p)
{
    tt_ofi_close(p->av ? &p->av->fid : NULL);
    tt_ofi_close(p->domain ? &p->domain->fid : NULL);
    tt_ofi_close(p->fabric ? &p->fabric->fid : NULL);
    if (p->info)
        tt_ofi_library()->freeinfo(p->info);
    *p = (struct tt_ofi_provider){ 0 };
}

/* Opens and tests a provider. On false, *why is the reason. */
static bool open_provider(struct tt_ofi_provider *p, const struct search *s,
                          const struct fi_info *info, bool ordered, const char **why)
{
    struct fi_av_attr av = { .type = FI_AV_UNSPEC };
    int err;

    *p = (struct tt_ofi_provider){ .info = tt_ofi_library()->dupinfo(info),
                                   .ordered = ordered,
                                   .local = is_local(info) };
    *why = "cannot be used: out of memory";
    if (!p->info)
        return false;
    p->hmem = p->info->caps & FI_HMEM;
    p->per_endpoint = p->info->domain_attr->mr_mode & FI_MR_ENDPOINT;
    if (s->conf->lanes > 1) {
        p->delivers = !p->per_endpoint && claims_delivery(info);
        p->one_lane = p->delivers       ? NULL
                      : p->per_endpoint ? "registrations are per endpoint"
                                        : "it does not report remote completions";
    }
    p->segment_bytes = p->info->ep_attr->max_msg_size < TT_OFI_SEGMENT_BYTES
                           ? p->info->ep_attr->max_msg_size
                           : TT_OFI_SEGMENT_BYTES;
    snprintf(p->name, sizeof p->name, "%s", provider_name(info));
    snprintf(p->device, sizeof p->device, "%s", info->domain_attr->name);
    *why = "cannot be used: its maximum message size is too small";
    if (p->segment_bytes < TT_OFI_SLOT_BYTES)
        goto close;
    *why = "cannot be used: opening failed";
    err = tt_ofi_library()->fabric(p->info->fabric_attr, &p->fabric, NULL);
    if (!err)
        err = fi_domain(p->fabric, p->info, &p->domain, NULL);
    if (!err)
        err = fi_av_open(p->domain, &av, &p->av, NULL);
    if (err) {
        tt_log(TT_LOG_DEBUG, "ofi: cannot open %s: %s", p->name, tt_ofi_strerror(err));
        goto close;
    }
    if (tt_ofi_trial(p, why))
        return true;
    if (p->delivers) {          /* its claim about delivery may be wrong; a single lane does not
                                   need it */
        p->delivers = false;
        p->one_lane = *why;
        if (tt_ofi_trial(p, why))
            return true;
    }

close:
    tt_ofi_provider_close(p);
    return false;
}

/* Selects the first usable provider of the list. */
static bool choose_provider(struct tt_ofi_provider *p, struct search *s, const struct fi_info *list,
                            bool ordered)
{
    const char *wanted = s->conf->ofi_provider, *why;
    const struct fi_info *best;

    for (const struct fi_info *info = list; info; info = info->next) {
        const char *name = provider_name(info);

        if (has_reason(s, name) || (wanted && *wanted && !is_named(wanted, name)))
            continue;
        if (!(wanted && *wanted) && is_local(info)) {
            refuse_provider(s, name, "supports one host only (select it with TUTTI_OFI_PROVIDER)");
            continue;
        }
        best = best_entry(s, list, name);
        why = "has no address allowed by TUTTI_INTERFACES and TUTTI_RDMA_DEVICES";
        if (best && open_provider(p, s, best, ordered, &why))
            return true;
        refuse_provider(s, name, why);
    }
    return false;
}

/* Adds reasons for untested providers. */
static void add_untested_reasons(struct search *s, const struct tt_ofi_provider *chosen,
                                 const struct fi_info *list, const char *why)
{
    for (const struct fi_info *info = list; info; info = info->next)
        if (strcmp(provider_name(info), chosen->name) != 0)
            refuse_provider(s, provider_name(info), why);
}

static void describe(struct tt_ofi_provider *p, const struct search *s)
{
    const uint32_t version = tt_ofi_library()->version();

    snprintf(p->about, sizeof p->about, "libfabric %u.%u, %s on %s: messages %s%s%s%s%s%s%s%s%s",
             FI_MAJOR(version), FI_MINOR(version), p->name, p->device,
             p->ordered ? "are ordered after writes" : "wait for remote completion of writes",
             p->one_lane ? ", one lane: " : "", p->one_lane ? p->one_lane : "",
             p->copies ? ", sources are copied" : "", p->hmem ? ", supports device memory" : "",
             p->unwoken ? ", polled every millisecond: " : "", p->unwoken ? p->unwoken : "",
             *s->reasons ? "; not used: " : "", s->reasons);
}

/* Not an error: jobs continue over other transports. */
static tutti_status no_provider(const struct search *s)
{
    const char *wanted = s->conf->ofi_provider;
    const char *hmem = s->conf->ofi_hmem ? ", and device memory (TUTTI_OFI_HMEM)" : "";
    char sentence[1024];

    if (*s->reasons)
        snprintf(sentence, sizeof sentence, "ofi: %s", s->reasons);
    else if (wanted && *wanted)
        snprintf(sentence, sizeof sentence,
                 "ofi: libfabric has no provider \"%s\" (TUTTI_OFI_PROVIDER) with reliable "
                 "datagrams, ordered messages and RMA writes%s",
                 wanted, hmem);
    else
        snprintf(sentence, sizeof sentence,
                 "ofi: libfabric has no provider with reliable datagrams, ordered messages and "
                 "RMA writes%s",
                 hmem);
    return tt_fail_again(TUTTI_ERR_UNSUPPORTED, sentence);
}

tutti_status tt_ofi_provider_open(struct tt_ofi_provider *out, const struct tt_wire_conf *conf)
{
    struct search s = { .conf = conf };
    struct fi_info *ordered, *others;
    tutti_status st = tt_ifaddr_list(conf->interfaces, s.ifaddrs, IFADDRS_MAX, &s.nifaddrs);
    bool found;

    if (st)
        return st;
    ordered = list_providers(true, conf->ofi_hmem);
    others = list_providers(false, conf->ofi_hmem);
    found = choose_provider(out, &s, ordered, true);
    if (!found) {
        s.ntold = 0;    /* an unordered provider may still be usable */
        found = choose_provider(out, &s, others, false);
    }
    if (found) {
        add_untested_reasons(&s, out, ordered,
                             conf->ofi_provider && *conf->ofi_provider
                                 ? "is not selected by TUTTI_OFI_PROVIDER"
                                 : "comes later in libfabric's list");
        add_untested_reasons(&s, out, others, "does not order messages after writes");
        describe(out, &s);
        tt_log(TT_LOG_INFO, "ofi: %s", out->about);
    } else {
        st = no_provider(&s);
    }
    if (ordered)
        tt_ofi_library()->freeinfo(ordered);
    if (others)
        tt_ofi_library()->freeinfo(others);
    return st;
}
