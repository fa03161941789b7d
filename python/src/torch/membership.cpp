#include "membership.hpp"

#include <c10/util/Exception.h>

#include <cstring>

#include "tensors.hpp"

namespace tutti_torch
{

namespace
{

constexpr char prefix[] = "tutti:";

std::string text_of(const tutti_id &id)
{
    static const char digits[] = "0123456789abcdef";
    std::string text = prefix;

    for (const char c : id.bytes) {
        text += digits[static_cast<uint8_t>(c) >> 4];
        text += digits[static_cast<uint8_t>(c) & 15];
    }
    return text;
}

// -1: not a digit.
int value_of(char digit)
{
    return digit >= '0' && digit <= '9'   ? digit - '0'
           : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
                                          : -1;
}

} // namespace

std::string Membership::handle(const tutti_conf &conf)
{
    std::lock_guard guard(lock_);

    if (!offer_) {
        tutti_conf forever = conf;
        tutti_id id{};

        forever.timeout_ms = -1; // a handle has no deadline
        check(tutti_id_create(&id, &forever), "get_reconfigure_handle");
        offer_ = id;
    }
    return text_of(*offer_);
}

std::optional<std::string> Membership::handle() const
{
    std::lock_guard guard(lock_);

    return offer_ ? std::optional(text_of(*offer_)) : std::nullopt;
}

tutti_id Membership::parse(const std::string &handle)
{
    constexpr size_t start = sizeof prefix - 1;
    tutti_id id{};
    bool is_valid =
        handle.size() == start + 2 * sizeof id.bytes && handle.compare(0, start, prefix) == 0;

    for (size_t i = 0; is_valid && i < sizeof id.bytes; i++) {
        const int high = value_of(handle[start + 2 * i]), low = value_of(handle[start + 2 * i + 1]);

        is_valid = high >= 0 && low >= 0;
        id.bytes[i] = static_cast<char>(high << 4 | low);
    }
    if (!is_valid)
        C10_THROW_ERROR(ValueError,
                        "tutti: reconfigure: invalid handle \"" + handle.substr(0, 40) +
                            "\" (pass the strings of get_reconfigure_handle unmodified)");
    return id;
}

void Membership::use_handle()
{
    std::lock_guard guard(lock_);

    offer_.reset();
}

bool Membership::use_uuid(int64_t uuid)
{
    std::lock_guard guard(lock_);

    return uuids_.insert(uuid).second;
}

// A communicator of this process alone completes the start-up that the id serves.
void Membership::withdraw() noexcept
{
    std::lock_guard guard(lock_);
    tutti_comm *comm = nullptr;
    tutti_conf conf{};

    if (!offer_)
        return;
    conf.size = sizeof conf;
    conf.timeout_ms = 5000;
    conf.wires = "tcp";
    if (tutti_comm_create_id(&comm, &*offer_, 1, 0, &conf) == TUTTI_OK)
        tutti_comm_destroy(comm);
    offer_.reset();
}

} // namespace tutti_torch
