#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "communicator.hpp"
#include "tutti/rma.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tutti_core
{

using Seconds = std::optional<double>;

// What a Counter and its window share: the word, and the arrays of operations that have not
// completed locally.
struct Count {
    uint64_t value = 0; // the library adds to it
    uint64_t started = 0;
    std::vector<std::unique_ptr<Array>> arrays;

    uint64_t completed() const
    {
        return __atomic_load_n(&value, __ATOMIC_ACQUIRE);
    }
    void forget()
    {
        if (completed() >= started)
            arrays.clear();
    }
};

// What a tutti.Window stands for. If it is not freed, it stays until the process ends: to free it
// is collective.
struct Open {
    std::shared_ptr<Handle> handle;
    tutti_window *window = nullptr;
    Array own; // memory of the caller
    std::shared_ptr<Region> memory;
    std::vector<std::shared_ptr<Region>> peers; // by rank; NULL: not looked up
    std::vector<std::shared_ptr<Count>> counts;
    std::vector<std::unique_ptr<Array>> late; // of blocking calls that timed out
    int calls = 0;
};

class Window
{
  public:
    Window(Communicator &comm, const std::variant<size_t, ArrayLike> &memory);
    Window(const Window &) = delete;
    ~Window();

    Open &open(const char *call) const
    {
        if (!open_)
            fail(TUTTI_ERR_INVALID, std::string(call) + ": the window is freed");
        return *open_;
    }
    // Runs f(window) without the GIL, and throws its error.
    template <class F> tutti_status run(const char *call, F &&f) const
    {
        Open &o = open(call);
        tutti_status st;

        o.calls++;
        {
            nb::gil_scoped_release release;

            st = f(o.window);
        }
        o.calls--;
        if (st != TUTTI_PENDING)
            check(st);
        return st;
    }
    void free();
    bool is_freed() const
    {
        return !open_;
    }

  private:
    std::unique_ptr<Open> open_;
};

// tutti.Counter
struct Counter {
    std::shared_ptr<Count> count;
};

Window::Window(Communicator &comm, const std::variant<size_t, ArrayLike> &memory)
    : open_(std::make_unique<Open>())
{
    Open &o = *open_;
    const ArrayLike *array = std::get_if<ArrayLike>(&memory);
    void *data;
    size_t bytes;

    o.handle = comm.handle("window");
    if (array)
        o.own.take(*array, "window", "memory", true, true);
    run_blocking(*o.handle, [&](tutti_comm *c) {
        return tutti_window_create(c, array ? o.own.data : nullptr,
                                   array ? o.own.bytes : std::get<size_t>(memory), &o.window);
    });
    check(tutti_window_memory(o.window, &data, &bytes));
    o.memory = std::make_shared<Region>(o.handle, data, bytes, false);
    o.peers.resize((size_t)tutti_comm_size(o.handle->comm));
}

Window::~Window()
{
    if (!open_)
        return;
    if (PyErr_WarnEx(PyExc_ResourceWarning, "a tutti.Window was not freed (free() is collective)",
                     1))
        PyErr_WriteUnraisable(nullptr);
    (void)open_.release();
}

void Window::free()
{
    size_t exports;
    tutti_status st;

    if (!open_)
        return;
    if (open_->calls)
        fail(TUTTI_ERR_INVALID, "free: another thread is in a call on this window");
    exports = open_->memory->exports;
    for (const auto &peer : open_->peers)
        exports += peer ? peer->exports : 0;
    if (exports)
        throw nb::buffer_error(
            ("free: " + std::to_string(exports) + " arrays use the memory of the window").c_str());

    std::unique_ptr<Open> o = std::move(open_);

    o->memory->set_freed();
    for (const auto &peer : o->peers)
        if (peer)
            peer->set_freed();
    {
        nb::gil_scoped_release release;

        st = tutti_window_free(o->window);
    }
    o->counts.clear();
    check(st);
}

// ---- arguments ----

template <class T, size_t N>
static T named(const char *name, const std::pair<const char *, T> (&names)[N], const char *call,
               const char *what)
{
    std::string known;

    for (const auto &[known_name, value] : names) {
        if (!strcmp(name, known_name))
            return value;
        known += (known.empty() ? "" : ", ") + std::string(known_name);
    }
    fail(TUTTI_ERR_INVALID,
         std::string(call) + ": unknown " + what + " \"" + name + "\" (" + known + ")");
}

static tutti_signal_op signal_of(const char *name, const char *call)
{
    static const std::pair<const char *, tutti_signal_op> names[] = { { "set", TUTTI_SIGNAL_SET },
                                                                      { "add", TUTTI_SIGNAL_ADD } };

    return name ? named(name, names, call, "signal") : TUTTI_SIGNAL_NONE;
}

static tutti_compare compare_of(const char *name, const char *call)
{
    static const std::pair<const char *, tutti_compare> names[] = {
        { "equal", TUTTI_EQUAL }, { "at_least", TUTTI_AT_LEAST }, { "not_equal", TUTTI_NOT_EQUAL }
    };

    return named(name, names, call, "comparison");
}

static int rank_of(std::optional<int> rank, const char *call)
{
    if (rank && *rank < 0)
        fail(TUTTI_ERR_INVALID, std::string(call) + ": invalid rank " + std::to_string(*rank) +
                                    " (None means all ranks)");
    return rank.value_or(TUTTI_ALL_RANKS);
}

// ---- puts and gets ----

// The options of a put or get, with its arrays.
class Transfer
{
  public:
    Transfer(Window &window, const char *call, Counter *counter, const Seconds &timeout)
        : call(call), window_(window), count_(counter ? counter->count : nullptr)
    {
        options.size = sizeof options;
        options.timeout_ms = timeout_ms(timeout, call);
        options.counter = counter ? &count_->value : nullptr;
        window.open(call);
    }
    void signal(const char *op, uint64_t value, size_t offset, Window *in)
    {
        options.signal_op = signal_of(op, call);
        options.signal_value = value;
        options.signal_offset = offset;
        options.signal_window = in ? in->open(call).window : nullptr;
    }
    Array &array()
    {
        return *arrays_.emplace_back(std::make_unique<Array>());
    }

    // f(window, options). Arrays of an operation that goes on are kept.
    template <class F> bool run(F &&f)
    {
        Open &open = window_.open(call);
        bool pending = false;

        try {
            pending =
                window_.run(call, [&](tutti_window *w) { return f(w, &options); }) == TUTTI_PENDING;
        } catch (...) { // after a timeout the library may read or write them until a quiet
            move_to(open.late);
            throw;
        }
        if (count_ && !pending) {
            count_->forget();
            count_->started++;
            move_to(count_->arrays);
            keep(open);
        }
        return !pending;
    }

    const char *const call;
    tutti_rma options{};

  private:
    void move_to(std::vector<std::unique_ptr<Array>> &to)
    {
        for (auto &a : arrays_)
            to.push_back(std::move(a));
        arrays_.clear();
    }
    void keep(Open &open)
    {
        std::erase_if(open.counts,
                      [](auto &c) { return c->completed() >= c->started && c.use_count() == 1; });
        for (const auto &c : open.counts)
            if (c == count_)
                return;
        open.counts.push_back(count_);
    }

    Window &window_;
    const std::shared_ptr<Count> count_;
    std::vector<std::unique_ptr<Array>> arrays_;
};

static bool put(Window &self, int rank, size_t offset, ArrayLike src, OptionalText signal,
                uint64_t value, size_t signal_offset, Window *signal_window, Counter *counter,
                bool block, Seconds timeout)
{
    Transfer t(self, "put", counter, timeout);
    Array &array = t.array();

    array.take(src, t.call, "src", false, true);
    t.signal(signal, value, signal_offset, signal_window);
    t.options.no_wait = !block;
    return t.run([&](tutti_window *w, const tutti_rma *rma) {
        return tutti_window_put(w, rank, offset, array.data, array.bytes, rma);
    });
}

static void get(Window &self, int rank, size_t offset, ArrayLike dst, Counter *counter,
                Seconds timeout)
{
    Transfer t(self, "get", counter, timeout);
    Array &array = t.array();

    array.take(dst, t.call, "dst", true, true);
    t.run([&](tutti_window *w, const tutti_rma *rma) {
        return tutti_window_get(w, rank, offset, array.data, array.bytes, rma);
    });
}

static bool put_rows(Window &self, int rank, size_t offset, ArrayLike src, size_t stride,
                     OptionalText signal, uint64_t value, size_t signal_offset,
                     Window *signal_window, Counter *counter, bool block, Seconds timeout)
{
    Transfer t(self, "put_rows", counter, timeout);
    Array &array = t.array();

    array.take_rows(src, t.call, "src", true);
    t.signal(signal, value, signal_offset, signal_window);
    t.options.no_wait = !block;
    const tutti_rows rows = { array.rows, array.row_bytes, array.row_stride, stride };
    return t.run([&](tutti_window *w, const tutti_rma *rma) {
        return tutti_window_put_rows(w, rank, offset, array.data, &rows, rma);
    });
}

static bool put_pieces(Window &self, int rank, nb::typed<nb::iterable, nb::object> pieces,
                       OptionalText signal, uint64_t value, size_t signal_offset,
                       Window *signal_window, Counter *counter, bool block, Seconds timeout)
{
    Transfer t(self, "put_pieces", counter, timeout);
    std::vector<tutti_piece> list;

    for (nb::handle item : pieces) {
        const auto [offset, src] = nb::cast<std::pair<size_t, nb::object>>(item);
        Array &array = t.array();

        array.take({ src }, t.call, "the array of a piece", false, true);
        list.push_back({ offset, array.data, array.bytes });
    }
    t.signal(signal, value, signal_offset, signal_window);
    t.options.no_wait = !block;
    return t.run([&](tutti_window *w, const tutti_rma *rma) {
        return tutti_window_put_pieces(w, rank, list.data(), list.size(), rma);
    });
}

static void wait_counter(Window &self, Counter &counter, std::optional<uint64_t> value,
                         Seconds timeout)
{
    const std::shared_ptr<Count> count = counter.count;
    const int64_t ms = timeout_ms(timeout, "wait_counter");
    const uint64_t until = value.value_or(count->started);

    self.run("wait_counter", [&](tutti_window *w) {
        return tutti_window_wait_counter(w, &count->value, until, ms);
    });
    count->forget();
}

// ---- signals and atomics ----

static uint64_t wait(Window &self, size_t offset, uint64_t value, const char *compare,
                     Seconds timeout)
{
    const int64_t ms = timeout_ms(timeout, "wait");
    const tutti_compare c = compare_of(compare, "wait");
    uint64_t seen;

    self.run("wait",
             [&](tutti_window *w) { return tutti_window_wait(w, offset, c, value, ms, &seen); });
    return seen;
}

static std::pair<size_t, uint64_t> wait_any(Window &self, const std::vector<size_t> &offsets,
                                            uint64_t value, const char *compare, Seconds timeout)
{
    const int64_t ms = timeout_ms(timeout, "wait_any");
    const tutti_compare c = compare_of(compare, "wait_any");
    size_t index;
    uint64_t seen;

    self.run("wait_any", [&](tutti_window *w) {
        return tutti_window_wait_any(w, offsets.data(), offsets.size(), c, value, ms, &index,
                                     &seen);
    });
    return { index, seen };
}

static std::optional<uint64_t> test(Window &self, size_t offset, uint64_t value,
                                    const char *compare)
{
    const tutti_compare c = compare_of(compare, "test");
    uint64_t seen;
    const tutti_status st = self.run(
        "test", [&](tutti_window *w) { return tutti_window_test(w, offset, c, value, &seen); });

    return st == TUTTI_PENDING ? std::nullopt : std::optional(seen);
}

static std::optional<uint64_t> atomic(Window &self, int rank, size_t offset, const char *op,
                                      uint64_t operand, uint64_t compare, size_t nbytes, bool fetch)
{
    static const std::pair<const char *, tutti_atomic_op> names[] = { { "add", TUTTI_ATOMIC_ADD },
                                                                      { "swap", TUTTI_ATOMIC_SWAP },
                                                                      { "compare_swap",
                                                                        TUTTI_ATOMIC_COMPARE_SWAP },
                                                                      { "and", TUTTI_ATOMIC_AND },
                                                                      { "or", TUTTI_ATOMIC_OR },
                                                                      { "xor", TUTTI_ATOMIC_XOR } };
    const tutti_atomic_op c_op = named(op, names, "atomic", "op");
    uint64_t old = 0;

    self.run("atomic", [&](tutti_window *w) {
        return tutti_window_atomic(w, rank, offset, nbytes, c_op, operand, compare,
                                   fetch ? &old : nullptr);
    });
    return fetch ? std::optional(old) : std::nullopt;
}

static void quiet(Window &self, std::optional<int> rank, Seconds timeout)
{
    const int r = rank_of(rank, "quiet");
    const int64_t ms = timeout_ms(timeout, "quiet");
    const size_t late = self.open("quiet").late.size(); // what other threads add meanwhile stays

    self.run("quiet", [&](tutti_window *w) { return tutti_window_quiet(w, r, ms); });
    if (r == TUTTI_ALL_RANKS && !self.is_freed()) {
        auto &arrays = self.open("quiet").late;
        arrays.erase(arrays.begin(), arrays.begin() + (ptrdiff_t)std::min(late, arrays.size()));
    }
}

// ---- memory ----

static nb::object own_memory(Window &self)
{
    return memory_of(self.open("memory").memory);
}

// The memory of `rank` as this process can access it, or None.
static nb::object peer_memory(Window &self, int rank)
{
    Open &open = self.open("peer_memory");
    size_t bytes;
    void *data;

    self.run("peer_memory", [&](tutti_window *w) {
        const tutti_status st = tutti_window_bytes(w, rank, &bytes);

        return st ? st : tutti_window_pointer(w, rank, &data);
    });
    if (!data)
        return nb::none();

    std::shared_ptr<Region> &region = open.peers[(size_t)rank];

    if (!region)
        region = std::make_shared<Region>(open.handle, data, bytes, false);
    return memory_of(region);
}

// ---- as Python sees them ----

static const char window_doc[] =
    R"(Memory that every rank exposes to the others for one-sided access; made by Communicator.window.

Offsets and sizes are in bytes. `rank` is a rank of the communicator, which may be this one. Puts are unordered. A put
with a signal makes its data visible before the signal. `fence` orders earlier puts before later signals; `quiet` waits
until they are complete. All methods except free may be called by several threads.

free() is collective. A context manager: `with comm.window(n) as w:` frees it at the end.)";

