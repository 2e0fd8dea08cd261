// Pass 5: operands are typed and counted, and some type variant of the device takes them.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "isa/shapes.hpp"
#include "isa/verify_passes.hpp"

namespace kpu {
namespace {

/// Returns the region that an operand name of the opcode table stands for; null when it is not given.
const BoundRegion* operand_of(const VerifyContext& context, const BoundTask& task, std::string_view name) {
    const OpcodeSpec& spec = opcode(task.opcode);
    for (size_t i = 0; i < spec.inputs.size() && i < task.inputs.size(); ++i) {
        if (spec.inputs[i].name == name) return &context.region(task.inputs[i]);
    }
    for (size_t i = 0; i < spec.outputs.size() && i < task.outputs.size(); ++i) {
        if (spec.outputs[i].name == name) return &context.region(task.outputs[i]);
    }
    return nullptr;
}

bool has_operand(const OpcodeSpec& spec, std::string_view name) {
    const auto named = [&](const OperandSpec& operand) { return operand.name == name; };
    return std::any_of(spec.inputs.begin(), spec.inputs.end(), named) ||
           std::any_of(spec.outputs.begin(), spec.outputs.end(), named);
}

/// Calls `found(binding, what)` for each binding of a variant that the operands of a task do not meet.
template <class Found>
void visit_mismatches(const VerifyContext& context, const BoundTask& task, const TypeVariant& variant,
                      const Found& found) {
    const OpcodeSpec& spec = opcode(task.opcode);
    // a product's bias is there exactly when the variant binds it; a norm's scale may be left out
    const bool bias_decides = spec.macs != nullptr;
    for (const TypeVariant::Binding& binding : variant.bindings) {
        if (!has_operand(spec, binding.operand)) continue;
        const BoundRegion* region = operand_of(context, task, binding.operand);
        if (binding.absent) {
            if (region != nullptr) found(binding, "absent");
        } else if (region == nullptr) {
            if (bias_decides) found(binding, "given");
        } else if (!binding.any && region->elem != binding.type) {
            found(binding, name_of(binding.type));
        }
    }
}

bool fits(const VerifyContext& context, const BoundTask& task, const TypeVariant& variant) {
    bool result = true;
    visit_mismatches(context, task, variant,
                     [&](const TypeVariant::Binding&, std::string_view) { result = false; });
    return result;
}

/// The mismatches for "nearest" messages.
struct Mismatches {
    std::vector<std::string> texts;
    int distance = 0;
};

Mismatches mismatches(const VerifyContext& context, const BoundTask& task, const TypeVariant& variant) {
    Mismatches result;
    visit_mismatches(context, task, variant, [&](const TypeVariant::Binding& binding, std::string_view what) {
        result.texts.push_back(fmt::format("{} must be {}", binding.operand, what));
        // a missing or superfluous operand is further away than one of another type
        result.distance += what == "absent" || what == "given" ? 2 : 1;
    });
    return result;
}

std::string types_text(const VerifyContext& context, const BoundTask& task) {
    const OpcodeSpec& spec = opcode(task.opcode);
    std::string text;
    for (const std::vector<OperandSpec>* operands : {&spec.inputs, &spec.outputs}) {
        for (const OperandSpec& operand : *operands) {
            const BoundRegion* region = operand_of(context, task, operand.name);
            if (region != nullptr)
                text += fmt::format("{}{}={}", text.empty() ? "" : " ", operand.name, name_of(region->elem));
        }
    }
    return text;
}

std::string device_text(const DeviceLimits& limits) {
    return limits.name.empty() ? std::string("the device") : fmt::format("`{}`", limits.name);
}

/// Returns the variant that takes the task's types; the nearest one is named when there is none.
const TypeVariant* match_variant(const VerifyContext& context, const BoundTask& task, const SourcePos& pos) {
    const OpcodeSpec& spec = opcode(task.opcode);
    for (const TypeVariant& variant : context.limits.variants) {
        if (variant.opcode == spec.family && fits(context, task, variant)) return &variant;
    }
    const TypeVariant* nearest = nullptr;
    Mismatches nearest_reasons;
    for (const TypeVariant& variant : context.limits.variants) {
        if (variant.opcode != spec.family) continue;
        Mismatches reasons = mismatches(context, task, variant);
        if (nearest == nullptr || reasons.distance < nearest_reasons.distance) {
            nearest = &variant;
            nearest_reasons = std::move(reasons);
        }
    }
    if (spec.future) {
        if (context.limits.agnostic) return nullptr;
        context.warning(pos, fmt::format("{} is not in device {}: no variant takes {}. It is simulated all "
                                         "the same. Fix: choose a device that lists it under "
                                         "opcode.extended.",
                                         spec.name, device_text(context.limits), types_text(context, task)));
    } else if (nearest == nullptr) {
        context.error(pos, fmt::format("{} has no variant of {}. Fix: choose another device or opcode.",
                                       device_text(context.limits), spec.name));
    } else {
        context.error(
            pos, fmt::format("{} does not take {} with {}. The nearest variant is {}: {}. Fix: change the "
                             "element types or the device.",
                             device_text(context.limits), spec.name, types_text(context, task), nearest->name,
                             fmt::join(nearest_reasons.texts, ", ")));
    }
    return nullptr;
}

void check_accumulator(const VerifyContext& context, const BoundTask& task, const TypeVariant& variant,
                       const SourcePos& pos) {
    const BoundAttr* accum = task.attrs.find("accum_type");
    if (accum == nullptr || variant.accum == ElemType::none || accum->type == variant.accum) return;
    context.error(
        pos, fmt::format("accum_type must equal {} for {}, is {}. Fix: write accum_type={}.",
                         name_of(variant.accum), variant.name, name_of(accum->type), name_of(variant.accum)));
}

/// Returns the dimension along which a region's scales differ; nothing when there is one scale for all.
std::optional<size_t> scale_axis(const BoundRegion& region) {
    if (!region.quant || region.quant.kind == proto::Quant::PER_TENSOR) return std::nullopt;
    const auto axis = static_cast<size_t>(region.quant.axis);
    return region.shape[axis] == 1 ? std::nullopt : std::optional<size_t>(axis);
}

/// Checks scales of products, which sum over rows of B, or input channels of W: scales may differ along those
/// and along the outputs.
void check_product_quant(const VerifyContext& context, const BoundTask& task, const SourcePos& pos) {
    const BoundRegion &a = context.region(task.inputs[0]), &b = context.region(task.inputs[1]);
    const BoundRegion& y = context.region(task.outputs[0]);
    if (!is_integer(a.elem) || b.shape.rank < 2 || y.shape.rank < 1) return;
    const OpcodeSpec& spec = opcode(task.opcode);
    if (spec.group_scales && b.quant) {
        return context.error(pos, fmt::format("{}: the scales of {} stand in S. Fix: leave out its quant=.",
                                              spec.name, region_text(b)));
    }
    const auto refuse = [&](const BoundRegion& region, size_t axis) {
        context.error(pos, fmt::format("{} cannot use scales along axis {} of {}. Fix: quantize inputs per "
                                       "tensor, weights per tensor, per output channel or per group of the "
                                       "summed axis, outputs per tensor or channel.",
                                       spec.name, axis, region_text(region)));
    };
    const size_t summed = b.shape.rank - 2u;
    const auto of_a = scale_axis(a), of_y = scale_axis(y);
    auto of_b = scale_axis(b);
    if (b.quant.kind == proto::Quant::PER_GROUP) of_b = static_cast<size_t>(b.quant.axis);
    if (of_a) return refuse(a, *of_a);
    if (of_b && *of_b < summed) return refuse(b, *of_b);
    if (of_y && *of_y != y.shape.rank - 1u) return refuse(y, *of_y);
    if (of_b != summed) return;
    if (of_y || y.elem == ElemType::i32) {
        return context.error(pos, fmt::format("{}: weights with scales along the summed axis need an output "
                                              "of 4, 8 or 16 bits with one scale, not {}. Fix: quantize it "
                                              "per tensor, or the weights per output channel.",
                                              spec.name, operand_text("Y", y)));
    }
    if (task.inputs.size() < 3) return;
    const BoundRegion& bias = context.region(task.inputs[2]);
    if (bias.quant.kind == proto::Quant::PER_TENSOR) return;
    context.error(pos,
                  fmt::format("{}: with weights quantized along the summed axis the bias ({}) needs a "
                              "scale of its own. Fix: give it quant=per_tensor(scale=..., zero_point=0).",
                              spec.name, region_text(bias)));
}

void check_quant(const VerifyContext& context, const BoundTask& task, const TypeVariant& variant,
                 const SourcePos& pos) {
    using Rule = TypeVariant::QuantRule;
    const OpcodeSpec& spec = opcode(task.opcode);
    if (variant.quant == Rule::required && !variant.quant_on.empty()) {
        const BoundRegion* region = operand_of(context, task, variant.quant_on);
        if (region != nullptr && !region->quant) {
            context.error(pos, fmt::format("{} needs quant on {} ({}). Fix: give the region a quant=.",
                                           spec.name, variant.quant_on, region_text(*region)));
        }
    } else if (variant.quant == Rule::required) {
        // an integer matrix product: activations and weights; with i4 weights, the weights
        for (size_t i = 0; i < 2 && i < task.inputs.size(); ++i) {
            const BoundRegion& region = context.region(task.inputs[i]);
            const bool weights_only = context.region(task.inputs[1]).elem == ElemType::i4;
            if (region.quant || (weights_only && i == 0)) continue;
            context.warning(
                pos, fmt::format("{} expects quant on {} ({}); scale 1 and zero_point 0 are taken. Fix: give "
                                 "the region a quant=.",
                                 variant.name, spec.inputs[i].name, region_text(region)));
        }
    } else if (variant.quant == Rule::absent) {
        for (const uint32_t index : task.inputs) {
            if (!context.region(index).quant) continue;
            context.warning(pos, fmt::format("{} ignores the quant of {}. Fix: leave it out.", variant.name,
                                             region_text(context.region(index))));
        }
    }
}

std::vector<uint32_t> data_operands(const BoundTask& task) {
    const OpcodeSpec& spec = opcode(task.opcode);
    std::vector<uint32_t> result;
    for (size_t i = 0; i < task.inputs.size(); ++i) {
        if (operand_spec(spec.inputs, i).role == OperandRole::data) result.push_back(task.inputs[i]);
    }
    for (size_t i = 0; i < task.outputs.size(); ++i) {
        if (operand_spec(spec.outputs, i).role == OperandRole::data) result.push_back(task.outputs[i]);
    }
    return result;
}

/// Checks elementwise, pooling, norm: one element type; quantised all or none.
void check_uniform(const VerifyContext& context, const BoundTask& task, const SourcePos& pos) {
    const OpcodeSpec& spec = opcode(task.opcode);
    const std::vector<uint32_t> data = data_operands(task);
    if (data.empty()) return;  // logic: conditions only
    const BoundRegion& first = context.region(data[0]);
    for (const uint32_t index : data) {
        const BoundRegion& region = context.region(index);
        if (region.elem != first.elem) {
            context.error(
                pos,
                fmt::format("{}: element types must match, {} is {} and {} is {}. Fix: cast one of them.",
                            spec.name, region_text(first), name_of(first.elem), region_text(region),
                            name_of(region.elem)));
            return;
        }
        if (static_cast<bool>(region.quant) != static_cast<bool>(first.quant)) {
            context.error(
                pos,
                fmt::format("{}: either all operands carry quant or none does; {} and {} differ. Fix: give "
                            "both a quant= or neither.",
                            spec.name, region_text(first), region_text(region)));
            return;
        }
    }
}

bool check_counts(const VerifyContext& context, const BoundTask& task, const OpcodeSpec& spec,
                  const SourcePos& pos) {
    const auto required = static_cast<size_t>(std::count_if(
        spec.inputs.begin(), spec.inputs.end(), [](const OperandSpec& o) { return !o.optional; }));
    const bool inputs =
        task.inputs.size() >= required && (spec.variadic_inputs || task.inputs.size() <= spec.inputs.size());
    const bool outputs =
        spec.variadic_outputs ? !task.outputs.empty() : task.outputs.size() == spec.outputs.size();
    if (inputs && outputs) return true;
    context.error(
        pos,
        fmt::format("{} takes {}{} input{} and {} output{}, got {} and {}. Fix: see `kpusim list opcodes`.",
                    spec.name, required,
                    spec.variadic_inputs             ? " or more"
                    : required != spec.inputs.size() ? fmt::format(" to {}", spec.inputs.size())
                                                     : std::string(),
                    spec.inputs.size() == 1 ? "" : "s", spec.outputs.size(),
                    spec.outputs.size() == 1 ? "" : "s", task.inputs.size(), task.outputs.size()));
    return false;
}

}  // namespace

std::string region_text(const BoundRegion& region) {
    return region.name.empty() ? std::string("a region") : fmt::format("region `{}`", region.name);
}

std::string operand_text(std::string_view name, const BoundRegion& region) {
    return operand_text(name, TypedShape{region.elem, region.shape});
}

bool verify_operands(const VerifyContext& context, const BoundTask& task, const SourcePos& pos) {
    const OpcodeSpec& spec = opcode(task.opcode);
    if (spec.refused) {
        const BoundAttr* op = task.attrs.find("op");
        context.error(pos, fmt::format("{} (op=\"{}\") is not executed: the language gives this escape hatch "
                                       "no result. Fix: use opcodes of `kpusim list opcodes`.",
                                       spec.name, op == nullptr ? "" : op->text));
        return false;
    }
    if (!check_counts(context, task, spec, pos)) return false;
    for (const std::vector<uint32_t>* operands : {&task.inputs, &task.outputs}) {
        for (const uint32_t index : *operands) {
            if (context.region(index).typed()) continue;
            context.error(
                pos,
                fmt::format("{} needs typed operands; {} has no element type. Fix: add elem=, shape= and "
                            "layout= to it.",
                            spec.name, region_text(context.region(index))));
            return false;
        }
    }
    const OpcodeClass kind = spec.op_class;
    const size_t errors = context.diagnostics.error_count();
    if (kind == OpcodeClass::elementwise || kind == OpcodeClass::pooling || kind == OpcodeClass::norm ||
        kind == OpcodeClass::softmax) {
        check_uniform(context, task, pos);
        if (context.diagnostics.error_count() != errors) return true;
    }
    if (spec.family.empty() || (context.limits.agnostic && context.limits.variants.empty())) return true;
    if (const TypeVariant* variant = match_variant(context, task, pos)) {
        check_accumulator(context, task, *variant, pos);
        check_quant(context, task, *variant, pos);
    }
    if (spec.macs != nullptr) check_product_quant(context, task, pos);
    return true;
}

}  // namespace kpu
