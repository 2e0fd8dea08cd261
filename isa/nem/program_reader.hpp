#pragma once

#include <optional>
#include <string>
#include <vector>

#include "isa/nem/reader.hpp"
#include "isa/nem/symbols.hpp"

namespace kpu::nem {

/// `acc[k-1]`
struct CarriedToken {
    Token name, variable;
    uint32_t distance = 1;
};

/// Reads a program document from its device directive to the end of the file.
class ProgramReader : public Reader {
  public:
    ProgramReader(Lexer& lexer, Context& context, std::string path);

    /// `body`: the text of the declarations already read, the program's inline device last; or empty.
    void read(const std::vector<std::string>& includes, std::string_view body);

  protected:
    void append_name(const Token& name, ExprCode& code) override;

  private:
    // program_reader.cpp: statements
    void read_head(const std::vector<std::string>& includes, std::string_view body);
    void read_statement();
    void read_const();
    void read_buffer();
    void read_let();
    void read_region_declaration(const Token& name);
    void read_loop();
    void read_loop_header(proto::Loop& loop);
    void read_endloop();
    void read_wait();

    // task_reader.cpp
    void read_task();
    void read_transfer(proto::Task& task, const Token& kind);
    void read_compute(proto::Task& task);
    void read_attributes(proto::Task& task);
    bool attribute_follows();
    void make_launch(proto::Task& task, const Token& call);
    void read_kernels(const MetaLine& line, std::string_view text);
    void read_deps(proto::Task& task);
    bool read_form();

    // program_reader.cpp: recovery and names
    bool at_statement();
    void recover(size_t offset);
    void finish();
    void check_form();
    bool comes_later(const Token& name) const;
    uint32_t resolve_token(bool of_task);
    void declare(Token name, Symbol::Kind kind, size_t index);
    void declare_pending();
    SourceMap::Place place_of(const Token& token) const { return {0, token.line, token.column}; }
    proto::Statement& add_statement(const Token& at);
    /// Returns a message that becomes part of the program once it is complete; until then the arena keeps it.
    template <typename Message>
    Message& make() {
        return *google::protobuf::Arena::CreateMessage<Message>(program_.GetArena());
    }

    // operand_reader.cpp: regions, operands, values, decorators
    uint32_t read_region(const std::string& name);
    void read_region_attributes(proto::Region& region);
    bool region_attribute_follows(unsigned ahead);
    void read_quant(proto::Quant& quant);
    double read_scale();
    int64_t read_zero_point();
    int32_t read_axis();
    void read_operand(proto::Operand& operand);
    void read_value(proto::Value& value, bool word_wanted, bool in_list);
    void read_named_value(proto::Value& value);
    void read_list(proto::Value& value, bool word_wanted);
    bool at_lone_name();
    template <typename Message>
    void read_decorators(Message& message) {
        while (peek().is('@')) read_decorator(*message.add_decorator());
    }
    void read_decorator(proto::Decorator& decorator);
    void read_expr(proto::Expr& expr, std::string_view what);
    void store(const ExprCode& code, proto::Expr& expr);

    // metadata.cpp: #! lines
    void read_metadata();
    bool read_list_lines(const std::vector<MetaLine>& lines);
    void read_meta_line(const MetaLine& line);
    void read_param(const MetaLine& line, std::string_view text);
    void read_references(const MetaLine& line);
    void refuse_place(std::string_view fix);
    void read_requires(const MetaLine& line, std::string_view text);
    void read_carried_of_task(const MetaLine& line, std::string_view text);
    void add_carried(const std::vector<CarriedToken>& tokens, proto::Task& task);
    void resolve_carried(uint32_t loop);
    bool read_json(const MetaLine& line, std::string_view text, google::protobuf::Message& message);
    void read_program_fields(const MetaLine& line, std::string_view text);
    void read_whole_module(const MetaLine& line, std::string_view text);
    void check_metadata();

    struct LetValue {
        std::vector<ExprItem> code;  ///< numbers
        proto::Value other;          ///< strings, words and lists, when there is no code
    };
    struct OpenLoop {
        uint32_t statement;
        Token start;
    };

    Module& module_;
    KPUProgram& program_;
    SymbolTable symbols_;
    std::vector<std::optional<int64_t>> constants_;  ///< values, where they have one
    std::vector<LetValue> lets_;
    std::vector<OpenLoop> loops_;
    std::optional<Token> pending_name_;  ///< read, not yet declared: poisoned if its statement fails
    bool in_const_ = false;              ///< an expression may name constants only
    size_t substituted_ = 0;             ///< expression tokens copied from lets
    struct Reference {
        uint32_t line, column;
        int64_t index;
    };
    std::optional<Reference> next_op_;     ///< operation of the task that follows
    std::optional<Reference> next_place_;  ///< place of the statement that follows
    /// Checked at the end: ops and places may stand anywhere.
    std::vector<Reference> op_references_, place_references_;
    std::optional<MetaLine> whole_module_;
    bool requires_kpusim_ = false;
    std::vector<CarriedToken> next_carried_;  ///< carried tokens of the task that follows
    struct OpenCarried {
        int statement, entry;  ///< statement and entry of the task that needs it
        uint32_t loop;         ///< statement
        Token name;
    };
    std::vector<OpenCarried> open_carried_;  ///< names are known when the loop ends: they may stand below
};

}  // namespace kpu::nem