static const char put_doc[] =
    R"(Puts the bytes of src into the window of `rank` at `offset`.

signal          "set" or "add": updates a 64-bit word of the target after the data, at byte `signal_offset` (a multiple
                of 8) of the same window or of `signal_window`
counter         the call does not block, and the counter grows by 1 when src may be changed again
block           with counter: False returns False, with nothing sent, if the queue of the target is full
timeout         seconds; None: the communicator's; math.inf: none

Without a counter it blocks until src may be changed again.)";

#define PUT_OPTIONS                                                                                               \
    nb::kw_only(), "signal"_a = nb::none(), "value"_a = 1, "signal_offset"_a = 0,              \
                   "signal_window"_a = nb::none(), "counter"_a = nb::none(), "block"_a = true, \
                   "timeout"_a = nb::none()

static void bind_transfers(nb::class_<Window> &c)
{
    c.def("put", put, "rank"_a, "offset"_a, "src"_a, PUT_OPTIONS, put_doc);
    c.def(
        "put_rows", put_rows, "rank"_a, "offset"_a, "src"_a, "stride"_a, PUT_OPTIONS,
        R"(Puts the rows of a 2-D array, which lie `stride` bytes apart in the window. The rest as in put.

Rows must be contiguous, but may be apart in src, e.g. a slice of columns. One signal, after all rows.)");
    c.def("put_pieces", put_pieces, "rank"_a, "pieces"_a, PUT_OPTIONS,
          "Puts pieces, a list of (offset, src), as one put with one signal. The rest as in put.");
    c.def("get", get, "rank"_a, "offset"_a, "dst"_a, nb::kw_only(), "counter"_a = nb::none(),
          "timeout"_a = nb::none(),
          R"(Gets the bytes of dst from the window of `rank` at `offset`.

With a counter it does not block, and the counter grows by 1 when dst is complete. timeout: seconds.)");
    c.def(
        "wait_counter", wait_counter, "counter"_a, "value"_a = nb::none(), "timeout"_a = nb::none(),
        R"(Blocks until the counter is at least `value`; None: until all its operations are complete.

Raises: TimeoutError; the window stays usable, and the operations continue.)");
    c.def(
        "fence",
        [](Window &self, std::optional<int> rank) {
            const int r = rank_of(rank, "fence");

            self.run("fence", [&](tutti_window *w) { return tutti_window_fence(w, r); });
        },
        "rank"_a = nb::none(),
        "Orders earlier puts and atomics to `rank` (None: all) before later signals, gets and "
        "atomics. Never waits.");
    c.def("quiet", quiet, "rank"_a = nb::none(), "timeout"_a = nb::none(),
          "Blocks until all earlier puts, gets and atomics to `rank` (None: all) are complete at "
          "their targets.");
}

