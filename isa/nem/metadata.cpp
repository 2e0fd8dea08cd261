// Metadata lines: what the program form holds and the language has no words for. The forms are listed in
// printer.cpp.
#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>

#include "base/text.hpp"
#include "base/utf8.hpp"
#include "isa/bound_program.hpp"
#include "isa/nem/program_reader.hpp"
#include "isa/structure.hpp"

namespace kpu::nem {
namespace {

constexpr std::string_view known_forms =
    "requires, param, tensor, op, data, place, kernels, program, module, deps, {\"op\": N} or {\"place\": N}";

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

    struct References {
        std::optional<int64_t> op, place;
    };
    References read_references() {
        References result;
        expect('{', "before \"op\" or \"place\"");
        do {
            const std::string name = peek().kind == TokenKind::string ? string_value(peek()) : std::string();
            if (name == "op" && !result.op) {
                result.op = read_reference("the operation's index", "operation", "op");
            } else if (name == "place" && !result.place) {
                result.place = read_reference("the place's index", "place", "place");
            } else {
                fail_expected(result.op ? "\"place\"" : result.place ? "\"op\"" : "\"op\" or \"place\"");
            }
        } while (accept(','));
        expect('}', "after the index");
        if (!at_end()) fail_expected("the end of the line");
        return result;
    }

    void read_requires() {
        const Token feature = expect_identifier("kpusim");
        if (feature.text != "kpusim")
            fail(feature, fmt::format("this reader is not `{}`. Fix: read the file with it, or write kpusim",
                                      feature.text));
        if (!at_end()) fail_expected("the end of the line");
    }

    std::vector<CarriedToken> read_carried() {
        std::vector<CarriedToken> result;
        do {
            CarriedToken token;
            token.name = expect_identifier("a token name");
            expect('[', "after the token name");
            token.variable = expect_identifier("a loop variable");
            expect('-', "after the loop variable");
            const Token at = peek();
            const int64_t distance = expect_integer("how many iterations before");
            if (distance < 1 || distance > max_carried_distance)
                fail(at, fmt::format("a distance of {} iterations; 1 to {} are allowed. Fix: name an earlier "
                                     "iteration, or write deps=[{}] for this one",
                                     distance, max_carried_distance, token.name.text));
            token.distance = static_cast<uint32_t>(distance);
            expect(']', "after the distance");
            result.push_back(token);
        } while (accept(','));
        if (!at_end()) fail_expected("the end of the line");
        return result;
    }

  protected:
    void append_name(const Token& name, ExprCode&) override {
        fail(name, "expected a number. Fix: write the value");
    }

  private:
    int64_t read_reference(std::string_view wanted, std::string_view what, std::string_view form) {
        next();
        expect(':', "after the name");
        const Token at = peek();
        const int64_t index = expect_integer(wanted);
        if (index < 0 || index >= INT32_MAX)
            fail(at, fmt::format("{} index out of range. Fix: 0 is the first `#! {}` line", what, form));
        return index;
    }
};

struct Form {
    std::string_view name, rest;  ///< the word after `#!`, and what follows it
};
Form form_of(const MetaLine& line) {
    const size_t begin = std::min(line.text.find_first_not_of(" \t"), line.text.size());
    const size_t end = std::min(line.text.find_first_of(" \t\r{", begin), line.text.size());
    return {line.text.substr(begin, end - begin), line.text.substr(end)};
}

bool is_list_form(std::string_view form) {
    return form == "tensor" || form == "op" || form == "data" || form == "place";
}

/// True if the text is one `{...}`, as far as its braces say.
bool is_one_object(std::string_view text) {
    int depth = 0;
    bool closed = false, in_string = false;
    for (size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (in_string) {
            if (c == '\\') ++i;
            in_string = c != '"';
        } else if (c == ' ' || c == '\t' || c == '\r') {
            continue;
        } else if (closed || c == '\'' || (depth == 0 && c != '{')) {
            return false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            ++depth;
        } else if (c == '}' || c == ']') {
            closed = --depth == 0;
        }
    }
    return closed;
}

bool has_structure(const KPUProgram& p) {
    return p.has_device() || p.param_size() + p.constant_size() + p.buffer_size() + p.region_size() > 0 ||
           p.statement_size() + p.tensor_size() + p.op_size() + p.data_size() + p.place_size() > 0;
}

}  // namespace

/// Reads the metadata lines before the next token.
void ProgramReader::read_metadata() {
    const size_t offset = peek().offset;
    std::vector<MetaLine> lines;
    while (const MetaLine* line = lexer_.next_meta(offset)) lines.push_back(*line);
    if (lines.empty()) return;
    const bool lists_read = read_list_lines(lines);
    for (const MetaLine& line : lines) {
        if (lists_read && is_list_form(form_of(line).name)) continue;
        try {
            read_meta_line(line);
        } catch (const SyntaxError&) {
            declare_pending();
        }
    }
}

