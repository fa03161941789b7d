#include "tensors.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Exception.h>

namespace tutti_torch
{

void fail(tutti_status status, const std::string &message, const std::string &what)
{
    TORCH_CHECK_WITH(DistBackendError, false, "tutti: ", what, ": ", tutti_status_name(status),
                     ": ", message);
}

void check(tutti_status status, const char *what)
{
    if (status != TUTTI_OK)
        fail(status, tutti_last_error(), what);
}

namespace
{

const char *name_of(c10d::ReduceOp::RedOpType op)
{
    switch (op) {
    case c10d::ReduceOp::SUM:
        return "SUM";
    case c10d::ReduceOp::AVG:
        return "AVG";
    case c10d::ReduceOp::PRODUCT:
        return "PRODUCT";
    case c10d::ReduceOp::MIN:
        return "MIN";
    case c10d::ReduceOp::MAX:
        return "MAX";
    case c10d::ReduceOp::BAND:
        return "BAND";
    case c10d::ReduceOp::BOR:
        return "BOR";
    case c10d::ReduceOp::BXOR:
        return "BXOR";
    case c10d::ReduceOp::PREMUL_SUM:
        return "PREMUL_SUM";
    default:
        return "unknown";
    }
}

[[noreturn]] void refuse(const at::Tensor &tensor, const c10d::ReduceOp &op, const char *why)
{
    C10_THROW_ERROR(ValueError, c10::str("tutti: ReduceOp.", name_of(op.op_),
                                         " is not supported for ", tensor.scalar_type(), why));
}

bool is_linear(c10d::ReduceOp::RedOpType op)
{
    return op == c10d::ReduceOp::SUM || op == c10d::ReduceOp::AVG ||
           op == c10d::ReduceOp::PREMUL_SUM;
}

// per_element is 0 for a type that Tutti does not have.
Element element_of(at::ScalarType type)
{
    switch (type) {
    case at::kChar:
        return { TUTTI_I8, 1 };
    case at::kByte:
        return { TUTTI_U8, 1 };
    case at::kBool:
        return { TUTTI_U8, 1 };
    case at::kShort:
        return { TUTTI_I16, 1 };
    case at::kUInt16:
        return { TUTTI_U16, 1 };
    case at::kInt:
        return { TUTTI_I32, 1 };
    case at::kUInt32:
        return { TUTTI_U32, 1 };
    case at::kLong:
        return { TUTTI_I64, 1 };
    case at::kUInt64:
        return { TUTTI_U64, 1 };
    case at::kHalf:
        return { TUTTI_F16, 1 };
    case at::kBFloat16:
        return { TUTTI_BF16, 1 };
    case at::kFloat:
        return { TUTTI_F32, 1 };
    case at::kDouble:
        return { TUTTI_F64, 1 };
    case at::kFloat8_e4m3fn:
        return { TUTTI_F8E4M3, 1 };
    case at::kFloat8_e5m2:
        return { TUTTI_F8E5M2, 1 };
    case at::kComplexHalf:
        return { TUTTI_F16, 2 };
    case at::kComplexFloat:
        return { TUTTI_F32, 2 };
    case at::kComplexDouble:
        return { TUTTI_F64, 2 };
    default:
        return { TUTTI_U8, 0 };
    }
}

Element element_of(const at::Tensor &tensor, const c10d::ReduceOp &op)
{
    const Element element = element_of(tensor.scalar_type());

    if (!element.per_element)
        refuse(tensor, op, "");
    if (tensor.is_complex() && !is_linear(op.op_))
        refuse(tensor, op, " (complex numbers have SUM, AVG and PREMUL_SUM)");
    return element;
}

// Sums of truth values are "or", products are "and", as in NCCL's backend: the result must be a
// truth value again.
tutti_redop op_of_bool(const at::Tensor &tensor, const c10d::ReduceOp &op)
{
    switch (op.op_) {
    case c10d::ReduceOp::SUM:
    case c10d::ReduceOp::MAX:
        return TUTTI_MAX;
    case c10d::ReduceOp::PRODUCT:
    case c10d::ReduceOp::MIN:
        return TUTTI_MIN;
    case c10d::ReduceOp::BAND:
        return TUTTI_BAND;
    case c10d::ReduceOp::BOR:
        return TUTTI_BOR;
    case c10d::ReduceOp::BXOR:
        return TUTTI_BXOR;
    default:
        refuse(tensor, op, "");
    }
}

tutti_redop op_of(const at::Tensor &tensor, const c10d::ReduceOp &op)
{
    const bool is_integer = at::isIntegralType(tensor.scalar_type(), false);

    switch (op.op_) {
    case c10d::ReduceOp::SUM:
        return TUTTI_SUM;
    case c10d::ReduceOp::AVG:
        return TUTTI_AVG;
    case c10d::ReduceOp::PRODUCT:
        return TUTTI_PROD;
    case c10d::ReduceOp::MIN:
        return TUTTI_MIN;
    case c10d::ReduceOp::MAX:
        return TUTTI_MAX;
    case c10d::ReduceOp::PREMUL_SUM:
        return TUTTI_PREMUL_SUM;
    case c10d::ReduceOp::BAND:
    case c10d::ReduceOp::BOR:
    case c10d::ReduceOp::BXOR:
        if (!is_integer)
            refuse(tensor, op, " (bitwise operations need integers)");
        return op.op_ == c10d::ReduceOp::BAND  ? TUTTI_BAND
               : op.op_ == c10d::ReduceOp::BOR ? TUTTI_BOR
                                               : TUTTI_BXOR;
    default:
        refuse(tensor, op, "");
    }
}

double scale_of(const c10d::ReduceOp &op)
{
#if defined(C10D_BACKEND_HAS_HOOKS)
    using Supplement = c10d::PreMulSumSupplement;
#else
    using Supplement = c10d::NCCLPreMulSumSupplement;
#endif
    const auto *supplement = dynamic_cast<const Supplement *>(op.supplement_.get());

    if (!supplement)
        C10_THROW_ERROR(ValueError, "tutti: ReduceOp.PREMUL_SUM has no factor");
    return supplement->tensor_factor.defined() ? supplement->tensor_factor.item<double>()
                                               : supplement->double_factor;
}

} // namespace

Reduction reduction_of(const at::Tensor &tensor, const c10d::ReduceOp &op)
{
    Reduction r{ element_of(tensor, op), TUTTI_SUM, 0 };

    r.op = tensor.scalar_type() == at::kBool ? op_of_bool(tensor, op) : op_of(tensor, op);
    if (r.op == TUTTI_PREMUL_SUM)
        r.scale = scale_of(op);
    return r;
}

Moved moved(const at::Tensor &tensor)
{
    const Element e = element_of(tensor.scalar_type());

    return e.per_element ? Moved{ e.type, tensor.numel() * e.per_element }
                         : Moved{ TUTTI_U8, bytes_of(tensor) };
}

void check_tensor(const at::Tensor &tensor, const char *call, const char *what)
{
    if (C10_UNLIKELY(!tensor.defined()))
        C10_THROW_ERROR(ValueError, c10::str("tutti: ", call, ": ", what, " is not defined"));
    if (C10_UNLIKELY(!tensor.device().is_cpu()))
        C10_THROW_ERROR(ValueError,
                        c10::str("tutti: ", call, ": ", what, " is on ", tensor.device(),
                                 ": this backend communicates CPU tensors (use for example "
                                 "init_process_group(\"cpu:tutti,cuda:nccl\"))"));
    if (C10_UNLIKELY(tensor.layout() != at::kStrided))
        C10_THROW_ERROR(ValueError,
                        c10::str("tutti: ", call, ": ", what, " has layout ", tensor.layout(),
                                 ": must be strided (sparse tensors: all_reduce only)"));
}

at::Tensor &only(std::vector<at::Tensor> &tensors, const char *call, const char *what)
{
    if (tensors.size() != 1)
        C10_THROW_ERROR(ValueError, c10::str("tutti: ", call, ": ", tensors.size(), " tensors for ",
                                             what, ": must be 1 per process"));
    check_tensor(tensors[0], call, "the tensor");
    return tensors[0];
}

at::Tensor dense_input(const at::Tensor &tensor)
{
    at::AutoDispatchBelowAutograd guard;

    return tensor.resolve_conj().resolve_neg().contiguous();
}

at::Tensor Outputs::add(const at::Tensor &tensor, bool is_input)
{
    if (tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg())
        return tensor;
    at::AutoDispatchBelowAutograd guard;
    at::Tensor own =
        at::empty(tensor.sizes(), tensor.options().memory_format(at::MemoryFormat::Contiguous));

    if (is_input)
        own.copy_(tensor);
    pairs_.emplace_back(own, tensor);
    return own;
}

void Outputs::copy_later(at::Tensor from, at::Tensor to)
{
    pairs_.emplace_back(std::move(from), std::move(to));
}

void Outputs::copy_back()
{
    at::AutoDispatchBelowAutograd guard;

    for (auto &[from, to] : pairs_)
        to.copy_(from.view_as(to));
    pairs_.clear();
}

} // namespace tutti_torch