static void bind_signals(nb::class_<Window> &c)
{
    c.def(
        "signal",
        [](Window &self, int rank, size_t offset, const char *op, uint64_t value) {
            const tutti_signal_op s = signal_of(op, "signal");

            self.run("signal", [&](tutti_window *w) {
                return tutti_window_signal(w, rank, offset, s, value);
            });
        },
        "rank"_a, "offset"_a, "op"_a = "set", "value"_a = 1,
        R"(Sets, or adds to, the 64-bit word at `offset` (a multiple of 8) of the window of `rank`.)");
    c.def(
        "wait", wait, "offset"_a, "value"_a, "compare"_a = "at_least", "timeout"_a = nb::none(),
        R"(Blocks until the 64-bit word at `offset` of this rank's window satisfies the comparison; returns the word.

compare: "equal", "at_least" (unsigned) or "not_equal". Data that was put before the signal is then visible.)");
    c.def("wait_any", wait_any, "offsets"_a, "value"_a, "compare"_a = "at_least",
          "timeout"_a = nb::none(),
          "As wait, for any of the words. Returns (lowest index that satisfies it, its word).");
    c.def("test", test, "offset"_a, "value"_a, "compare"_a = "at_least",
          "As wait, without blocking. Returns the word, or None if it does not satisfy the "
          "comparison yet.");
    c.def("atomic", atomic, "rank"_a, "offset"_a, "op"_a, "operand"_a, nb::kw_only(),
          "compare"_a = 0, "nbytes"_a = 8, "fetch"_a = true,
          R"(Updates the word of `nbytes` (4 or 8) at `offset` of the window of `rank` atomically.

op       "add", "swap", "compare_swap" (becomes operand if it is `compare`), "and", "or" or "xor"
fetch    True: blocks and returns the previous value. False: returns None; complete after quiet.)");
}

