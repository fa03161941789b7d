#include "communicator.hpp"
#include "tutti/trace.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <cstring>

namespace nb = nanobind;
using namespace nb::literals;

namespace tutti_core
{

using Text = std::optional<std::string>;

int64_t timeout_ms(const std::optional<double> &seconds, const char *call)
{
    if (!seconds)
        return 0;
    if (std::isinf(*seconds) && *seconds > 0)
        return -1;
    if (!(*seconds > 0 && *seconds < 1e12))
        fail(TUTTI_ERR_INVALID, std::string(call) + ": invalid timeout of " +
                                    std::to_string(*seconds) +
                                    " s (must be positive; math.inf means no deadline)");
    return (int64_t)std::ceil(*seconds * 1e3);
}

const std::shared_ptr<Handle> &Communicator::handle(const char *call) const
{
    if (!handle_)
        fail(TUTTI_ERR_INVALID, std::string(call) + ": the communicator is destroyed");
    return handle_;
}

void Communicator::destroy()
{
    if (!handle_)
        return;
    if (handle_->calls)
        fail(TUTTI_ERR_INVALID,
             "destroy: another thread is in a call on this communicator (abort ends it)");
    // windows or memory keep it: end what is pending, as destroying would
    if (handle_.use_count() > 1 && handle_->pending)
        tutti_comm_abort(handle_->comm);
    release();
}

Communicator::~Communicator()
{
    release();
}

// Threads that continue an interrupted creation need the communicator. It is destroyed when a later
// one is released, because they cannot wait for the GIL: the interpreter may have ended.
void Communicator::release()
{
    static auto *kept = new std::vector<std::shared_ptr<Handle>>;

    std::erase_if(*kept, [](const auto &handle) { return !handle->is_creating(); });
    if (handle_ && handle_->is_creating()) {
        tutti_comm_abort(handle_->comm);
        kept->push_back(handle_);
    }
    handle_.reset();
}

// Options of a new communicator.
struct Settings {
    Text rendezvous, token, transports, interfaces, security;
    int64_t timeout_ms = 0;
    int lanes = 0;
    bool restore = false;

