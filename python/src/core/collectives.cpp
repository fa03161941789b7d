#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "communicator.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace tutti_core
{

using Seconds = std::optional<double>;
using Counts = std::vector<size_t>;

// ---- arguments ----

static const char *kind_name(const Array &a)
{
    return a.kind == Kind::boolean   ? "bool"
           : a.kind == Kind::complex ? "complex numbers"
                                     : "this type";
}

// A reduction by its name, which must be defined for the items of `a`.
static tutti_redop redop_of(const char *name, const Array &a, const char *call)
{
    int op = 0;

    while (op < TUTTI_REDOP_COUNT && strcmp(name, tutti_redop_name((tutti_redop)op)))
        op++;
    if (op == TUTTI_REDOP_COUNT)
        fail(TUTTI_ERR_INVALID, std::string(call) + ": unknown op \"" + name +
                                    "\" (sum, prod, min, max, avg, band, bor, bxor, premul_sum)");
    if (a.kind == Kind::number)
        return (tutti_redop)op;
    if (a.kind == Kind::complex && (op == TUTTI_SUM || op == TUTTI_AVG || op == TUTTI_PREMUL_SUM))
        return (tutti_redop)op;
    if (a.kind == Kind::boolean && op != TUTTI_SUM && op != TUTTI_AVG && op != TUTTI_PREMUL_SUM)
        return (tutti_redop)op;
    throw nb::type_error(
        (std::string(call) + ": " + name + " is not defined for " + kind_name(a)).c_str());
}

static tutti_quant quant_of(const char *name, const char *call)
{
    std::string known;

    for (int q = 0; q < TUTTI_QUANT_COUNT; q++) {
        if (!name || !strcmp(name, tutti_quant_name((tutti_quant)q)))
            return (tutti_quant)q;
        known += (q ? ", " : "") + std::string(tutti_quant_name((tutti_quant)q));
    }
    fail(TUTTI_ERR_INVALID, std::string(call) + ": unknown quant \"" + name + "\" (" + known + ")");
}

// An error if `a` has not `items` items of the type of `like`.
static void expect(const Array &a, const char *name, size_t items, const Array &like,
                   const char *call)
{
    if (a.type != like.type || a.units != like.units || a.kind != like.kind)
        throw nb::type_error((std::string(call) + ": " + name + " has another type than src: " +
                              tutti_dtype_name(a.type) + " and " + tutti_dtype_name(like.type))
                                 .c_str());
    if (a.count != items * a.units)
        fail(TUTTI_ERR_INVALID, std::string(call) + ": " + name + " has " +
                                    std::to_string(a.count / a.units) + " items, but needs " +
                                    std::to_string(items));
}

static size_t sum_of(const Counts &counts)
{
    size_t sum = 0;

    for (size_t n : counts)
        sum += n;
    return sum;
}

// An error if the pieces do not lie inside `a`, which must have an item for each.
static void expect_pieces(const Array &a, const char *name, const Counts &counts,
                          const std::optional<Counts> &displs, int nranks, const char *call)
{
    const std::string where = std::string(call) + ": ";

    if (counts.size() != (size_t)nranks || (displs && displs->size() != (size_t)nranks))
        fail(TUTTI_ERR_INVALID, where + "counts and displacements must have one entry per rank (" +
                                    std::to_string(nranks) + ")");
    for (size_t r = 0; displs && r < counts.size(); r++) {
        const size_t items = a.count / a.units;

        if ((*displs)[r] > items || counts[r] > items - (*displs)[r])
            fail(TUTTI_ERR_INVALID, where + "the piece of rank " + std::to_string(r) + " (" +
                                        std::to_string(counts[r]) + " items at " +
                                        std::to_string((*displs)[r]) + ") is outside " + name +
                                        " of " + std::to_string(items) + " items");
    }
    if (!displs && sum_of(counts) * a.units != a.count)
        fail(TUTTI_ERR_INVALID, where + name + " has " + std::to_string(a.count / a.units) +
                                    " items, but counts add up to " +
                                    std::to_string(sum_of(counts)));
}

// The entries in elements of the C library.
static const size_t *scaled(Counts &out, const Counts &items, size_t units)
{
    out = items;
    if (units != 1)
        for (size_t &n : out)
            n *= units;
    return out.data();
}

static const size_t *scaled(Counts &out, const std::optional<Counts> &items, size_t units)
{
    return items ? scaled(out, *items, units) : nullptr;
}

// ---- a call ----

// One call of the C library; with `Async` its request. Its arrays are taken before it runs.
template <bool Async> class Call
{
  public:
    using Result = std::conditional_t<Async, std::unique_ptr<Request>, void>;

    Call(Communicator &comm, const char *name, const Seconds &timeout, const char *algo = nullptr)
        : name(name), handle_(comm.handle(name)), own_(handle_)
    {
        options.size = sizeof options;
        options.timeout_ms = timeout_ms(timeout, name);
        options.algo = algo;
        nranks = tutti_comm_size(handle_->comm);
        rank = tutti_comm_rank(handle_->comm);
    }

    Buffers &buffers()
    {
        return own_.buffers();
    }
    Array &src()
    {
        return buffers().src;
    }
    Array &dst()
    {
        return buffers().dst;
    }

    void take_src(ArrayLike array, bool writable = false)
    {
        src().take(array, name, "src", writable, Async);
    }
    void take_dst(ArrayLike array)
    {
        dst().take(array, name, "dst", true, Async);
    }

    // In place without dst: the result replaces src.
    void *in_place(ArrayLike src_array, const std::optional<ArrayLike> &dst_array)
    {
        take_src(src_array, !dst_array);
        if (!dst_array)
            return src().data;
        take_dst(*dst_array);
        expect(dst(), "dst", src().count / src().units, src(), name);
        return dst().data;
    }

    void reduce(const std::optional<double> &scale, std::optional<uint64_t> divisor)
    {
        options.scale = scale.value_or(0);
        options.divisor = divisor.value_or(0);
    }

    void quantize(const char *quant, const std::optional<ArrayLike> &feedback)
    {
        options.quant = quant_of(quant, name);
        if (!feedback)
            return;

        Array &f = buffers().feedback;

        f.take(*feedback, name, "error_feedback", true, Async);
        if (f.type != TUTTI_F32 || f.kind != Kind::number || f.count != src().count)
            fail(TUTTI_ERR_INVALID, std::string(name) + ": error_feedback must be f32 with the " +
                                        std::to_string(src().count) + " items of src");
        options.error_feedback = (float *)f.data;
    }

    template <class F> Result run(F &&f)
    {
        return own_.run(*handle_, options, std::forward<F>(f));
    }

    const char *const name;
    tutti_call options{};
    int nranks, rank;

  private:
    struct Sync {
        explicit Sync(const std::shared_ptr<Handle> &)
        {
        }
        Buffers &buffers()
        {
            return pending->buffers;
        }
        template <class F> void run(Handle &handle, tutti_call &options, F &&f)
        {
            run_interruptible(handle, pending, options, f);
        }
        std::unique_ptr<Pending> pending = std::make_unique<Pending>();
    };
    struct Started {
        explicit Started(const std::shared_ptr<Handle> &handle)
            : request(std::make_unique<Request>(handle))
        {
        }
        Buffers &buffers()
        {
            return request->buffers();
        }
        template <class F> std::unique_ptr<Request> run(Handle &, tutti_call &options, F &&f)
        {
            request->start([&](tutti_comm *comm, tutti_request **out) {
                options.request = out;
                return f(comm, &options);
            });
            return std::move(request);
        }
        std::unique_ptr<Request> request;
    };

    const std::shared_ptr<Handle> handle_;
    std::conditional_t<Async, Started, Sync> own_;
};

// ---- the calls ----

template <bool A>
static auto allreduce(Communicator &self, ArrayLike src, std::optional<ArrayLike> dst,
                      const char *op, OptionalText algo, Seconds timeout,
                      std::optional<double> scale, std::optional<uint64_t> divisor,
                      OptionalText quant, std::optional<ArrayLike> feedback)
{
    Call<A> call(self, "allreduce", timeout, algo);
    void *const out = call.in_place(src, dst);
    const tutti_redop redop = redop_of(op, call.src(), call.name);

    call.reduce(scale, divisor);
    call.quantize(quant, feedback);
    return call.run([&](tutti_comm *comm, const tutti_call *options) {
        return tutti_allreduce(call.src().data, out, call.src().count, call.src().type, redop, comm,
                               options);
    });
}

template <bool A>
static auto reduce(Communicator &self, ArrayLike src, std::optional<ArrayLike> dst, const char *op,
                   int root, OptionalText algo, Seconds timeout, std::optional<double> scale,
                   std::optional<uint64_t> divisor, OptionalText quant,
                   std::optional<ArrayLike> feedback)
{
    Call<A> call(self, "reduce", timeout, algo);
    void *out = nullptr;

    if (call.rank == root)
        out = call.in_place(src, dst);
    else
        call.take_src(src);
    const tutti_redop redop = redop_of(op, call.src(), call.name);
    call.reduce(scale, divisor);
    call.quantize(quant, feedback);
    return call.run([&](tutti_comm *comm, const tutti_call *options) {
        return tutti_reduce(call.src().data, out, call.src().count, call.src().type, redop, root,
                            comm, options);
    });
}

template <bool A>
static auto reduce_scatter(Communicator &self, ArrayLike src, ArrayLike dst, const char *op,
                           OptionalText algo, Seconds timeout, std::optional<double> scale,
                           std::optional<uint64_t> divisor, OptionalText quant,
                           std::optional<ArrayLike> feedback)
{
    Call<A> call(self, "reduce_scatter", timeout, algo);

    call.take_src(src);
    call.take_dst(dst);
    expect(call.src(), "src", call.dst().count / call.dst().units * (size_t)call.nranks, call.dst(),
           call.name);
    const tutti_redop redop = redop_of(op, call.src(), call.name);
    call.reduce(scale, divisor);
    call.quantize(quant, feedback);
    return call.run([&](tutti_comm *comm, const tutti_call *options) {
        return tutti_reduce_scatter(call.src().data, call.dst().data, call.dst().count,
                                    call.src().type, redop, comm, options);
    });
}

template <bool A>
static auto reduce_scatterv(Communicator &self, ArrayLike src, ArrayLike dst, const Counts &counts,
                            const char *op, OptionalText algo, Seconds timeout,
                            std::optional<double> scale, std::optional<uint64_t> divisor)
{
    Call<A> call(self, "reduce_scatterv", timeout, algo);

    call.take_src(src);
    call.take_dst(dst);
    expect_pieces(call.src(), "src", counts, {}, call.nranks, call.name);
    expect(call.dst(), "dst", counts[(size_t)call.rank], call.src(), call.name);
    const tutti_redop redop = redop_of(op, call.src(), call.name);
    call.reduce(scale, divisor);
    const size_t *const c = scaled(call.buffers().counts[0], counts, call.src().units);
    return call.run([&](tutti_comm *comm, const tutti_call *options) {
        return tutti_reduce_scatterv(call.src().data, call.dst().data, c, call.src().type, redop,
                                     comm, options);
    });
}

template <bool A>
static auto allgather(Communicator &self, ArrayLike src, ArrayLike dst, OptionalText algo,
                      Seconds timeout, OptionalText quant, std::optional<ArrayLike> feedback)
{
    Call<A> call(self, "allgather", timeout, algo);

    call.take_src(src);
    call.take_dst(dst);
    expect(call.dst(), "dst", call.src().count / call.src().units * (size_t)call.nranks, call.src(),
           call.name);
    call.quantize(quant, feedback);
    return call.run([&](tutti_comm *comm, const tutti_call *options) {
        return tutti_allgather(call.src().data, call.dst().data, call.src().count, call.src().type,
                               comm, options);
    });
}

template <bool A>
static auto allgatherv(Communicator &self, ArrayLike src, ArrayLike dst, const Counts &counts,
                       const std::optional<Counts> &displs, OptionalText algo, Seconds timeout)
{
    Call<A> call(self, "allgatherv", timeout, algo);

    call.take_src(src);
    call.take_dst(dst);
    expect_pieces(call.dst(), "dst", counts, displs, call.nranks, call.name);
    expect(call.dst(), "dst", call.dst().count / call.dst().units, call.src(), call.name);
    expect(call.src(), "src", counts[(size_t)call.rank], call.src(), call.name);
    const size_t *const c = scaled(call.buffers().counts[0], counts, call.src().units);
    const size_t *const d = scaled(call.buffers().displs[0], displs, call.src().units);
    return call.run([&](tutti_comm *comm, const tutti_call *options) {
        return tutti_allgatherv(call.src().data, call.dst().data, c, d, call.src().type, comm,
                                options);
    });
}

template <bool A>
static auto broadcast(Communicator &self, ArrayLike src, std::optional<ArrayLike> dst, int root,
                      OptionalText algo, Seconds timeout, OptionalText quant,
                      std::optional<ArrayLike> feedback)
{
    Call<A> call(self, "broadcast", timeout, algo);
    void *out;

    if (!dst && call.rank == root) { // which only reads it
        call.take_src(src);
        out = call.src().data;
    } else {
        out = call.in_place(src, dst);
    }
    call.quantize(quant, feedback);
    return call.run([&](tutti_comm *comm, const tutti_call *options) {
        return tutti_broadcast(call.src().data, out, call.src().count, call.src().type, root, comm,
                               options);
    });
}

// dst of a gather: on root only.
template <bool A>
static void *take_root_dst(Call<A> &call, const std::optional<ArrayLike> &dst, int root)
{
    if (call.rank != root)
        return nullptr;
    if (!dst)
        fail(TUTTI_ERR_INVALID,
             std::string(call.name) + ": dst is None on the root, rank " + std::to_string(root));
    call.take_dst(*dst);
    return call.dst().data;
}

template <bool A>
static auto gather(Communicator &self, ArrayLike src, std::optional<ArrayLike> dst, int root,
                   OptionalText algo, Seconds timeout)
{
    Call<A> call(self, "gather", timeout, algo);
    void *out;

    call.take_src(src);
    out = take_root_dst(call, dst, root);
    if (out)
        expect(call.dst(), "dst", call.src().count / call.src().units * (size_t)call.nranks,
               call.src(), call.name);
    return call.run([&](tutti_comm *comm, const tutti_call *options) {
        return tutti_gather(call.src().data, out, call.src().count, call.src().type, root, comm,
                            options);
    });
}

template <bool A>
static auto gatherv(Communicator &self, ArrayLike src, std::optional<ArrayLike> dst,
                    const Counts &counts, const std::optional<Counts> &displs, int root,
                    OptionalText algo, Seconds timeout)
{
    Call<A> call(self, "gatherv", timeout, algo);
    void *out;

    call.take_src(src);
    out = take_root_dst(call, dst, root);
    if (call.rank == root) {
        expect_pieces(call.dst(), "dst", counts, displs, call.nranks, call.name);
        expect(call.dst(), "dst", call.dst().count / call.dst().units, call.src(), call.name);
    } else if (counts.size() != (size_t)call.nranks ||
               (displs && displs->size() != counts.size())) {
        fail(TUTTI_ERR_INVALID, "gatherv: counts and displacements must have one entry per rank (" +
                                    std::to_string(call.nranks) + ")");
    }
    expect(call.src(), "src", counts[(size_t)call.rank], call.src(), call.name);
    const size_t *const c = scaled(call.buffers().counts[0], counts, call.src().units);
    const size_t *const d = scaled(call.buffers().displs[0], displs, call.src().units);
    return call.run([&](tutti_comm *comm, const tutti_call *options) {
        return tutti_gatherv(call.src().data, out, c, d, call.src().type, root, comm, options);
    });
}

// src of a scatter: on root only.
template <bool A>
static const void *take_root_src(Call<A> &call, const std::optional<ArrayLike> &src, int root)
{
    if (call.rank != root)
        return nullptr;
    if (!src)
        fail(TUTTI_ERR_INVALID,
             std::string(call.name) + ": src is None on the root, rank " + std::to_string(root));
    call.take_src(*src);
    return call.src().data;
}

template <bool A>
static auto scatter(Communicator &self, std::optional<ArrayLike> src, ArrayLike dst, int root,
                    OptionalText algo, Seconds timeout)
{
    Call<A> call(self, "scatter", timeout, algo);
    const void *in;

    call.take_dst(dst);
    in = take_root_src(call, src, root);
    if (call.rank == root)
        expect(call.src(), "src", call.dst().count / call.dst().units * (size_t)call.nranks,
               call.dst(), call.name);
    return call.run([&](tutti_comm *comm, const tutti_call *options) {
        return tutti_scatter(in, call.dst().data, call.dst().count, call.dst().type, root, comm,
                             options);
    });
}

template <bool A>
static auto scatterv(Communicator &self, std::optional<ArrayLike> src, ArrayLike dst,
                     const Counts &counts, const std::optional<Counts> &displs, int root,
                     OptionalText algo, Seconds timeout)
{
    Call<A> call(self, "scatterv", timeout, algo);
    const void *in;

    call.take_dst(dst);
    in = take_root_src(call, src, root);
    if (call.rank == root) {
        expect_pieces(call.src(), "src", counts, displs, call.nranks, call.name);
        expect(call.src(), "src", call.src().count / call.src().units, call.dst(), call.name);
    } else if (counts.size() != (size_t)call.nranks ||
               (displs && displs->size() != counts.size())) {
        fail(TUTTI_ERR_INVALID,
             "scatterv: counts and displacements must have one entry per rank (" +
                 std::to_string(call.nranks) + ")");
    }
    expect(call.dst(), "dst", counts[(size_t)call.rank], call.dst(), call.name);
    const size_t *const c = scaled(call.buffers().counts[0], counts, call.dst().units);
    const size_t *const d = scaled(call.buffers().displs[0], displs, call.dst().units);
    return call.run([&](tutti_comm *comm, const tutti_call *options) {
        return tutti_scatterv(in, call.dst().data, c, d, call.dst().type, root, comm, options);
    });
}

template <bool A>
static auto alltoall(Communicator &self, ArrayLike src, std::optional<ArrayLike> dst,
                     OptionalText algo, Seconds timeout)
{
    Call<A> call(self, "alltoall", timeout, algo);
    void *const out = call.in_place(src, dst);
    const size_t items = call.src().count / call.src().units, n = (size_t)call.nranks;

    if (items % n)
        fail(TUTTI_ERR_INVALID, "alltoall: src has " + std::to_string(items) +
                                    " items, which is not a multiple of " + std::to_string(n) +
                                    " ranks");
    return call.run([&](tutti_comm *comm, const tutti_call *options) {
        return tutti_alltoall(call.src().data, out, call.src().count / n, call.src().type, comm,
                              options);
    });
}

template <bool A>
static auto alltoallv(Communicator &self, ArrayLike src, const Counts &send_counts, ArrayLike dst,
                      const Counts &recv_counts, const std::optional<Counts> &send_displs,
                      const std::optional<Counts> &recv_displs, OptionalText algo, Seconds timeout)
{
    Call<A> call(self, "alltoallv", timeout, algo);
    Buffers &b = call.buffers();

    call.take_src(src);
    call.take_dst(dst);
    expect(call.dst(), "dst", call.dst().count / call.dst().units, call.src(), call.name);
    expect_pieces(call.src(), "src", send_counts, send_displs, call.nranks, call.name);
    expect_pieces(call.dst(), "dst", recv_counts, recv_displs, call.nranks, call.name);
    const size_t units = call.src().units;
    const size_t *const sc = scaled(b.counts[0], send_counts, units), *const sd = scaled(
                                                                          b.displs[0], send_displs,
                                                                          units);
    const size_t *const rc = scaled(b.counts[1], recv_counts, units), *const rd = scaled(
                                                                          b.displs[1], recv_displs,
                                                                          units);
    return call.run([&](tutti_comm *comm, const tutti_call *options) {
        return tutti_alltoallv(call.src().data, sc, sd, call.dst().data, rc, rd, call.src().type,
                               comm, options);
    });
}

template <bool A> static auto barrier(Communicator &self, OptionalText algo, Seconds timeout)
{
    Call<A> call(self, "barrier", timeout, algo);

    return call.run(
        [&](tutti_comm *comm, const tutti_call *options) { return tutti_barrier(comm, options); });
}

template <bool A>
static auto send(Communicator &self, ArrayLike src, int peer, uint32_t tag, Seconds timeout)
{
    Call<A> call(self, "send", timeout);

    call.take_src(src);
    call.options.tag = tag;
    return call.run([&](tutti_comm *comm, const tutti_call *options) {
        return tutti_send(call.src().data, call.src().count, call.src().type, peer, comm, options);
    });
}

template <bool A>
static auto recv(Communicator &self, ArrayLike dst, int peer, uint32_t tag, Seconds timeout)
{
    Call<A> call(self, "recv", timeout);

    call.take_dst(dst);
    call.options.tag = tag;
    return call.run([&](tutti_comm *comm, const tutti_call *options) {
        return tutti_recv(call.dst().data, call.dst().count, call.dst().type, peer, comm, options);
    });
}

// One send or receive of a group, before the group is called.
struct Part {
    bool is_recv;
    nb::object array;
    int peer;
    uint32_t tag;
};
struct Send : Part {
};
struct Recv : Part {
};

template <bool A>
static auto group(Communicator &self, nb::typed<nb::iterable, nb::object> parts, Seconds timeout)
{
    Call<A> call(self, "group", timeout);
    std::vector<tutti_p2p> ops;

    for (nb::handle item : parts) {
        const Part *p = nb::isinstance<Send>(item)   ? (const Part *)nb::inst_ptr<Send>(item)
                        : nb::isinstance<Recv>(item) ? (const Part *)nb::inst_ptr<Recv>(item)
                                                     : nullptr;
        if (!p)
            throw nb::type_error("group: each entry must be a tutti.Send or a tutti.Recv");

        auto &array = call.buffers().more.emplace_back(std::make_unique<Array>());
        array->take({ p->array }, "group",
                    p->is_recv ? "the array of a Recv" : "the array of a Send", p->is_recv, true);
        ops.push_back({ p->is_recv, p->peer, array->data, array->count, array->type, p->tag });
    }
    return call.run([&](tutti_comm *comm, const tutti_call *options) {
        return tutti_group(ops.data(), ops.size(), comm, options);
    });
}

// ---- as Python sees them ----

static const char reduction_doc[] = R"(

op              "sum", "prod", "min", "max", "avg", "band", "bor", "bxor" or "premul_sum"
algo            forces an algorithm, e.g. "ring"; the same on all ranks (`tutti info --algos`)
timeout         seconds; None: the communicator's; math.inf: none
scale           premul_sum only: the factor of this rank
divisor         avg only: divides the sum instead of the number of ranks)";
static const char quant_doc[] = R"(
quant           quantized transfer: "minmax8", "minmax4", "zero8", "zero4", "e4m3" or "e5m2"; f16, bf16, f32, f64
error_feedback  with quant: f32 array of the items of src, zeros before the first call, kept between calls)";
static const char moving_doc[] = R"(

