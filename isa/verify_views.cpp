// Pass 5: shapes and element types of views and reductions; values of attributes.
#include <fmt/format.h>

#include <algorithm>

#include "isa/output_shapes.hpp"
#include "isa/verify_passes.hpp"

namespace kpu {
namespace {

class ViewCheck {
  public:
    ViewCheck(const VerifyContext& context, const BoundTask& task, const SourcePos& pos)
        : context_(context), task_(task), pos_(pos), spec_(opcode(task.opcode)) {}

    void run() const {
        try {
            check_output_shapes(spec_, shapes(task_.inputs), shapes(task_.outputs), task_.attrs);
        } catch (const UserError& error) {
            return fail("{}", error.what());
        }
        if (spec_.op_class == OpcodeClass::view) return check_view();
        if (spec_.family == "arg_reduce") return check_index(task_.outputs[0]);
        check_same_type(task_.outputs[0]);
    }

  private:
    template <class... Args>
    void fail(fmt::format_string<Args...> text, Args&&... args) const {
        context_.error(pos_,
                       fmt::format("{}: {}", spec_.name, fmt::format(text, std::forward<Args>(args)...)));
    }

    std::vector<Dims> shapes(const std::vector<uint32_t>& regions) const {
        std::vector<Dims> result;
        result.reserve(regions.size());
        for (const uint32_t index : regions) result.push_back(context_.region(index).shape);
        return result;
    }

    void check_same_type(uint32_t index) const {
        const BoundRegion &x = context_.region(task_.inputs[0]), &other = context_.region(index);
        if (other.elem != x.elem) {
            return fail("element types must match, {} is {} and {} is {}. Fix: cast one of them.",
                        region_text(x), name_of(x.elem), region_text(other), name_of(other.elem));
        }
        if (static_cast<bool>(x.quant) != static_cast<bool>(other.quant)) {
            fail(
                "either all operands carry quant or none does; {} and {} differ. Fix: give both a quant= or "
                "neither.",
                region_text(x), region_text(other));
        }
    }

    /// Elements are copied as they are, so both sides must mean the same by them.
    void check_same_quant(uint32_t index) const {
        const BoundQuant &x = context_.region(task_.inputs[0]).quant, &other = context_.region(index).quant;
        if (x.kind != proto::Quant::PER_TENSOR || other.kind != proto::Quant::PER_TENSOR) return;
        if (x.scales == other.scales && x.zero_points == other.zero_points) return;
        fail("{} and {} need the same quant: a view copies elements. Fix: make them equal.",
             region_text(context_.region(task_.inputs[0])), region_text(context_.region(index)));
    }

    void check_view() const {
        const bool gather = spec_.name == "gather";
        std::vector<uint32_t> others = task_.outputs;
        if (!gather) others.insert(others.end(), task_.inputs.begin() + 1, task_.inputs.end());
        for (const uint32_t index : others) {
            check_same_type(index);
            check_same_quant(index);
        }
        if (!gather) return;
        const BoundRegion& indices = context_.region(task_.inputs[1]);
        if (!is_integer(indices.elem) || indices.elem == ElemType::i4) {
            fail("indices are {}; gather takes integers of 8, 16 or 32 bits. Fix: cast them to i32.",
                 name_of(indices.elem));
        }
    }

    /// The result of argmax and argmin must hold every index.
    void check_index(uint32_t index) const {
        const BoundRegion& y = context_.region(index);
        const Dims& x = context_.region(task_.inputs[0]).shape;
        const int64_t size = x[axis_of(x, task_.attrs)];
        if (!is_integer(y.elem) || size - 1 > integer_range(y.elem).second) {
            fail("{} cannot hold indices up to {}. Fix: make it i32.", operand_text("Y", y), size - 1);
        }
    }

    const VerifyContext& context_;
    const BoundTask& task_;
    const SourcePos& pos_;
    const OpcodeSpec& spec_;
};

}  // namespace

void verify_view(const VerifyContext& context, const BoundTask& task, const SourcePos& pos) {
    ViewCheck(context, task, pos).run();
}

}  // namespace kpu
