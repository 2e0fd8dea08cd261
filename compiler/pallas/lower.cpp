#include "compiler/pallas/lower.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/diagnostics.hpp"
#include "compiler/pallas/kernel_writer.hpp"
#include "compiler/pallas/pipeline.hpp"
#include "isa/bound_program.hpp"
#include "isa/builder.hpp"
#include "isa/kernel/lexer.hpp"

namespace kpu::compiler::pallas {
namespace {

constexpr int64_t alignment = 64;

/// Returns how a type is stored in DDR.
ElemType elem_of(Type type) { return *parse_elem_type(kernel::name_of(stored(type))); }

class Lowering {
  public:
    Lowering(const Export& source, std::string origin)
        : source_(source), origin_(std::move(origin)), program_(source.name) {}

    Module run() {
        for (const Array& array : source_.arrays) add_array(array);
        proto::KernelFile& file = *program_.message().add_kernel_file();
        file.set_path("pallas.kern");
        for (const Step& step : source_.steps) {
            if (step.call)
                add_call(*step.call, file);
            else
                add_move(*step.move, file);
        }
        if (file.kernel_size() == 0) program_.message().clear_kernel_file();
        Module module = std::move(program_).build();
        module.origin = origin_;
        module.source.kernels = std::move(kernels_);
        return module;
    }

  private:
    void add_array(const Array& array) {
        const ElemType elem = elem_of(array.type);
        const int64_t count = kernel::elements_of(array.shape),
                      bytes = count * kernel::tile_bytes(array.type);
        const builder::Buffer buffer = program_.buffer(array.name, Level::ddr, bytes, alignment);
        buffers_.push_back(buffer);
        regions_.push_back(program_.region("r_" + array.name, buffer, 0, builder::tensor(elem, {count})));
        using Role = proto::Tensor::Role;
        if (array.role == Array::Role::between) return;
        const Role role = array.role == Array::Role::input    ? proto::Tensor::INPUT
                          : array.role == Array::Role::output ? proto::Tensor::OUTPUT
                                                              : proto::Tensor::WEIGHT;
        proto::Tensor& tensor =
            program_.tensor(array.name, role, elem, {array.shape.begin(), array.shape.end()}, array.name);
        if (array.type == Type::boolean) tensor.set_host_elem(proto::HOST_BOOL);
        if (role == proto::Tensor::INPUT) program_.message().add_input_id(array.name);
        if (role == proto::Tensor::OUTPUT) program_.message().add_output_id(array.name);
        if (role == proto::Tensor::WEIGHT) tensor.set_data(program_.data(array.name, array.name, array.data));
    }

    void add_call(const Call& call, proto::KernelFile& file) {
        const LoweredCall lowered = lower_call(source_, call, kernel_name(call.name, file));
        launch(lowered, fmt::format("{}: call `{}`", call.line, call.name), file);
    }

    static std::string kernel_name(const std::string& name, const proto::KernelFile& file) {
        return fmt::format("{}_{}", kernel::is_identifier(name) ? name : "kernel", file.kernel_size());
    }

    void launch(const LoweredCall& lowered, const std::string& where, proto::KernelFile& file) {
        Diagnostics found;
        const auto body = program_.module().shared(*file.add_kernel());
        const auto kernels = kernel::parse(lowered.text, where, found, body);
        if (found.has_errors() || kernels.size() != 1) throw UserError(found);
        const std::string& name = body->name();
        kernels_.push_back({body, origin_, {}, {}, {}});  // without places in a text that nobody sees
        std::vector<builder::Region> inputs, outputs;
        for (const KernelOperand& operand : lowered.operands) {
            if (operand.reads) inputs.push_back(regions_[operand.array]);
            if (operand.writes) outputs.push_back(regions_[operand.array]);
        }
        program_.compute("", inputs, outputs, "run_" + name);
        proto::Task& task = last_task();
        task.set_kind(proto::Task::KERNEL);
        task.mutable_kernel()->set_name(name);
        follow(task);
    }

    proto::Task& last_task() {
        return *program_.message().mutable_statement(program_.message().statement_size() - 1)->mutable_task();
    }

    void check_side(const Move& move, size_t array, int64_t offset, const Shape& strides) const {
        int64_t low = offset, high = offset;
        for (size_t i = 0; i < strides.size(); ++i)
            (strides[i] < 0 ? low : high) += (move.size[i] - 1) * strides[i];
        if (low < 0 || high >= kernel::elements_of(source_.arrays[array].shape))
            throw UserError(fmt::format("{}: a move outside of its array. Fix: export it again.", move.line));
    }

    void add_move(const Move& move, proto::KernelFile& file) {
        const Array &from = source_.arrays[move.from], &to = source_.arrays[move.to];
        if (from.type != to.type)
            throw UserError(fmt::format("{}: a move between two types. Fix: export it again.", move.line));
        check_side(move, move.from, move.from_offset, move.from_stride);
        check_side(move, move.to, move.to_offset, move.to_stride);
        const auto ascends = [](const Shape& strides) {
            return std::all_of(strides.begin(), strides.end(), [](int64_t stride) { return stride > 0; });
        };
        if (move.size.size() > static_cast<size_t>(max_rank) || !ascends(move.from_stride) ||
            !ascends(move.to_stride))
            return launch(move_kernel(source_, move, kernel_name("move", file)), move.line + ": a move",
                          file);
        const std::string name = fmt::format("step_{}_move", steps_);
        const auto side = [&](const char* suffix, size_t array, int64_t offset, const Shape& strides) {
            std::vector<builder::Expr> sizes(move.size.begin(), move.size.end()),
                steps(strides.begin(), strides.end());
            if (sizes.empty()) sizes = steps = {builder::Expr(1)};
            const Type type = source_.arrays[array].type;
            return program_.region(name + suffix, buffers_[array], offset * kernel::tile_bytes(type),
                                   builder::tensor(elem_of(type), sizes).strides(steps));
        };
        const builder::Region source = side("_from", move.from, move.from_offset, move.from_stride);
        const builder::Region target = side("_to", move.to, move.to_offset, move.to_stride);
        program_.transfer(name, target, source);
        follow(last_task());
    }

    /// Lets steps follow in order.
    void follow(proto::Task& task) {
        if (steps_++ > 0) task.add_dep(last_);
        last_ = static_cast<uint32_t>(program_.message().statement_size() - 1);
    }

    const Export& source_;
    const std::string origin_;
    builder::Program program_;
    std::vector<builder::Buffer> buffers_;
    std::vector<builder::Region> regions_;
    std::vector<kernel::Source> kernels_;
    size_t steps_ = 0;
    uint32_t last_ = 0;
};

}  // namespace

Module lower(const Export& program, const std::string& origin) { return Lowering(program, origin).run(); }

}  // namespace kpu::compiler::pallas
