#include "isa/builder.hpp"

#include <fmt/format.h>

#include "base/digest.hpp"
#include "isa/container.hpp"
#include "isa/expr.hpp"

namespace kpu::builder {
namespace {

void add_token(proto::Expr& expr, proto::ExprToken::Kind kind, int64_t value) {
    proto::ExprToken& token = *expr.add_token();
    token.set_kind(kind);
    token.set_value(value);
}

proto::Quant make_quant(proto::Quant::Kind kind, int axis, uint32_t group_size,
                        const std::vector<double>& scales, std::vector<int64_t> zero_points) {
    proto::Quant quant;
    quant.set_kind(kind);
    quant.set_axis(axis);
    quant.set_group_size(group_size);
    zero_points.resize(zero_points.empty() ? scales.size() : zero_points.size());
    for (const double scale : scales) quant.add_scale(scale);
    for (const int64_t zero_point : zero_points) quant.add_zero_point(zero_point);
    return quant;
}

/// Returns the bytes from the first to past the last element.
Expr reach(const TensorType& type) {
    Expr elements(1);
    if (type.stride_list.empty()) {
        for (const Expr& extent : type.shape) elements = elements * extent;
    } else {
        for (size_t i = 0; i < type.stride_list.size() && i < type.shape.size(); ++i) {
            elements = elements + (type.shape[i] - 1) * type.stride_list[i];
        }
    }
    const int bits = bit_width(type.elem);
    return bits < 8 ? (elements * bits + 7) / 8 : elements * (bits / 8);
}

}  // namespace

void Expr::write(proto::Expr& to) const {
    if (is_literal()) return add_token(to, proto::ExprToken::INT, literal_);
    for (const Token& token : tokens_) add_token(to, token.kind, token.value);
}

int64_t Expr::loop() const {
    return tokens_.size() == 1 && tokens_[0].kind == proto::ExprToken::LOOP ? tokens_[0].value : -1;
}

void Expr::append_to(std::vector<Token>& tokens) const {
    if (is_literal()) return tokens.push_back({proto::ExprToken::INT, literal_});
    tokens.insert(tokens.end(), tokens_.begin(), tokens_.end());
}

Expr Expr::binary(proto::ExprToken::Kind kind, const Expr& a, const Expr& b) {
    if (a.is_literal() && b.is_literal()) return Expr(apply_operator(kind, a.literal(), b.literal()));
    const bool one = b.is_literal() && b.literal() == 1;
    const bool zero = b.is_literal() && b.literal() == 0;
    if ((kind == proto::ExprToken::ADD && zero) || (kind == proto::ExprToken::MUL && one)) return a;
    if (kind == proto::ExprToken::ADD && a.is_literal() && a.literal() == 0) return b;
    if (kind == proto::ExprToken::MUL && a.is_literal() && a.literal() == 1) return b;
    Expr result(0);
    result.tokens_.reserve(a.tokens_.size() + b.tokens_.size() + 3);
    a.append_to(result.tokens_);
    b.append_to(result.tokens_);
    result.tokens_.push_back({kind, 0});
    return result;
}

proto::Quant per_tensor(double scale, int64_t zero_point) {
    return make_quant(proto::Quant::PER_TENSOR, 0, 0, {scale}, {zero_point});
}

proto::Quant per_channel(int axis, const std::vector<double>& scales, std::vector<int64_t> zero_points) {
    return make_quant(proto::Quant::PER_CHANNEL, axis, 0, scales, std::move(zero_points));
}

proto::Quant per_group(int axis, uint32_t group_size, const std::vector<double>& scales,
                       std::vector<int64_t> zero_points) {
    return make_quant(proto::Quant::PER_GROUP, axis, group_size, scales, std::move(zero_points));
}

TensorType TensorType::layout(std::string name) && {
    layout_name = std::move(name);
    return std::move(*this);
}

TensorType TensorType::strides(std::vector<Expr> elements) && {
    layout_name.clear();
    stride_list = std::move(elements);
    return std::move(*this);
}

TensorType TensorType::quant(proto::Quant quant) && {
    quant_info = std::move(quant);
    return std::move(*this);
}

TensorType tensor(ElemType elem, std::vector<Expr> shape) {
    TensorType type;
    type.elem = elem;
    type.shape = std::move(shape);
    return type;
}

Region& Region::decorate(const std::string& name) {
    program_->module_.program.mutable_region(static_cast<int>(index_))->add_decorator()->set_name(name);
    return *this;
}

Region Region::materialized() const {
    Region result = *this;
    result.materialized_ = true;
    return result;
}

proto::Task& Task::message() const {
    return *program_->module_.program.mutable_statement(static_cast<int>(statement_))->mutable_task();
}

Task& Task::after(const std::vector<Task>& tokens) {
    for (const Task& token : tokens) message().add_dep(token.statement_);
    return *this;
}

Task& Task::after_previous(const Task& task, const Expr& loop, uint32_t distance) {
    const int64_t number = loop.loop();
    const std::vector<uint32_t>& open = program_->open_loops_;
    if (number < 0 || static_cast<uint64_t>(number) >= open.size()) {
        throw UserError(
            "after_previous needs the variable of a loop around both tasks. Fix: call it inside the loop's "
            "body with the variable that the body receives.");
    }
    proto::Carried& carried = *message().add_carried();
    carried.set_task(task.statement_);
    carried.set_loop(open[static_cast<size_t>(number)]);
    carried.set_distance(distance);
    return *this;
}

Task& Task::attr(const std::string& name, const Expr& value) {
    proto::Attribute& attribute = *message().add_attribute();
    attribute.set_name(name);
    value.write(*attribute.mutable_value()->mutable_expr());
    return *this;
}

Task& Task::attr(const std::string& name, double value) {
    proto::Attribute& attribute = *message().add_attribute();
    attribute.set_name(name);
    attribute.mutable_value()->set_real(value);
    return *this;
}

Task& Task::attr(const std::string& name, std::initializer_list<int64_t> values) {
    return attr(name, std::vector<int64_t>(values));
}

Task& Task::attr(const std::string& name, const std::vector<int64_t>& values) {
    proto::Attribute& attribute = *message().add_attribute();
    attribute.set_name(name);
    proto::ValueList& list = *attribute.mutable_value()->mutable_list();
    for (const int64_t value : values) Expr(value).write(*list.add_item()->mutable_expr());
    return *this;
}

Task& Task::attr(const std::string& name, const std::vector<double>& values) {
    proto::Attribute& attribute = *message().add_attribute();
    attribute.set_name(name);
    proto::ValueList& list = *attribute.mutable_value()->mutable_list();
    for (const double value : values) list.add_item()->set_real(value);
    return *this;
}

Task& Task::attr(const std::string& name, ElemType type) {
    return attr(name, std::string(name_of(type)).c_str());
}

Task& Task::attr(const std::string& name, const char* word) {
    proto::Attribute& attribute = *message().add_attribute();
    attribute.set_name(name);
    attribute.mutable_value()->set_word(word);
    return *this;
}

Task& Task::sync() {
    message().set_sync(true);
    return *this;
}

Task& Task::decorate(const std::string& name) {
    message().add_decorator()->set_name(name);
    return *this;
}

Task& Task::decorate(const std::string& name, const Expr& argument) {
    proto::Decorator& decorator = *message().add_decorator();
    decorator.set_name(name);
    argument.write(*decorator.add_arg()->mutable_expr());
    return *this;
}

Task& Task::resource(UnitKind unit, int64_t instance) {
    proto::Decorator& decorator = *message().add_decorator();
    decorator.set_name("resource");
    decorator.set_unit(std::string(name_of(unit)));
    Expr(instance).write(*decorator.mutable_index());
    return *this;
}

Task& Task::op(uint32_t op_number) {
    message().set_op(op_number);
    return *this;
}

Program::Program(std::string name) {
    module_.program.set_name(name);
    module_.origin = std::move(name);
}

Expr Program::param(const std::string& name, int64_t default_value, int64_t min, int64_t max) {
    proto::Param& param = *module_.program.add_param();
    param.set_name(name);
    param.set_default_value(default_value);
    param.set_min(min);
    param.set_max(max);
    return Expr::leaf(proto::ExprToken::PARAM, module_.program.param_size() - 1);
}

Expr Program::constant(const std::string& name, const Expr& value) {
    proto::Constant& constant = *module_.program.add_constant();
    constant.set_name(name);
    value.write(*constant.mutable_value());
    return Expr::leaf(proto::ExprToken::CONST, module_.program.constant_size() - 1);
}

Buffer Program::buffer(const std::string& name, Level level, const Expr& size, int64_t align) {
    proto::Buffer& buffer = *module_.program.add_buffer();
    buffer.set_name(name);
    buffer.set_level(static_cast<proto::Level>(level));
    size.write(*buffer.mutable_size());
    if (align != 1) Expr(align).write(*buffer.mutable_align());
    return {static_cast<uint32_t>(module_.program.buffer_size() - 1)};
}

Buffer Program::l1_buffer(const std::string& name, const Expr& engine, const Expr& size, int64_t align) {
    const Buffer result = buffer(name, Level::l1, size, align);
    engine.write(*module_.program.mutable_buffer(static_cast<int>(result.index))->mutable_engine());
    return result;
}

Region Program::region(const std::string& name, Buffer buffer, const Expr& offset, const TensorType& type) {
    return region(name, buffer, offset, reach(type), type);
}

Region Program::region(const std::string& name, Buffer buffer, const Expr& offset, const Expr& extent,
                       const TensorType& type) {
    const Region result = bytes(name, buffer, offset, extent);
    proto::Region& region = *module_.program.mutable_region(static_cast<int>(result.index()));
    region.set_elem(static_cast<proto::ElemType>(type.elem));
    region.set_layout(type.layout_name);
    for (const Expr& dim : type.shape) dim.write(*region.add_shape());
    for (const Expr& stride : type.stride_list) stride.write(*region.add_stride());
    if (type.quant_info.kind() != proto::Quant::NONE) *region.mutable_quant() = type.quant_info;
    return result;
}

Region Program::bytes(const std::string& name, Buffer buffer, const Expr& offset, const Expr& extent) {
    const int number = module_.program.region_size();
    proto::Region& region = *module_.program.add_region();
    region.set_name(name.empty() ? fmt::format("r{}", number) : name);
    region.set_buffer(buffer.index);
    offset.write(*region.mutable_offset());
    extent.write(*region.mutable_extent());
    const auto index = static_cast<uint32_t>(module_.program.region_size() - 1);
    module_.program.add_statement()->set_let_region(index);
    return Region(*this, index);
}

Task Program::add_task(proto::Task::Kind kind, const std::string& name, const std::vector<Region>& inputs,
                       const std::vector<Region>& outputs) {
    proto::Task& task = *module_.program.add_statement()->mutable_task();
    task.set_kind(kind);
    task.set_name(name);
    const auto fill = [](proto::Operand& operand, const Region& region) {
        operand.set_region(region.index());
        if (region.is_materialized()) operand.add_decorator()->set_name("materialized");
    };
    for (const Region& region : inputs) fill(*task.add_input(), region);
    for (const Region& region : outputs) fill(*task.add_output(), region);
    return Task(*this, static_cast<uint32_t>(module_.program.statement_size() - 1));
}

Task Program::transfer(const std::string& name, const Region& dst, const Region& src) {
    return add_task(proto::Task::TRANSFER, name, {src}, {dst});
}

Task Program::store(const std::string& name, const Region& dst, const Region& src) {
    return add_task(proto::Task::STORE, name, {src}, {dst});
}

Task Program::compute(const std::string& opcode, const std::vector<Region>& inputs,
                      const std::vector<Region>& outputs, const std::string& name) {
    Task task = add_task(proto::Task::COMPUTE, name, inputs, outputs);
    task.message().set_opcode(opcode);
    return task;
}

Task Program::launch(const std::string& kernel, const std::vector<Region>& inputs,
                     const std::vector<Region>& outputs, int64_t workgroups,
                     const std::vector<int64_t>& scalars) {
    Task task = add_task(proto::Task::KERNEL, "", inputs, outputs);
    proto::Kernel& message = *task.message().mutable_kernel();
    message.set_name(kernel);
    Expr(workgroups).write(*message.add_grid());
    for (const int64_t scalar : scalars) Expr(scalar).write(*message.add_scalar());
    return task;
}

void Program::wait(const std::vector<Task>& tokens) {
    proto::Wait& wait = *module_.program.add_statement()->mutable_wait();
    for (const Task& token : tokens) wait.add_dep(token.statement());
}

void Program::loop(const std::string& variable, const Expr& first, const Expr& last, int64_t max_in_flight,
                   const std::function<void(Expr)>& body) {
    const int index = module_.program.statement_size();
    proto::Loop& loop = *module_.program.add_statement()->mutable_loop();
    loop.set_variable(variable);
    first.write(*loop.mutable_first());
    last.write(*loop.mutable_last());
    if (max_in_flight != 1) {
        proto::Decorator& decorator = *loop.add_decorator();
        decorator.set_name("max_in_flight");
        Expr(max_in_flight).write(*decorator.add_arg()->mutable_expr());
    }
    open_loops_.push_back(static_cast<uint32_t>(index));
    body(Expr::leaf(proto::ExprToken::LOOP, static_cast<int64_t>(open_loops_.size()) - 1));
    open_loops_.pop_back();
    module_.program.mutable_statement(index)->mutable_loop()->set_body_end(
        static_cast<uint32_t>(module_.program.statement_size()));
}

uint32_t Program::op(const std::string& id, const std::string& type) {
    proto::Op& op = *module_.program.add_op();
    op.set_id(id);
    op.set_op_type(type);
    return static_cast<uint32_t>(module_.program.op_size());
}

proto::Tensor& Program::tensor(const std::string& id, proto::Tensor::Role role, ElemType elem,
                               const std::vector<int64_t>& shape, const std::string& buffer, int64_t offset) {
    proto::Tensor& tensor = *module_.program.add_tensor();
    tensor.set_id(id);
    tensor.set_role(role);
    tensor.set_elem(static_cast<proto::ElemType>(elem));
    for (const int64_t extent : shape) tensor.add_shape(extent);
    tensor.set_buffer(buffer);
    tensor.set_offset(offset);
    if (role == proto::Tensor::INPUT) module_.program.add_input_id(id);
    if (role == proto::Tensor::OUTPUT) module_.program.add_output_id(id);
    return tensor;
}

uint32_t Program::data(const std::string& name, const std::string& buffer, std::string bytes,
                       int64_t offset) {
    return add_data(module_, name, buffer, std::move(bytes), offset);
}

uint32_t add_data(Module& module, const std::string& name, const std::string& buffer, std::string bytes,
                  int64_t offset) {
    proto::Data& data = *module.program.add_data();
    data.set_name(name);
    data.set_size(bytes.size());
    data.set_sha256(sha256_hex(bytes));
    data.set_buffer(buffer);
    data.set_offset(offset);
    module.data.push_back(DataSection::of(std::move(bytes)));
    return static_cast<uint32_t>(module.program.data_size());
}

void promise_data(Module& module, const std::string& name, const std::string& buffer, uint64_t size) {
    proto::Data& data = *module.program.add_data();
    data.set_name(name);
    data.set_size(size);
    data.set_buffer(buffer);
    module.data.push_back(DataSection::promised(size));
}

Module Program::build() const& {
    check_form(module_.program, module_.origin);
    return module_;
}

Module Program::build() && {
    check_form(module_.program, module_.origin);
    return std::move(module_);
}

}  // namespace kpu::builder