    // As the C library takes them; valid as long as the settings.
    tutti_conf conf() const
    {
        const auto text = [](const Text &t) { return t ? t->c_str() : nullptr; };
        tutti_conf conf{};

        conf.size = sizeof conf;
        conf.rendezvous = text(rendezvous);
        conf.token = text(token);
        conf.timeout_ms = timeout_ms;
        conf.wires = text(transports);
        conf.interfaces = text(interfaces);
        conf.lanes = lanes;
        conf.restore = restore;
        conf.security = text(security);
        return conf;
    }
};

static tutti_id id_of(const nb::bytes &bytes)
{
    tutti_id id;

    if (bytes.size() != sizeof id.bytes)
        fail(TUTTI_ERR_INVALID, "Communicator: invalid id of " + std::to_string(bytes.size()) +
                                    " bytes: create_id returns " + std::to_string(sizeof id.bytes));
    memcpy(id.bytes, bytes.data(), sizeof id.bytes);
    return id;
}

static void create(Communicator *self, std::optional<int> rank, std::optional<int> size,
                   const Text &rendezvous, std::optional<nb::bytes> id, const Text &token,
                   std::optional<double> timeout, const Text &transports, const Text &interfaces,
                   int lanes, bool restore, const Text &security)
{
    const Settings settings{ rendezvous, token,    transports,
                             interfaces, security, timeout_ms(timeout, "Communicator"),
                             lanes,      restore };
    std::optional<tutti_id> c_id;
    tutti_comm *comm = nullptr;

    if (rank.has_value() != size.has_value())
        fail(TUTTI_ERR_INVALID, "Communicator: rank and size must be given together");
    if (size && *size < 1)
        fail(TUTTI_ERR_INVALID,
             "Communicator: invalid size " + std::to_string(*size) + ": must be positive");
    if (id && (!rank || rendezvous || token))
        fail(TUTTI_ERR_INVALID,
             "Communicator: id needs rank and size, and replaces rendezvous and token");
    if (id)
        c_id = id_of(*id);
    const auto start = [settings, c_id, size, rank](tutti_comm **out) {
        tutti_conf conf = settings.conf();

        conf.nranks = size.value_or(0);
        conf.rank = rank.value_or(0);
        return c_id ? tutti_comm_create_id(out, &*c_id, *size, *rank, &conf)
                    : tutti_comm_create(out, &conf);
    };
    const Outcome outcome = create_in_background(&comm, start);

    if (outcome.status)
        fail(outcome.status, outcome.message);
    new (self) Communicator(comm);
}

static nb::bytes create_id(const Text &rendezvous, const Text &token, std::optional<double> timeout,
                           const Text &interfaces)
{
    const Settings settings{ rendezvous, token, {},
                             interfaces, {},    timeout_ms(timeout, "create_id"),
                             0,          true };
    const tutti_conf conf = settings.conf();
    tutti_id id;
    tutti_status st;

    {
        nb::gil_scoped_release release;

        st = tutti_id_create(&id, &conf);
    }
    check(st);
    return nb::bytes(id.bytes, sizeof id.bytes);
}

// A new communicator that f(parent, &out) creates; f owns what it uses. In the main thread, a
// signal can end the wait for it: then the creation continues, and the communicator is destroyed.
template <class F>
static std::unique_ptr<Communicator> derive(Communicator &self, const char *call, F f)
{
    const std::shared_ptr<Handle> handle = self.handle(call);
    tutti_comm *out = nullptr;

    if (!handles_signals()) {
        run_blocking(*handle, [&](tutti_comm *comm) { return f(comm, &out); });
    } else {
        const auto is_over = std::make_shared<std::atomic<bool>>(false);

        handle->creations.push_back(is_over);
        const InCall in_call(*handle);
        const Outcome outcome =
            create_in_background(&out, [comm = handle->comm, is_over, f](tutti_comm **made) {
                const tutti_status status = f(comm, made);

                is_over->store(true);
                return status;
            });
        if (outcome.status)
            fail(outcome.status, outcome.message);
    }
    return out ? std::make_unique<Communicator>(out) : nullptr;
}

static std::unique_ptr<Communicator> split(Communicator &self, std::optional<int> colour, int key)
{
    if (colour && *colour < 0)
        fail(TUTTI_ERR_INVALID,
             "split: invalid colour " + std::to_string(*colour) + ": must be 0 or more, or None");
    return derive(self, "split", [colour, key](tutti_comm *comm, tutti_comm **out) {
        return tutti_comm_split(comm, colour.value_or(-1), key, out);
    });
}

static std::unique_ptr<Communicator> create_group(Communicator &self, const std::vector<int> &ranks,
                                                  uint32_t tag)
{
    return derive(self, "create_group", [ranks, tag](tutti_comm *comm, tutti_comm **out) {
        return tutti_comm_create_group(comm, ranks.data(), (int)ranks.size(), tag, out);
    });
}

static const char communicator_doc[] =
    R"(A set of ranks (processes) that communicate. Creating it is collective: it blocks until all ranks have connected.

Communicator() takes rank, size and rendezvous from the environment of `tutti run`, mpirun, srun or torchrun
(TUTTI_RANK, TUTTI_SIZE, TUTTI_RENDEZVOUS). Without these the process is a single-rank job.

rank, size   this process and the number of ranks; both or neither
rendezvous   "tcp://host:port", "tcp://[v6]:port" or "file:///path", where rank 0 listens
id           bytes of create_id, in place of rendezvous and token
token        shared secret of the job
timeout      seconds: the deadline of start-up and the default deadline of every call; math.inf: none;
             None: TUTTI_TIMEOUT_MS, or 300
transports   allowed ones, e.g. "shm,tcp"; None: TUTTI_WIRES, or all except verbs and ofi
interfaces   network interfaces, e.g. "eth", "=eth0", "^docker,lo"
lanes        1 to 16 connections per peer; 0: chosen
restore      restore in-place input of a call that fails, at the cost of a copy
security     "plain", "token" or "certificate"

Arrays of all methods are objects with the buffer protocol or DLPack: NumPy arrays, torch tensors, array.array,
bytearray, memoryview. They must be C-contiguous and in host memory, and are not copied. NumPy arrays of bfloat16,
float8_e4m3fn and float8_e5m2 (ml_dtypes) are accepted. Complex numbers are reduced as pairs of floats (sum, avg).
Types that Tutti cannot reduce are moved as bytes. Counts and displacements are in items, timeouts in seconds.

All ranks call the collectives of a communicator in the same order. One thread at a time may use a communicator;
other Python threads run while a call blocks. In the main thread, Ctrl-C ends blocking collectives, sends, receives,
waits for requests, the start-up, split, dup and create_group within 0.1 s with KeyboardInterrupt. The
interrupted operation continues, and keeps its arrays until it completes. Waits of windows continue until their
deadline. A method whose name begins with "i" returns a Request at once.

Raises: TypeError if an argument is not an array in host memory. InvalidError (a ValueError) for other invalid
arguments; nothing is started. Else the subclass of tutti.Error of the status; see its `status` and `ranks`.

A context manager: `with tutti.Communicator() as comm:` destroys it at the end.)";

