#include "isa/kernel/builder.hpp"

#include <fmt/format.h>

#include <cstring>
#include <set>

#include "isa/kernel/form.hpp"

namespace kpu::kernel::builder {

using Access = proto::KernelBuffer;

namespace {

BufferDecl declare(Access::Access access, std::string name, int64_t binding, Type type) {
    BufferDecl buffer;
    buffer.message.set_name(std::move(name));
    buffer.message.set_access(access);
    buffer.message.set_type(std::string(name_of(type)));
    buffer.binding = binding;
    return buffer;
}

}  // namespace

BufferDecl BufferDecl::read(std::string name, uint32_t binding, Type type) {
    return declare(Access::READ, std::move(name), binding, type);
}
BufferDecl BufferDecl::write(std::string name, uint32_t binding, Type type) {
    return declare(Access::WRITE, std::move(name), binding, type);
}
BufferDecl BufferDecl::read_write(std::string name, uint32_t binding, Type type) {
    return declare(Access::READ_WRITE, std::move(name), binding, type);
}
BufferDecl BufferDecl::uniform(std::string name, uint32_t binding, Type type) {
    return declare(Access::UNIFORM, std::move(name), binding, type);
}
BufferDecl BufferDecl::output(std::string name, uint32_t binding, Type type) {
    return declare(Access::OUTPUT, std::move(name), binding, type);
}
BufferDecl BufferDecl::workgroup(std::string name, uint32_t count, Type type) {
    return declare(Access::WORKGROUP, std::move(name), -1, type).with_count(count);
}
BufferDecl BufferDecl::scalar(std::string name, Type type) {
    return declare(Access::SCALAR, std::move(name), -1, type);
}
BufferDecl BufferDecl::with_count(uint32_t count) const {
    BufferDecl result = *this;
    result.message.set_count(count);
    return result;
}

Expr Expr::leaf(Op op, uint64_t bits, const std::string& name) {
    Expr expr;
    proto::KernelToken& token = *expr.message.add_token();
    token.set_op(std::string(operation(op).name));
    token.set_bits(bits);
    token.set_name(name);
    return expr;
}
Expr Expr::u32(uint32_t value) { return leaf(Op::literal_u32, value, ""); }
Expr Expr::i32(int32_t value) { return leaf(Op::literal_i32, static_cast<uint32_t>(value), ""); }
Expr Expr::u64(uint64_t value) { return leaf(Op::literal_u64, value, ""); }
Expr Expr::f32(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return f32_bits(bits);
}
Expr Expr::f32_bits(uint32_t bits) { return leaf(Op::literal_f32, bits, ""); }
Expr Expr::boolean(bool value) { return leaf(Op::literal_bool, value ? 1 : 0, ""); }
Expr Expr::Var(const std::string& name) { return leaf(Op::variable, 0, name); }
Expr Expr::BufLen(const std::string& buffer) { return leaf(Op::length, 0, buffer); }

namespace {
std::string axis_name(unsigned axis) {
    if (axis > 2)
        throw UserError(
            fmt::format("invocation/workgroup ID axis {} out of range. Fix: use 0, 1, or 2.", axis));
    return std::string(1, "xyz"[axis]);
}
}  // namespace

Expr Expr::InvocationId(unsigned axis) { return leaf(Op::gid, 0, axis_name(axis)); }
Expr Expr::WorkgroupId(unsigned axis) { return leaf(Op::wgid, 0, axis_name(axis)); }
Expr Expr::LocalId(unsigned axis) { return leaf(Op::lid, 0, axis_name(axis)); }

Expr Expr::apply(Op op, std::initializer_list<Expr> operands) {
    Expr expr;
    for (const Expr& operand : operands) expr.message.mutable_token()->MergeFrom(operand.message.token());
    expr.message.add_token()->set_op(std::string(operation(op).name));
    return expr;
}
Expr Expr::Load(const std::string& buffer, const Expr& index) {
    Expr expr = apply(Op::load, {index});
    expr.last().set_name(buffer);
    return expr;
}
Expr Expr::Select(const Expr& condition, const Expr& yes, const Expr& no) {
    return apply(Op::select, {condition, yes, no});
}
Expr Expr::Cast(Type target, const Expr& value) {
    Expr expr = apply(Op::cast, {value});
    expr.last().set_name(std::string(name_of(target)));
    return expr;
}
Expr Expr::Atomic(Op op, const std::string& buffer, const Expr& index, const Expr& value) {
    Expr expr = apply(op, {index, value});
    expr.last().set_name(buffer);
    return expr;
}
Expr Expr::AtomicCompareExchange(const std::string& buffer, const Expr& index, const Expr& expected,
                                 const Expr& value) {
    Expr expr = apply(Op::atomic_compare_exchange, {index, expected, value});
    expr.last().set_name(buffer);
    return expr;
}

Node Node::make(Kind kind) {
    Node node;
    node.message_.set_kind(std::string(statement_kind(kind).name));
    node.is_block_ = !statement_kind(kind).end.empty();
    return node;
}
Node Node::Let(const std::string& name, const Expr& value) {
    Node node = make(Kind::let);
    node.message_.set_name(name);
    *node.message_.add_expression() = value.message;
    return node;
}
Node Node::Assign(const std::string& name, const Expr& value) {
    Node node = Let(name, value);
    node.message_.set_kind("assign");
    return node;
}
Node Node::Store(const std::string& buffer, const Expr& index, const Expr& value) {
    Node node = make(Kind::store);
    node.message_.set_name(buffer);
    *node.message_.add_expression() = index.message;
    *node.message_.add_expression() = value.message;
    return node;
}
Node Node::If(const Expr& condition, Nodes then, Nodes otherwise) {
    Node node = make(Kind::if_);
    *node.message_.add_expression() = condition.message;
    node.then_ = std::move(then);
    node.otherwise_ = std::move(otherwise);
    return node;
}
Node Node::Loop(const std::string& variable, const Expr& from, const Expr& to, Nodes body) {
    Node node = make(Kind::loop);
    node.message_.set_name(variable);
    *node.message_.add_expression() = from.message;
    *node.message_.add_expression() = to.message;
    node.then_ = std::move(body);
    return node;
}
Node Node::While(const Expr& condition, Nodes body) {
    Node node = make(Kind::while_);
    *node.message_.add_expression() = condition.message;
    node.then_ = std::move(body);
    return node;
}
Node Node::Block(Nodes body) {
    Node node = make(Kind::block);
    node.then_ = std::move(body);
    return node;
}
Node Node::Region(const std::string& name, Nodes body) {
    Node node = make(Kind::region);
    node.message_.set_name(name);
    node.then_ = std::move(body);
    return node;
}
Node Node::Return() { return make(Kind::return_); }
Node Node::Barrier() { return make(Kind::barrier); }
Node Node::copy(Kind kind, const std::string& source, const std::string& destination, const Expr& offset,
                const Expr& size, const std::string& tag) {
    Node node = make(kind);
    node.message_.set_name(source);
    node.message_.set_other(destination);
    *node.message_.add_expression() = offset.message;
    *node.message_.add_expression() = size.message;
    node.message_.set_tag(tag);
    return node;
}
Node Node::async_load_ext(const std::string& source, const std::string& destination, const Expr& offset,
                          const Expr& size, const std::string& tag) {
    return copy(Kind::async_load, source, destination, offset, size, tag);
}
Node Node::async_store(const std::string& source, const std::string& destination, const Expr& offset,
                       const Expr& size, const std::string& tag) {
    return copy(Kind::async_store, source, destination, offset, size, tag);
}
Node Node::AsyncWait(const std::string& tag) {
    Node node = make(Kind::async_wait);
    node.message_.set_tag(tag);
    return node;
}
Node Node::Trap(const Expr& address, const std::string& tag) {
    Node node = make(Kind::trap);
    *node.message_.add_expression() = address.message;
    node.message_.set_tag(tag);
    return node;
}
Node Node::Resume(const std::string& tag) {
    Node node = make(Kind::resume);
    node.message_.set_tag(tag);
    return node;
}
Node Node::AllReduce(const std::string& buffer, const std::string& op, uint32_t group) {
    Node node = make(Kind::all_reduce);
    node.message_.set_name(buffer);
    node.message_.set_tag(op);
    node.message_.set_number(group);
    return node;
}
Node Node::AllGather(const std::string& input, const std::string& output, uint32_t group) {
    Node node = make(Kind::all_gather);
    node.message_.set_name(input);
    node.message_.set_other(output);
    node.message_.set_number(group);
    return node;
}
Node Node::ReduceScatter(const std::string& input, const std::string& output, const std::string& op,
                         uint32_t group) {
    Node node = AllGather(input, output, group);
    node.message_.set_kind("reduce_scatter");
    node.message_.set_tag(op);
    return node;
}
Node Node::Broadcast(const std::string& buffer, uint32_t root, uint32_t group) {
    Node node = make(Kind::broadcast);
    node.message_.set_name(buffer);
    node.message_.set_root(root);
    node.message_.set_number(group);
    return node;
}
Node Node::IndirectDispatch(const std::string& count_buffer, uint64_t count_offset) {
    Node node = make(Kind::indirect_dispatch);
    node.message_.set_name(count_buffer);
    node.message_.set_number(count_offset);
    return node;
}
Node Node::Opaque(const std::string& kind, const std::string& identity) {
    Node node = make(Kind::opaque);
    node.message_.set_tag(kind);
    node.message_.set_other(identity);
    return node;
}

void Node::append_to(proto::KernelBody& body) const {
    const int index = body.statement_size();
    *body.add_statement() = message_;
    if (!is_block_) return;
    for (const Node& node : then_) node.append_to(body);
    if (!otherwise_.empty())
        body.mutable_statement(index)->set_else_begin(static_cast<uint32_t>(body.statement_size()));
    for (const Node& node : otherwise_) node.append_to(body);
    body.mutable_statement(index)->set_body_end(static_cast<uint32_t>(body.statement_size()));
}

proto::KernelBody Program::wrapped(const std::string& name, const std::vector<BufferDecl>& buffers,
                                   std::array<uint32_t, 3> workgroup, const Node::Nodes& nodes) {
    proto::KernelBody body;
    body.set_name(name);
    body.set_rules("gpu");
    for (const uint32_t size : workgroup) body.add_workgroup(size);
    std::set<int64_t> bindings;
    for (const BufferDecl& buffer : buffers) {
        if (buffer.binding >= 0 && !bindings.insert(buffer.binding).second)
            throw UserError(
                fmt::format("kernel `{}`: binding {} of buffer `{}` is used twice. Fix: give each "
                            "buffer its own.",
                            name, buffer.binding, buffer.message.name()));
        *body.add_buffer() = buffer.message;
    }
    for (const Node& node : nodes) node.append_to(body);
    check_form(body, "<builder>");
    check_text(body, "<builder>");
    return body;
}

}  // namespace kpu::kernel::builder
