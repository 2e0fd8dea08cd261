#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "isa/kernel/code.hpp"

namespace kpu::kernel {

/// Turns a kernel's body into code, statement by statement. All mistakes are reported, each once.
class Analysis {
  public:
    Analysis(const Source& source, Diagnostics& diagnostics);
    std::shared_ptr<Code> run();

  private:
    struct Scope {
        uint32_t end;                         ///< first statement after it
        std::vector<std::string_view> names;  ///< declared in it
        bool returned = false;
    };

    // analyse.cpp
    void check_head();
    void add_buffers();
    void add_buffer(const proto::KernelBuffer& buffer, const SourcePos& pos);
    void check_workgroup_memory();
    void add_statement(uint32_t index);
    void resolve(const proto::KernelStatement& source, CodeStatement& statement);
    void declare(const std::string& name, Type type, Variable::Kind kind, CodeStatement& statement);
    void resolve_assign(const proto::KernelStatement& source, CodeStatement& statement);
    void resolve_store(const proto::KernelStatement& source, CodeStatement& statement);
    void check_stored_type(const CodeBuffer& buffer, Type value);
    void resolve_condition(const proto::KernelStatement& source, CodeStatement& statement);
    void resolve_loop(const proto::KernelStatement& source, CodeStatement& statement);
    void resolve_copy(const proto::KernelStatement& source, CodeStatement& statement);
    uint32_t copy_buffer(const std::string& name);
    uint32_t tag_of(const std::string& tag);
    void refuse(const proto::KernelStatement& source, Kind kind);
    void refuse_dispatch(const proto::KernelStatement& source);
    void close_scopes(uint32_t index);
    void error(std::string message);
    void warning(std::string message);
    SourcePos pos() const;

    // analyse_expressions.cpp
    ExprIndex resolve_expression(const proto::KernelExpression& expression, CodeStatement& statement);
    CodeExpr resolve_token(const proto::KernelToken& token, const Operation& row,
                           std::vector<ExprIndex>& stack);
    void resolve_load(const proto::KernelToken& token, CodeExpr& expr);
    void resolve_binary(const Operation& row, CodeExpr& expr);
    void resolve_unary(const Operation& row, CodeExpr& expr);
    void resolve_select(CodeExpr& expr);
    void resolve_cast(const proto::KernelToken& token, CodeExpr& expr);
    void resolve_fma(CodeExpr& expr);
    void resolve_atomic(const proto::KernelToken& token, const Operation& row, CodeExpr& expr);
    void resolve_subgroup(CodeExpr& expr);
    bool holds_atomic(ExprIndex index) const;
    const CodeExpr& at(ExprIndex index) const { return code_->exprs[index]; }
    Type type_of(ExprIndex index) const { return index == no_expr ? Type::none : at(index).type; }
    /// Returns the value of a literal, else the type: an operand in messages.
    std::string operand_text(ExprIndex index) const;
    std::optional<uint32_t> buffer_of(const std::string& name) const;
    std::optional<uint32_t> variable_of(const std::string& name) const;

    const Source& source_;
    const proto::KernelBody& body_;
    Diagnostics& diagnostics_;
    std::shared_ptr<Code> code_;
    std::unordered_map<std::string_view, uint32_t> buffers_, visible_;
    std::vector<Scope> scopes_;
    uint32_t current_ = 0;
    bool in_head_ = true;
    size_t errors_ = 0;
};

/// Marks variables that differ between lanes or depend on data; reports barriers that only part of a workgroup
/// may reach.
void analyse_flow(Code& code, const Source& source, Diagnostics& diagnostics);

}  // namespace kpu::kernel