algo            forces an algorithm; the same on all ranks (`tutti info --algos`)
timeout         seconds; None: the communicator's; math.inf: none)";

// Adds a method and its non-blocking form.
#define DEF_BOTH(function, doc, ...)                                                  \
    do {                                                                              \
        const std::string text = doc;                                                 \
        c.def(#function, function<false>, __VA_ARGS__, text.c_str());                 \
        c.def("i" #function, function<true>, __VA_ARGS__,                             \
              ("Non-blocking " #function ": returns a Request.\n\n" + text).c_str()); \
    } while (0)

#define REDUCTION \
    nb::kw_only(), "algo"_a = nb::none(), "timeout"_a = nb::none(), "scale"_a = nb::none(), \
                   "divisor"_a = nb::none()
#define MOVING nb::kw_only(), "algo"_a = nb::none(), "timeout"_a = nb::none()
#define QUANT "quant"_a = nb::none(), "error_feedback"_a = nb::none()

static void bind_reductions(nb::class_<Communicator> &c)
{
    DEF_BOTH(
        allreduce,
        std::string("dst = op over all ranks of src. Shapes: src[n], dst[n], on every rank.\n\n"
                    "Without dst the result replaces src.") +
            reduction_doc + quant_doc,
        "src"_a, "dst"_a = nb::none(), "op"_a = "sum", REDUCTION, QUANT);
    DEF_BOTH(reduce,
             std::string(
                 "As allreduce, with the result on `root` only; dst is ignored on other ranks.\n\n"
                 "Without dst the result replaces src on the root.") +
                 reduction_doc + quant_doc,
             "src"_a, "dst"_a = nb::none(), "op"_a = "sum", "root"_a = 0, REDUCTION, QUANT);
    DEF_BOTH(reduce_scatter,
             std::string("Reduces src[size][n]; dst[n] is row `rank` of the result.") +
                 reduction_doc + quant_doc,
             "src"_a, "dst"_a, "op"_a = "sum", REDUCTION, QUANT);
    DEF_BOTH(
        reduce_scatterv,
        std::string("As reduce_scatter, with rows of counts[r] items packed in rank order, and "
                    "dst[counts[rank]].\n\ncounts has an entry per rank and is the same on all "
                    "ranks.") +
            reduction_doc,
        "src"_a, "dst"_a, "counts"_a, "op"_a = "sum", REDUCTION);
}

static void bind_moves(nb::class_<Communicator> &c)
{
    DEF_BOTH(allgather,
             std::string("dst[r] = src of rank r. Shapes: src[n], dst[size][n].") + moving_doc +
                 quant_doc,
             "src"_a, "dst"_a, MOVING, QUANT);
    DEF_BOTH(
        allgatherv,
        std::string("As allgather, with counts[r] items of rank r at item displs[r] of dst.\n\n"
                    "counts and displs are the same on all ranks. Without displs: packed.") +
            moving_doc,
        "src"_a, "dst"_a, "counts"_a, "displs"_a = nb::none(), MOVING);
    DEF_BOTH(broadcast,
             std::string(
                 "dst[n] on every rank = src[n] of root; src is ignored on other ranks.\n\n"
                 "Without dst, src is the array of every rank: input on the root, else output.") +
                 moving_doc + quant_doc,
             "src"_a, "dst"_a = nb::none(), "root"_a = 0, MOVING, QUANT);
    DEF_BOTH(gather,
             std::string("dst[r] on root = src of rank r. Shapes: src[n], dst[size][n] on root.") +
                 moving_doc,
             "src"_a, "dst"_a = nb::none(), "root"_a = 0, MOVING);
    DEF_BOTH(gatherv,
             std::string("As gather, with counts[r] items of rank r at item displs[r] of dst.") +
                 moving_doc,
             "src"_a, "dst"_a.none(), "counts"_a, "displs"_a = nb::none(), "root"_a = 0, MOVING);
    DEF_BOTH(scatter,
             std::string(
                 "dst of rank r = src[r] of root. Shapes: src[size][n] on root (None elsewhere), "
                 "dst[n].") +
                 moving_doc,
             "src"_a.none(), "dst"_a, "root"_a = 0, MOVING);
    DEF_BOTH(scatterv,
             std::string("As scatter, with counts[r] items for rank r at item displs[r] of src.") +
                 moving_doc,
             "src"_a.none(), "dst"_a, "counts"_a, "displs"_a = nb::none(), "root"_a = 0, MOVING);
    DEF_BOTH(
        alltoall,
        std::string(
            "dst[r] on this rank = src[rank] of rank r. Shapes: src[size][n], dst[size][n].\n\n"
            "Without dst the result replaces src.") +
            moving_doc,
        "src"_a, "dst"_a = nb::none(), MOVING);
    DEF_BOTH(
        alltoallv,
        std::string(
            "As alltoall, with this rank's own counts and displacements per rank, in items.\n\n"
            "recv_counts[r] must equal send_counts of rank r for this rank.") +
            moving_doc,
        "src"_a, "send_counts"_a, "dst"_a, "recv_counts"_a, "send_displs"_a = nb::none(),
        "recv_displs"_a = nb::none(), MOVING);
    DEF_BOTH(barrier, std::string("Returns only after all ranks have called it.") + moving_doc,
             MOVING);
}

static void bind_messages(nb::class_<Communicator> &c)
{
    DEF_BOTH(send,
             std::string(
                 "Sends src[n] to rank `peer`, which receives it with the same type, n and tag.\n\n"
                 "Messages of a pair of ranks match in call order per tag. timeout: seconds."),
             "src"_a, "peer"_a, nb::kw_only(), "tag"_a = 0, "timeout"_a = nb::none());
    DEF_BOTH(recv,
             std::string("Receives dst[n] from rank `peer`. timeout: seconds.\n\n"
                         "Raises: MismatchError if type or size differ from those of the send."),
             "dst"_a, "peer"_a, nb::kw_only(), "tag"_a = 0, "timeout"_a = nb::none());
    DEF_BOTH(
        group,
        std::string("Runs sends and receives (a list of tutti.Send and tutti.Recv) together.\n\n"
                    "No order among them can deadlock. Sends between one pair match in list order. "
                    "timeout: "
                    "seconds, of each."),
        "parts"_a, nb::kw_only(), "timeout"_a = nb::none());
}

void bind_collectives(nb::class_<Communicator> &c)
{
    bind_reductions(c);
    bind_moves(c);
    bind_messages(c);
}

template <class T>
static void bind_part(nb::module_ &m, const char *name, const char *doc, bool is_recv)
{
    nb::class_<T>(m, name, doc)
        .def(
            "__init__",
            [is_recv](T *self, ArrayLike array, int peer, uint32_t tag) {
                new (self) T{ { is_recv, nb::borrow(array.object), peer, tag } };
            },
            "array"_a, "peer"_a, "tag"_a = 0)
        .def_prop_ro(
            "array", [](T &self) { return self.array; }, "The array that is sent or received into.")
        .def_ro("peer", &T::peer, "The other rank.")
        .def_ro("tag", &T::tag, "Matched with the tag of the other side.");
}

void bind_parts(nb::module_ &m)
{
    bind_part<Send>(m, "Send", "A send of Communicator.group: the array to rank `peer`.", false);
    bind_part<Recv>(m, "Recv", "A receive of Communicator.group: into the array, from rank `peer`.",
                    true);
}

} // namespace tutti_core
