// Pass 5: operands against the shape rule of their opcode, and what element types and quantisation mean
// there.
#include <fmt/format.h>

#include "isa/shapes.hpp"
#include "isa/verify_passes.hpp"

namespace kpu {
namespace {

class ShapeCheck {
  public:
    ShapeCheck(const VerifyContext& context, const BoundTask& task, const SourcePos& pos)
        : context_(context), task_(task), pos_(pos), spec_(opcode(task.opcode)) {}

    void run() {
        if (spec_.macs != nullptr && spec_.future) check_product_types();
        const bool shapes = check_rule();
        if (spec_.op_class == OpcodeClass::elementwise) check_elementwise();
        if (!shapes) return;
        if (spec_.op_class == OpcodeClass::view || spec_.op_class == OpcodeClass::reduction) check_roles();
    }

  private:
    const BoundRegion& in(size_t i) const { return context_.region(task_.inputs[i]); }
    const BoundRegion& out() const { return context_.region(task_.outputs[0]); }

    template <class... Args>
    void fail(fmt::format_string<Args...> text, Args&&... args) const {
        context_.error(pos_,
                       fmt::format("{}: {}", spec_.name, fmt::format(text, std::forward<Args>(args)...)));
    }

    std::vector<TypedShape> shapes_of(const std::vector<uint32_t>& regions) const {
        std::vector<TypedShape> result;
        result.reserve(regions.size());
        for (const uint32_t index : regions)
            result.push_back({context_.region(index).elem, context_.region(index).shape});
        return result;
    }

    bool check_rule() const {
        try {
            std::string warning =
                check_shapes(spec_, shapes_of(task_.inputs), shapes_of(task_.outputs), task_.attrs);
            if (!warning.empty()) context_.warning(pos_, std::move(warning));
            return true;
        } catch (const UserError& error) {
            context_.error(pos_, error.what());
            return false;
        }
    }

    void check_elementwise() const {
        check_others();
        if (spec_.outputs[0].role != OperandRole::data) return;
        const BoundRegion& y = out();
        if (spec_.integers_need_quant && is_integer(y.elem) && !y.quant) {
            fail(
                "{} has no quant: the formula has no integer meaning. Fix: give every operand a quant=, or "
                "use a float type.",
                operand_text("Y", y));
        }
        if (y.quant && !is_integer(y.elem))
            fail("{} cannot be quantized. Fix: remove quant.", operand_text("Y", y));
    }

    /// Checks what families say of other convolutions: a device may have none for those of the future.
    void check_product_types() const {
        if (is_float(in(0).elem) != is_float(in(1).elem) || is_float(in(0).elem) != is_float(out().elem)) {
            return fail("{}, {} and {} mix integers and floats. Fix: use types of one kind.",
                        operand_text("X", in(0)), operand_text("W", in(1)), operand_text("Y", out()));
        }
        const BoundAttr* attr = task_.attrs.find("accum_type");
        const ElemType wanted = is_float(in(0).elem) ? ElemType::f32 : ElemType::i32;
        if (attr != nullptr && attr->type != wanted) {
            fail("accum_type must equal {} for {}. Fix: write accum_type={}.", name_of(wanted),
                 operand_text("X", in(0)), name_of(wanted));
        }
    }

    /// Views and reductions: data operands are alike; others hold integers.
    void check_roles() const {
        for (size_t i = 0; i < task_.outputs.size(); ++i) {
            const OperandSpec& operand = operand_spec(spec_.outputs, i);
            const BoundRegion& region = context_.region(task_.outputs[i]);
            if (operand.role == OperandRole::data) {
                check_alike(region);
            } else if (spec_.op_class == OpcodeClass::reduction) {
                check_position(region);
            }
        }
        for (size_t i = 1; i < task_.inputs.size(); ++i) {
            if (operand_spec(spec_.inputs, i).role == OperandRole::data) check_alike(in(i));
        }
        check_others();
    }

    /// Checks operands that are no data.
    void check_others() const {
        for (size_t i = 0; i < task_.inputs.size(); ++i) {
            const OperandSpec& operand = operand_spec(spec_.inputs, i);
            if (operand.role == OperandRole::condition) check_condition(operand, in(i));
            if (operand.role != OperandRole::integer) continue;
            check_bits(operand, in(i));
            if (is_integer(in(i).elem) && in(i).elem != ElemType::i4) continue;
            fail("{} are {}; {} takes integers of 8, 16 or 32 bits. Fix: cast them to i32.", operand.name,
                 name_of(in(i).elem), spec_.name);
        }
        for (size_t i = 0; i < task_.outputs.size(); ++i) {
            const OperandSpec& operand = operand_spec(spec_.outputs, i);
            const BoundRegion& region = context_.region(task_.outputs[i]);
            if (operand.role == OperandRole::condition) check_condition(operand, region);
            if (operand.role == OperandRole::integer) check_bits(operand, region);
        }
    }

    /// Checks opcodes that work on the bits of plain integers.
    void check_bits(const OperandSpec& operand, const BoundRegion& region) const {
        if (spec_.op_class != OpcodeClass::elementwise || !region.quant) return;
        fail("{} is quantized, and {} works on bits. Fix: remove quant.", operand_text(operand.name, region),
             spec_.name);
    }

    void check_condition(const OperandSpec& operand, const BoundRegion& region) const {
        if (region.elem != ElemType::u8) {
            fail("{} is a condition, 0 or 1. Fix: make it u8.", operand_text(operand.name, region));
        } else if (region.quant) {
            fail("{} is a condition and cannot be quantized. Fix: remove quant.",
                 operand_text(operand.name, region));
        }
    }

    void check_alike(const BoundRegion& other) const {
        const BoundRegion& x = in(0);
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
        if (spec_.op_class == OpcodeClass::view) check_same_quant(other);
    }

    /// Checks that both sides mean the same by elements, which are copied as they are.
    void check_same_quant(const BoundRegion& other) const {
        const BoundQuant& x = in(0).quant;
        if (x.kind != proto::Quant::PER_TENSOR || other.quant.kind != proto::Quant::PER_TENSOR) return;
        if (x.scales == other.quant.scales && x.zero_points == other.quant.zero_points) return;
        fail("{} and {} need the same quant: a view copies elements. Fix: make them equal.",
             region_text(in(0)), region_text(other));
    }

    /// Checks that the result of a search can hold every index.
    void check_position(const BoundRegion& y) const {
        const Dims& x = in(0).shape;
        const int64_t size = x[axis_of(x, task_.attrs)];
        if (!is_integer(y.elem) || size - 1 > integer_range(y.elem).second)
            fail("{} cannot hold indices up to {}. Fix: make it i32.", operand_text("Y", y), size - 1);
    }

    const VerifyContext& context_;
    const BoundTask& task_;
    const SourcePos& pos_;
    const OpcodeSpec& spec_;
};

}  // namespace

void verify_shapes(const VerifyContext& context, const BoundTask& task, const SourcePos& pos) {
    ShapeCheck(context, task, pos).run();
}

}  // namespace kpu
