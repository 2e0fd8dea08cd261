// Metadata lines: what the program form holds and the language has no words for. The forms are listed in
// printer.cpp.
#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>

#include "isa/nem/program_reader.hpp"

namespace kpu::nem {
namespace {

constexpr std::string_view known_forms = "param, tensor, op, data, program, module or {\"op\": N}";

/// The tokens of one metadata line.
class LineReader : public Reader {
  public:
    using Reader::Reader;

    proto::Param read_param(Token& name) {
        proto::Param param;
        name = expect_identifier("a parameter name");
        param.set_name(std::string(name.text));
        expect('=', "after the parameter name");
        param.set_default_value(expect_integer("the default value"));
        if (!peek().is(Word::in)) fail_expected("`in` before the range");
        next();
        expect('[', "before the range");
        param.set_min(expect_integer("the smallest value"));
        if (peek().kind != TokenKind::dots) fail_expected("`..` in the range");
        next();
        param.set_max(expect_integer("the largest value"));
        expect(']', "after the range");
        if (!at_end()) fail_expected("the end of the line");
        if (param.min() > param.default_value() || param.default_value() > param.max())
            fail(name,
                 fmt::format("parameter {} needs min <= default <= max. Fix: change the range or the default",
                             name.text));
        return param;
    }

    int64_t read_op() {
        expect('{', "before \"op\"");
        if (peek().kind != TokenKind::string || string_value(peek()) != "op") fail_expected("\"op\"");
        next();
        expect(':', "after \"op\"");
        const Token at = peek();
        const int64_t op = expect_integer("the operation's index");
        if (op < 0 || op >= INT32_MAX)
            fail(at, "operation index out of range. Fix: 0 is the first `#! op` line");
        expect('}', "after the index");
        if (!at_end()) fail_expected("the end of the line");
        return op;
    }

  protected:
    void append_name(const Token& name, ExprCode&) override {
        fail(name, "expected a number. Fix: write the value");
    }
};

bool has_structure(const KPUProgram& p) {
    return p.has_device() || p.param_size() + p.constant_size() + p.buffer_size() + p.region_size() > 0 ||
           p.statement_size() + p.tensor_size() + p.op_size() + p.data_size() > 0;
}

}  // namespace

/// Reads the metadata lines before the next token.
void ProgramReader::read_metadata() {
    const size_t offset = peek().offset;
    // copied: reading on may move the lexer's list
    while (const MetaLine* line = lexer_.next_meta(offset)) {
        try {
            read_meta_line(MetaLine(*line));
        } catch (const SyntaxError&) {
            declare_pending();
        }
    }
}

void ProgramReader::read_meta_line(const MetaLine& line) {
    const size_t begin = std::min(line.text.find_first_not_of(" \t"), line.text.size());
    const size_t end = std::min(line.text.find_first_of(" \t\r{", begin), line.text.size());
    const std::string_view form = line.text.substr(begin, end - begin);
    const std::string_view rest = line.text.substr(end);
    if (form == "param") {
        read_param(line, rest);
    } else if (form == "tensor") {
        if (!read_json(line, rest, *program_.add_tensor())) program_.mutable_tensor()->RemoveLast();
    } else if (form == "op") {
        if (!read_json(line, rest, *program_.add_op())) program_.mutable_op()->RemoveLast();
    } else if (form == "data") {
        if (!read_json(line, rest, *program_.add_data())) program_.mutable_data()->RemoveLast();
    } else if (form == "program") {
        read_program_fields(line, rest);
    } else if (form == "module") {
        read_whole_module(line, rest);
    } else if (form.empty() && !rest.empty() && rest[0] == '{') {
        read_op_of_task(line);
    } else {
        report_at(
            line.line, line.column,
            fmt::format("unknown metadata line `#! {}`. Fix: one of {}; a comment starts with # and a space",
                        is_valid_utf8(form) ? form.substr(0, 40) : "", known_forms));
    }
}

void ProgramReader::read_param(const MetaLine& line, std::string_view text) {
    Lexer lexer(text, line.line, line.column + static_cast<uint32_t>(text.data() - line.text.data()));
    LineReader reader(lexer, context_, path_);
    Token name;
    proto::Param param;
    try {
        param = reader.read_param(name);
    } catch (const SyntaxError&) {
        if (!name.text.empty()) symbols_.declare_global(name.text, {});  // its uses are not reported
        throw;
    }
    declare(name, Symbol::Kind::param, static_cast<size_t>(program_.param_size()));
    *program_.add_param() = param;
}

void ProgramReader::read_op_of_task(const MetaLine& line) {
    Lexer lexer(line.text, line.line, line.column);
    LineReader reader(lexer, context_, path_);
    next_op_ = OpReference{line.line, line.column, reader.read_op()};
}

bool ProgramReader::read_json(const MetaLine& line, std::string_view text,
                              google::protobuf::Message& message) {
    const google::protobuf::util::Status status = google::protobuf::util::JsonStringToMessage(
        google::protobuf::StringPiece(text.data(), text.size()), &message);
    if (status.ok()) return true;
    std::string reason(status.message().data(), status.message().size());
    for (char& c : reason) {
        if (c == '\n' || c == '\r') c = ' ';
    }
    report_at(line.line, line.column,
              fmt::format("metadata is not JSON of {}: {}. Fix: use the field names of the program schema",
                          message.GetDescriptor()->name(), reason.substr(0, 200)));
    return false;
}

void ProgramReader::read_program_fields(const MetaLine& line, std::string_view text) {
    KPUProgram fields;
    if (!read_json(line, text, fields)) return;
    if (has_structure(fields)) {
        report_at(line.line, line.column,
                  "a `#! program` line holds names, hashes, input and output ids, sizes and "
                  "estimates only. Fix: write the rest as text");
        return;
    }
    program_.MergeFrom(fields);
}

void ProgramReader::read_whole_module(const MetaLine& line, std::string_view text) {
    KPUProgram whole;
    if (whole_module_ || program_.ByteSizeLong() > 0) {
        report_at(line.line, line.column,
                  "a `#! module` line is the whole program. Fix: remove everything else");
        return;
    }
    if (!read_json(line, text, whole)) return;
    whole_module_ = line;
    program_ = std::move(whole);
}

void ProgramReader::check_metadata() {
    if (next_op_)
        report_at(next_op_->line, next_op_->column,
                  "an operation was named, but no task follows. Fix: remove "
                  "this line");
    for (const OpReference& reference : op_references_) {
        if (reference.op >= program_.op_size())
            report_at(
                reference.line, reference.column,
                fmt::format("there is no operation {}: the program declares {}. Fix: add its `#! op` line",
                            reference.op, program_.op_size()));
    }
    if (whole_module_ && (!module_.source.statements.empty() || !module_.source.buffers.empty() ||
                          !module_.source.constants.empty()))
        report_at(whole_module_->line, whole_module_->column,
                  "a `#! module` line is the whole program. Fix: remove the statements");
}

}  // namespace kpu::nem