void bind_window(nb::module_ &m, nb::class_<Communicator> &comm)
{
    nb::class_<Counter>(
        m, "Counter",
        R"(Counts operations of a window that completed locally. Keeps their arrays until then.)")
        .def("__init__", [](Counter *self) { new (self) Counter{ std::make_shared<Count>() }; })
        .def_prop_ro(
            "value", [](Counter &self) { return self.count->completed(); }, "Completed operations.")
        .def_prop_ro(
            "started", [](Counter &self) { return self.count->started; },
            "Operations that were started.");

    nb::class_<Window> c(m, "Window", window_doc);
    bind_transfers(c);
    bind_signals(c);
    c.def_prop_ro("memory", own_memory, nb::sig("def memory(self) -> Memory"),
                  "This rank's memory of the window.");
    c.def(
        "peer_memory", peer_memory, "rank"_a,
        nb::sig("def peer_memory(self, rank: int) -> Memory | None"),
        R"(The memory of `rank`, if this process can load and store it (same host, library memory), else None.

A plain store does not wake waiting ranks: call signal afterwards.)");
    c.def(
        "nbytes_of",
        [](Window &self, int rank) {
            size_t bytes;

            self.run("nbytes_of",
                     [&](tutti_window *w) { return tutti_window_bytes(w, rank, &bytes); });
            return bytes;
        },
        "rank"_a, "Size of the window of `rank` in bytes.");
    c.def("free", &Window::free,
          R"(Frees the window. Collective. Arrays on its memory must be gone.

Raises: BufferError while arrays use the memory.)");
    c.def_prop_ro("freed", &Window::is_freed, "Whether free was called.");
    c.def(
        "__enter__", [](nb::handle self) { return nb::borrow(self); },
        nb::sig("def __enter__(self) -> Window"));
    c.def(
        "__exit__", [](Window &self, nb::args) { self.free(); },
        nb::sig("def __exit__(self, *args: object) -> None"));

    comm.def(
        "window",
        [](Communicator &self, const std::variant<size_t, ArrayLike> &memory) {
            return std::make_unique<Window>(self, memory);
        },
        "memory"_a,
        R"(Creates a window. Collective; sizes may differ between ranks and may be 0.

memory   bytes to allocate (zeroed, page-aligned, mapped by the ranks of this host), or a writable array, which the
         window keeps; signals and atomics need an address that is a multiple of 8)");
}

} // namespace tutti_core