/// The tensors, operations, data and places of several lines as one JSON text: each call of the JSON reader looks the
/// schema up again, which takes longer than a line. False: nothing was read, and reading line by line tells
/// where the mistake is.
bool ProgramReader::read_list_lines(const std::vector<MetaLine>& lines) {
    const auto is_list = [](const MetaLine& line) { return is_list_form(form_of(line).name); };
    if (std::count_if(lines.begin(), lines.end(), is_list) < 2) return false;
    std::string json = "{";
    int count = 0;
    for (const std::string_view name : {"tensor", "op", "data", "place"}) {
        json += fmt::format("{}\"{}\":[", json.size() == 1 ? "" : ",", name);
        bool first = true;
        for (const MetaLine& line : lines) {
            const Form form = form_of(line);
            if (form.name != name) continue;
            if (!is_one_object(form.rest)) return false;
            if (!first) json += ',';
            json += form.rest;
            first = false;
            ++count;
        }
        json += ']';
    }
    json += '}';
    auto& batch = make<KPUProgram>();
    if (!google::protobuf::util::JsonStringToMessage(json, &batch).ok()) return false;
    if (batch.tensor_size() + batch.op_size() + batch.data_size() + batch.place_size() != count) return false;
    program_.MergeFrom(batch);
    return true;
}

