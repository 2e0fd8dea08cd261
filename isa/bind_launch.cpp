// Launches of vector kernels: their code, operands, grid and scalars.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "isa/binder.hpp"
#include "isa/kernel/form.hpp"

namespace kpu {
namespace {

using kernel::CodeBuffer;
using kernel::Type;

bool reads(const CodeBuffer& buffer) { return !buffer.starts_zero(); }

/// Returns the element type of regions that a buffer may be bound to; none: of any region.
ElemType elem_of(Type type) {
    switch (type) {
        case Type::bytes:
            return ElemType::none;
        case Type::boolean:
        case Type::u64:
            return ElemType::u32;
        default:
            return parse_elem_type(name_of(type)).value_or(ElemType::none);
    }
}

std::string size_text(uint64_t elements, Type type) {
    return fmt::format("{} elements of {}", elements, name_of(type));
}

bool same_place(const BoundRegion& a, const BoundRegion& b) {
    return a.buffer == b.buffer && a.address.kinds == b.address.kinds &&
           a.address.values == b.address.values && a.address.constant == b.address.constant &&
           a.elem == b.elem && a.shape == b.shape && a.strides == b.strides;
}

/// Returns "`w_x` 4194304, `w_out0` 65536": of its workgroup memory.
std::string largest_buffers(const kernel::Code& code) {
    constexpr size_t most = 4;
    std::vector<const CodeBuffer*> list;
    for (const CodeBuffer& buffer : code.buffers) {
        if (buffer.is_workgroup()) list.push_back(&buffer);
    }
    std::stable_sort(list.begin(), list.end(), [](const CodeBuffer* a, const CodeBuffer* b) {
        return a->declared_bytes() > b->declared_bytes();
    });
    std::string text;
    for (size_t i = 0; i < std::min(most, list.size()); ++i)
        text += fmt::format("{}`{}` {}", text.empty() ? "" : ", ", list[i]->name, list[i]->declared_bytes());
    return text + (list.size() > most ? ", ..." : "");
}

/// Returns the first line of a kernel that was translated from another language, which names its source.
std::string origin_of(const kernel::Code& code) {
    const std::string line = code.statements.empty() ? "" : code.line_of(1);
    const size_t end =
        line.find(')');  // of the function's name; after it what its first statement does there
    return line.empty() ? "" : line.substr(0, end == std::string::npos ? end : end + 1) + ": ";
}

}  // namespace

/// Binds every kernel that the program carries, whether it is launched or not.
void Binder::bind_kernels() {
    size_t number = 0;
    for (const proto::KernelFile& file : program_.kernel_file()) {
        uint32_t line = 1;
        for (const proto::KernelBody& body : file.kernel()) {
            const bool was_read = number < module_.source.kernels.size();
            kernel::Source made;
            if (!was_read)
                made = kernel::printed(module_.shared(body), module_.origin + "/" + file.path(), line);
            ++line;  // a blank one between kernels
            const kernel::Source& source = was_read ? module_.source.kernels[number] : made;
            ++number;
            if (auto code = kernel::analyse(source, diagnostics_))
                kernels_.emplace(body.name(), std::move(code));
        }
    }
}

bool Binder::bind_launch(const proto::Task& source, BoundTask& task, const SourcePos& pos) {
    task.unit = limits_.agnostic || limits_.count(UnitKind::vpu) > 0 ? UnitKind::vpu : UnitKind::cstl;
    const auto found = kernels_.find(source.kernel().name());
    if (found == kernels_.end()) {
        bool carried = false;
        std::vector<std::string_view> names;
        for (const proto::KernelFile& file : program_.kernel_file())
            for (const proto::KernelBody& body : file.kernel()) {
                names.push_back(body.name());
                carried |= body.name() == source.kernel().name();
            }
        if (carried) return false;  // its own mistakes are reported
        error(pos,
              program_.kernel_file_size() == 0
                  ? fmt::format("no kernel `{}`: the program names no file of kernels. Fix: add a line "
                                "`#! kernels FILE.kern`.",
                                source.kernel().name())
              : names.empty()
                  ? fmt::format("no kernel `{}`: the program's file {} has no kernels. Fix: write it there.",
                                source.kernel().name(), program_.kernel_file(0).path())
                  : fmt::format("no kernel `{}` in the program's files. Fix: did you mean `{}`?",
                                source.kernel().name(), nearest_name(source.kernel().name(), names)));
        return false;
    }
    const auto launch = std::make_shared<BoundLaunch>();
    launch->code = found->second;
    const kernel::Code& code = *launch->code;
    const uint64_t used =
        result_.l1_bytes.empty() ? 0 : *std::max_element(result_.l1_bytes.begin(), result_.l1_bytes.end());
    const uint64_t left = limits_.l1_bytes > used ? limits_.l1_bytes - used : 0;
    if (!limits_.agnostic && code.workgroup_bytes() > left) {
        error(pos,
              fmt::format("{}workgroup memory of kernel `{}` needs {} bytes, but L1 has {} left; its largest "
                          "buffers: {}. Fix: shrink them (blocks, scratch, or their number in flight) or the "
                          "program's buffers, or choose a device with a larger L1.",
                          origin_of(code), code.name(), code.workgroup_bytes(), left, largest_buffers(code)));
        return false;
    }
    if (!limits_.agnostic && code.workgroup_bytes() > 0)
        launch->units_per_engine = left / code.workgroup_bytes();
    bool good = bind_operands(source, code, *launch, task, pos);
    for (const proto::Expr& expr : source.kernel().grid()) {
        launch->grid.emplace_back();
        good &= expr_of(expr, pos, {"grid", {}, {}}, launch->grid.back());
        const BoundExpr& bound = launch->grid.back();
        const auto axis = launch->grid.size() - 1;
        if (!good || !bound.is_constant()) continue;
        const bool in_range =
            bound.constant >= 1 && bound.constant <= int64_t{UINT32_MAX} / code.workgroup[axis];
        if (in_range) continue;
        error(pos,
              bound.constant < 1
                  ? fmt::format("the grid has {} workgroups along axis {}. Fix: launch at least one.",
                                bound.constant, axis)
                  : std::string(
                        "workgroup * dispatch dimensions overflow u32 global id. Fix: reduce workgroup id or "
                        "workgroup size so each global_invocation_id component fits in u32."));
        good = false;
    }
    for (const proto::Expr& expr : source.kernel().scalar()) {
        launch->scalars.emplace_back();
        good &= expr_of(expr, pos, {"scalar", {}, {}}, launch->scalars.back());
    }
    if (launch->scalars.size() != code.scalars.size()) {
        error(pos,
              fmt::format("kernel `{}` takes {} scalars, the launch gives {}. Fix: give it as many in args.",
                          code.name(), code.scalars.size(), launch->scalars.size()));
        good = false;
    }
    task.launch = launch;
    return good;
}

bool Binder::bind_operands(const proto::Task& source, const kernel::Code& code, BoundLaunch& launch,
                           const BoundTask& task, const SourcePos& pos) {
    int32_t inputs = 0, outputs = 0;
    for (const CodeBuffer& buffer : code.buffers) {
        if (buffer.is_workgroup()) continue;
        BoundLaunch::Operand operand;
        if (reads(buffer)) operand.input = inputs++;
        if (buffer.writable()) operand.output = outputs++;
        launch.operands.push_back(operand);
    }
    if (inputs != source.input_size() || outputs != source.output_size()) {
        error(pos,
              fmt::format(
                  "kernel `{}` takes {} inputs and {} outputs, the launch gives {} and {}. Fix: bind its "
                  "buffers in order, those that are read and written in both lists.",
                  code.name(), inputs, outputs, source.input_size(), source.output_size()));
        return false;
    }
    bool good = true;
    size_t next = 0;
    for (const CodeBuffer& buffer : code.buffers) {
        if (buffer.is_workgroup()) continue;
        const BoundLaunch::Operand& operand = launch.operands[next++];
        if (operand.input >= 0)
            good &= fits(code, buffer, task.inputs[static_cast<size_t>(operand.input)], task, pos);
        if (operand.output >= 0)
            good &= fits(code, buffer, task.outputs[static_cast<size_t>(operand.output)], task, pos);
        if (operand.input < 0 || operand.output < 0) continue;
        const BoundRegion& in = result_.regions[task.inputs[static_cast<size_t>(operand.input)]];
        const BoundRegion& out = result_.regions[task.outputs[static_cast<size_t>(operand.output)]];
        if (same_place(in, out)) continue;
        error(pos,
              fmt::format(
                  "buffer `{}` of kernel `{}` is read and written, but bound to `{}` and `{}`. Fix: bind one "
                  "region in both lists.",
                  buffer.name, code.name(), in.name, out.name));
        good = false;
    }
    return good;
}

bool Binder::fits(const kernel::Code& code, const CodeBuffer& buffer, uint32_t index, const BoundTask& task,
                  const SourcePos& pos) {
    const BoundRegion& region = result_.regions[index];
    const ElemType wanted = elem_of(buffer.type);
    // kernels have no posits: they move them as integers, and compare them so; of small floats they have the bits
    const bool as_integers =
        is_small_float(region.elem)
            ? wanted == ElemType::u8
            : is_posit(region.elem) && wanted == (bit_width(region.elem) == 8 ? ElemType::i8 : ElemType::i16);
    if (shares_bytes(region.elem)) {
        error(pos,
              fmt::format(
                  "task `{}`: region `{}` of buffer `{}` is of {}; a kernel's elements are whole bytes. Fix: "
                  "convert it to {} before.",
                  task.name, region.name, buffer.name, name_of(region.elem),
                  is_float(region.elem) ? "f16" : "i8"));
        return false;
    }
    if (buffer.type != Type::bytes && region.elem != wanted && !as_integers) {
        error(pos,
              fmt::format(
                  "task `{}`: buffer `{}` of `{}` cannot be bound to region `{}` of {}. Fix: give the region "
                  "the element type {}.",
                  task.name, buffer.name, name_of(buffer.type), region.name, name_of(region.elem),
                  name_of(wanted)));
        return false;
    }
    const bool only_copied = code.tiles != nullptr && !buffer.direct;
    if ((region.level == Level::ddr && !only_copied) || (region.level == Level::l2 && buffer.direct)) {
        error(pos, fmt::format("task `{}`: region `{}` of buffer `{}` is in {}; kernels load and store in L1 "
                               "and copy to and "
                               "from L2. Fix: bring it to L1.",
                               task.name, region.name, buffer.name, name_of(region.level)));
        return false;
    }
    const uint64_t bytes = region.typed()
                               ? packed_bytes(region.elem, static_cast<uint64_t>(region.shape.product()))
                               : region.extent;
    const uint64_t needed = (uint64_t{buffer.count} * storage_bits(buffer.type) + 7) / 8;
    if (bytes < needed) {
        error(pos,
              fmt::format(
                  "buffer `{}` has {} bytes but requires at least {} bytes ({}). Fix: provide a larger input "
                  "buffer.",
                  buffer.name, bytes, needed, size_text(buffer.count, buffer.type)));
        return false;
    }
    return true;
}

}  // namespace kpu
