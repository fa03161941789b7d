#include "communicator.hpp"
#include "tutti/trace.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <exception>
#include <string>
#include <vector>

namespace nb = nanobind;
using namespace nb::literals;

namespace tutti_core
{

namespace
{

// A copy of a record: its strings are valid only in the callback.
struct Record {
    uint64_t number, comm, seq, count, bytes, called_ns, started_ns, ended_ns;
    std::string comm_name, of, kind, type, redop, status;
    std::optional<std::string> algo, note;
    int64_t root, peer, tag;
};

std::optional<std::string> optional_text(const char *text)
{
    return text ? std::optional<std::string>(text) : std::nullopt;
}

int keep(void *arg, const tutti_trace_op *op)
{
    Record r;

    r.number = op->number;
    r.comm = op->comm;
    r.seq = op->seq;
    r.count = op->count;
    r.bytes = op->bytes;
    r.called_ns = op->called_ns;
    r.started_ns = op->started_ns;
    r.ended_ns = op->ended_ns;
    r.comm_name = op->comm_name;
    r.of = op->of;
    r.kind = op->kind;
    r.type = op->type < 0 ? "" : tutti_dtype_name((tutti_dtype)op->type);
    r.redop = op->redop < 0 ? "" : tutti_redop_name((tutti_redop)op->redop);
    r.status = op->status == TUTTI_STATUS_COUNT ? "" : tutti_status_name(op->status);
    r.algo = optional_text(op->algo);
    r.note = optional_text(op->note);
    r.root = op->root;
    r.peer = op->peer;
    r.tag = op->tag;
    static_cast<std::vector<Record> *>(arg)->push_back(std::move(r));
    return 0;
}

nb::object text_or_none(const std::string &s)
{
    return s.empty() ? nb::object(nb::none()) : nb::object(nb::str(s.c_str(), s.size()));
}

nb::object number_or_none(int64_t v, bool valid)
{
    return valid ? nb::object(nb::int_(v)) : nb::object(nb::none());
}

nb::dict dict_of(const Record &r)
{
    nb::dict d;

    d["number"] = r.number;
    d["comm"] = r.comm;
    d["comm_name"] = nb::str(r.comm_name.c_str(), r.comm_name.size());
    d["of"] = r.of;
    d["seq"] = r.seq;
    d["kind"] = r.kind;
    d["algo"] = text_or_none(r.algo.value_or(""));
    d["count"] = r.count;
    d["bytes"] = r.bytes;
    d["type"] = text_or_none(r.type);
    d["op"] = text_or_none(r.redop);
    d["root"] = number_or_none(r.root, r.root >= 0);
    d["peer"] = number_or_none(r.peer, r.peer >= 0);
    d["tag"] = number_or_none(r.tag, r.tag >= 0);
    d["called_ns"] = r.called_ns;
    d["started_ns"] = number_or_none((int64_t)r.started_ns, r.started_ns != 0);
    d["ended_ns"] = number_or_none((int64_t)r.ended_ns, r.ended_ns != 0);
    d["status"] = text_or_none(r.status);
    d["note"] = text_or_none(r.note.value_or(""));
    return d;
}

nb::list trace_read()
{
    std::vector<Record> records;
    tutti_status st;
    nb::list out;

    {
        nb::gil_scoped_release release;

        st = tutti_trace_read(keep, &records, nullptr);
    }
    check(st);
    for (const Record &r : records)
        out.append(dict_of(r));
    return out;
}

void trace_dump(std::optional<std::string> path, std::optional<std::string> message)
{
    tutti_status st;

    {
        nb::gil_scoped_release release;

        st = tutti_trace_dump(path ? path->c_str() : nullptr, message ? message->c_str() : nullptr);
    }
    check(st);
}

} // namespace

void bind_trace(nb::module_ &m)
{
    m.def(
        "trace_annotate",
        [](const std::string &text) { check(tutti_trace_annotate(text.c_str())); }, "text"_a,
        R"(Annotates all operations that this process begins from now on, e.g. "iteration 120, forward".

At most 103 bytes are kept; "" ends the annotation.)");
    m.def("trace_dump", trace_dump, "path"_a = nb::none(), "message"_a = nb::none(),
          R"(Writes the recorded operations of this process to a file, for `tutti analyze`.

path      the file; None: tutti-trace.JOB.RANK.jsonl in the directory TUTTI_TRACE_DIR
message   is stored in the file

Waits at most 5 seconds, even if the disk does not respond: then TimeoutError.)");
    m.def(
        "trace_read", trace_read,
        R"(Returns the recorded operations of this process, in order of their calls: a list of dicts.

The keys are those of tutti_trace_op (tutti/trace.h): kind, comm_name, seq, count, bytes, type, op, root, peer, tag,
algo, called_ns, started_ns, ended_ns (time.monotonic_ns), status ("OK", "PENDING", ...), note, and others. A value
without a meaning is None.)");
}

} // namespace tutti_core