void ProgramReader::read_meta_line(const MetaLine& line) {
    const auto [form, rest] = form_of(line);
    if (form == "param") {
        read_param(line, rest);
    } else if (form == "tensor") {
        if (!read_json(line, rest, *program_.add_tensor())) program_.mutable_tensor()->RemoveLast();
    } else if (form == "op") {
        if (!read_json(line, rest, *program_.add_op())) program_.mutable_op()->RemoveLast();
    } else if (form == "data") {
        if (!read_json(line, rest, *program_.add_data())) program_.mutable_data()->RemoveLast();
    } else if (form == "place") {
        if (!read_json(line, rest, *program_.add_place())) program_.mutable_place()->RemoveLast();
    } else if (form == "kernels") {
        read_kernels(line, rest);
    } else if (form == "program") {
        read_program_fields(line, rest);
    } else if (form == "module") {
        read_whole_module(line, rest);
    } else if (form == "requires") {
        read_requires(line, rest);
    } else if (form == "deps") {
        read_carried_of_task(line, rest);
    } else if (form.empty() && !rest.empty() && rest[0] == '{') {
        read_references(line);
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

/// Reads the kernels of a file, which become part of the program.
void ProgramReader::read_kernels(const MetaLine& line, std::string_view text) {
    const auto report = [&](std::string message) { report_at(line.line, line.column, std::move(message)); };
    const std::string name(trimmed(text));
    if (!is_kernel_file_name(name))
        return report(
            "a `#! kernels` line names a file beside the program. Fix: a name of letters, digits, _ - and ., "
            "that "
            "ends in .kern");
    const std::optional<SourceFile> file = context_.loader(name, path_);
    if (!file)
        return report(
            fmt::format("cannot find the file of kernels {}. Fix: put it beside this file or give its folder "
                        "with -I",
                        name));
    context_.total_bytes += file->text.size();
    if (context_.total_bytes > max_total_bytes)
        return report(fmt::format("included files exceed {} bytes. Fix: include less", max_total_bytes));
    proto::KernelFile& kernels = *program_.add_kernel_file();
    kernels.set_path(name);
    Diagnostics found;
    for (kernel::Source& source : kernel::parse(file->text, file->path, found)) {
        *kernels.add_kernel() = *source.body;
        module_.source.kernels.push_back(std::move(source));
    }
    for (const Diagnostic& diagnostic : found.all()) context_.diagnostics.add(diagnostic);
    if (!found.has_errors()) return;
    ++context_.errors;
    program_.mutable_kernel_file()->RemoveLast();
}

void ProgramReader::read_references(const MetaLine& line) {
    Lexer lexer(line.text, line.line, line.column);
    const LineReader::References read = LineReader(lexer, context_, path_).read_references();
    if (read.op) next_op_ = Reference{line.line, line.column, *read.op};
    if (read.place) next_place_ = Reference{line.line, line.column, *read.place};
}

void ProgramReader::refuse_place(std::string_view fix) {
    const Reference place = *next_place_;
    next_place_.reset();
    report_at(place.line, place.column,
              fmt::format("a place was named, but no statement follows. Fix: {}", fix));
}

void ProgramReader::read_requires(const MetaLine& line, std::string_view text) {
    Lexer lexer(text, line.line, line.column + static_cast<uint32_t>(text.data() - line.text.data()));
    LineReader(lexer, context_, path_).read_requires();
    if (program_.statement_size() == 0) {
        requires_kpusim_ = true;
    } else {
        report_at(line.line, line.column,
                  "a `#! requires` line below the first statement. Fix: move it to the head of the file");
    }
}

void ProgramReader::read_carried_of_task(const MetaLine& line, std::string_view text) {
    Lexer lexer(text, line.line, line.column + static_cast<uint32_t>(text.data() - line.text.data()));
    const std::vector<CarriedToken> tokens = LineReader(lexer, context_, path_).read_carried();
    next_carried_.insert(next_carried_.end(), tokens.begin(), tokens.end());
    if (requires_kpusim_) return;
    requires_kpusim_ = true;  // said once
    report_at(line.line, line.column,
              "tokens of earlier iterations in a file that other readers may take: they skip this line and "
              "run the program with races. Fix: write `#! requires kpusim` at the head of the file");
}

/// Gives the task that follows `#! deps` lines its tokens; what their names stand for is settled when the
/// loop ends.
void ProgramReader::add_carried(const std::vector<CarriedToken>& tokens, proto::Task& task) {
    for (const CarriedToken& token : tokens) {
        const Symbol* variable = symbols_.find(token.variable.text);
        if (variable != nullptr && variable->kind == Symbol::Kind::poisoned) continue;
        if (variable == nullptr || variable->kind != Symbol::Kind::loop) {
            report(token.variable,
                   fmt::format("`{}` is not a variable of a loop around this task{}", token.variable.text,
                               symbols_.suggestion(token.variable.text, {Symbol::Kind::loop})));
            continue;
        }
        proto::Carried& carried = *task.add_carried();
        carried.set_loop(loops_[variable->index].statement);
        carried.set_distance(token.distance);
        open_carried_.push_back(
            {program_.statement_size(), task.carried_size() - 1, carried.loop(), token.name});
    }
}

void ProgramReader::resolve_carried(uint32_t loop) {
    for (const OpenCarried& open : open_carried_) {
        if (open.loop != loop) continue;
        const Symbol* symbol = symbols_.find(open.name.text);
        if (symbol == nullptr || symbol->kind != Symbol::Kind::token) {
            if (symbol != nullptr && symbol->kind == Symbol::Kind::poisoned) continue;
            report(open.name, fmt::format("unknown token `{}`{}", open.name.text,
                                          symbols_.suggestion(open.name.text, {Symbol::Kind::token})));
        } else if (symbol->index <= loop) {
            report(open.name,
                   fmt::format("task `{0}` stands before the loop, which repeats nothing of it. Fix: "
                               "name a task of the loop, or write deps=[{0}]",
                               open.name.text));
        } else {
            program_.mutable_statement(open.statement)
                ->mutable_task()
                ->mutable_carried(open.entry)
                ->set_task(symbol->index);
        }
    }
    open_carried_.erase(std::remove_if(open_carried_.begin(), open_carried_.end(),
                                       [&](const OpenCarried& open) { return open.loop == loop; }),
                        open_carried_.end());
}

namespace {

/// Translates what protobuf's JSON reader says into words for people who do not know it.
std::string json_problem(std::string_view told) {
    constexpr size_t longest = 100;
    if (const size_t end = told.find(": Cannot find field"); end != std::string_view::npos)
        return fmt::format("there is no field `{}`", told.substr(0, std::min(end, longest)));
    constexpr std::string_view value = ": invalid value ";
    const size_t at = told.find(value), type = told.find(" for type");
    if (at == std::string_view::npos || type == std::string_view::npos || at + value.size() > type)
        return "it is not a JSON object";
    const std::string_view given = told.substr(at + value.size(), type - at - value.size());
    if (at == 0) return "a list or an object stands where a plain value belongs";
    return fmt::format("{} is not a value of `{}`", given.substr(0, longest), told.substr(1, at - 2));
}

}  // namespace

bool ProgramReader::read_json(const MetaLine& line, std::string_view text,
                              google::protobuf::Message& message) {
    const google::protobuf::util::Status status = google::protobuf::util::JsonStringToMessage(
        google::protobuf::StringPiece(text.data(), text.size()), &message);
    if (status.ok()) return true;
    const std::string_view told(status.message().data(), status.message().size());
    report_at(line.line, line.column,
              fmt::format("metadata is not JSON of {}: {}. Fix: use the field names of the program schema",
                          message.GetDescriptor()->name(), json_problem(told)));
    return false;
}

void ProgramReader::read_program_fields(const MetaLine& line, std::string_view text) {
    KPUProgram fields;
    if (!read_json(line, text, fields)) return;
    if (has_structure(fields)) {
        report_at(line.line, line.column,
                  "a `#! program` line holds names, hashes, source files, input and output ids, sizes and "
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
    if (next_place_) refuse_place("remove this line");
    if (!next_carried_.empty())
        report(next_carried_.front().name,
               "tokens of earlier iterations, but no task follows. Fix: remove this line");
    const auto check = [&](const std::vector<Reference>& references, std::string_view what,
                           std::string_view word, int declared) {
        for (const Reference& reference : references) {
            if (reference.index >= declared)
                report_at(reference.line, reference.column,
                          fmt::format("there is no {} {}: the program declares {}. Fix: add its `#! {}` line",
                                      what, reference.index, declared, word));
        }
    };
    check(op_references_, "operation", "op", program_.op_size());
    check(place_references_, "place", "place", program_.place_size());
    if (whole_module_ && (!module_.source.statements.empty() || !module_.source.buffers.empty() ||
                          !module_.source.constants.empty()))
        report_at(whole_module_->line, whole_module_->column,
                  "a `#! module` line is the whole program. Fix: remove the statements");
}

}  // namespace kpu::nem