void bind_communicator(nb::module_ &m)
{
    nb::class_<Communicator> c(m, "Communicator", communicator_doc);

    c.def("__init__", create, "rank"_a = nb::none(), "size"_a = nb::none(),
          "rendezvous"_a = nb::none(), nb::kw_only(), "id"_a = nb::none(), "token"_a = nb::none(),
          "timeout"_a = nb::none(), "transports"_a = nb::none(), "interfaces"_a = nb::none(),
          "lanes"_a = 0, "restore"_a = false, "security"_a = nb::none());
    c.def_prop_ro(
        "rank", [](Communicator &self) { return tutti_comm_rank(self.handle("rank")->comm); },
        "This process's rank, from 0.");
    c.def_prop_ro(
        "size", [](Communicator &self) { return tutti_comm_size(self.handle("size")->comm); },
        "The number of ranks.");
    c.def(
        "split", split, "colour"_a.none(), "key"_a = 0,
        R"(Splits the communicator by colour. Collective. Within a colour, ranks are ordered by key, then by rank.

Returns the new communicator, or None on a rank that passes colour=None.)");
    c.def(
        "dup", [](Communicator &self) { return derive(self, "dup", tutti_comm_dup); },
        "Returns a communicator of the same ranks, whose messages never match those of this one. "
        "Collective.");
    c.def("create_group", create_group, "ranks"_a, "tag"_a = 0,
          R"(Returns a communicator of these ranks, in this order. Collective over these ranks only.

All of them pass the same list and tag. Groups that have a rank in common need different tags, if their ranks may
create them in a different order.)");
    c.def(
        "set_name",
        [](Communicator &self, const std::string &name) {
            check(tutti_comm_set_name(self.handle("set_name")->comm, name.c_str()));
        },
        "name"_a,
        R"(Names the communicator in traces, e.g. "tensor parallel". Local. At most 63 bytes are kept.)");
    c.def(
        "abort", [](Communicator &self) { check(tutti_comm_abort(self.handle("abort")->comm)); },
        "Ends all calls on all ranks of the communicator with AbortedError. Does not wait. Any "
        "thread.");
    c.def(
        "destroy", &Communicator::destroy,
        R"(Ends the communicator on this rank. Not collective. Pending requests fail with AbortedError.

Its memory and windows remain valid, and keep its connections until they are gone.)");
    c.def(
        "check", [](Communicator &self) { check(tutti_comm_status(self.handle("check")->comm)); },
        "Raises the error that ended the communicator, if one has. Never blocks. Any thread.");
    c.def_prop_ro("destroyed", &Communicator::is_destroyed, "Whether destroy was called.");
    c.def(
        "__enter__", [](nb::handle self) { return nb::borrow(self); },
        nb::sig("def __enter__(self) -> Communicator"));
    c.def(
        "__exit__", [](Communicator &self, nb::args) { self.destroy(); },
        nb::sig("def __exit__(self, *args: object) -> None"));
    c.def("__repr__", [](Communicator &self) {
        if (self.is_destroyed())
            return nb::str("<tutti.Communicator, destroyed>");
        return nb::str("<tutti.Communicator, rank {} of {}>")
            .format(tutti_comm_rank(self.handle("")->comm), tutti_comm_size(self.handle("")->comm));
    });
    bind_collectives(c);
    bind_memory(m, c);
    bind_window(m, c);

    m.def(
        "create_id", create_id, "rendezvous"_a = nb::none(), nb::kw_only(), "token"_a = nb::none(),
        "timeout"_a = nb::none(), "interfaces"_a = nb::none(),
        R"(Returns the rendezvous address of a new job as 128 bytes, which the application distributes to all ranks.

This process serves the start-up in the background. It need not become rank 0.)");
}

} // namespace tutti_core
