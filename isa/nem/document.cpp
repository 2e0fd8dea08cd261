// A document: includes, then declarations, then perhaps a program.
#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.hpp"
#include "isa/nem/config_reader.hpp"
#include "isa/nem/program_reader.hpp"

namespace kpu::nem {
namespace {

class DocumentReader : public ConfigReader {
  public:
    using ConfigReader::ConfigReader;

    void read_main() {
        read_includes();
        const bool only_includes = at_end() && !includes_.empty();
        const Token first = peek();
        const unsigned devices = read_declarations();
        const bool declares = !context_.document.devices.empty() || !context_.document.families.empty();
        if (at_end() && (only_includes || declares || context_.errors > 0)) return;
        context_.document.is_program = true;
        // the last device is the program's; what it extends may stand before it
        const std::string_view body = devices > 0 && devices_end_ > first.offset
                                          ? lexer_.text().substr(first.offset, devices_end_ - first.offset)
                                          : "";
        check_encoding(body, first.line);
        context_.document.module.source.device = {0, first.line, first.column};
        ProgramReader program(lexer_, context_, path_);
        program.read(includes_, body);
    }

    /// Reads declarations of an included file; a program in it is ignored.
    void read_included() {
        read_includes();
        read_declarations();
        if (at_end() || starts_program()) return;
        try {
            fail_expected("a device or a type family");
        } catch (const SyntaxError&) {
        }
    }

  private:
    /// The program keeps the text of its device, comments too, as a string of UTF-8.
    void check_encoding(std::string_view body, uint32_t line) {
        for (; !body.empty(); ++line) {
            const std::string_view text = body.substr(0, body.find('\n'));
            if (!is_valid_utf8(text))
                return report_at(
                    line, 1, "the device declaration is not valid UTF-8 here. Fix: save the file as UTF-8");
            body.remove_prefix(std::min(body.size(), text.size() + 1));
        }
    }

    bool starts_program() {
        for (const Word word :
             {Word::program, Word::device, Word::const_, Word::buffer, Word::let, Word::loop, Word::wait})
            if (peek().is(word)) return true;
        return peek().is(';') || (peek().kind == TokenKind::name && (peek(1).is('=') || peek(1).is('.')));
    }

    void read_includes() {
        while (peek().is(Word::include)) {
            try {
                next();
                const Token at = peek();
                const std::string name = expect_string("the name of the included file");
                includes_.push_back(name);
                include(name, at);
            } catch (const SyntaxError&) {
                while (!at_end() && !peek().line_start) next();
            }
        }
    }

    void include(const std::string& name, const Token& at) {
        if (context_.stack.size() > max_include_depth)
            fail(at,
                 fmt::format("includes nested deeper than {} files. Fix: flatten them", max_include_depth));
        std::optional<SourceFile> file = context_.loader(name, path_);
        if (!file)
            fail(at, fmt::format(
                         "cannot find the included file {}. Fix: put it beside this file or give its folder "
                         "with -I",
                         quoted(at)));
        const auto active = std::find(context_.stack.begin(), context_.stack.end(), file->path);
        if (active != context_.stack.end()) {
            std::string chain;
            for (auto step = active; step != context_.stack.end(); ++step) chain += *step + " -> ";
            fail(at, fmt::format("include cycle: {}{}. Fix: remove one of the includes", chain, file->path));
        }
        if (std::find(context_.loaded.begin(), context_.loaded.end(), file->path) != context_.loaded.end())
            return;
        context_.loaded.push_back(file->path);
        if (context_.loaded.size() > max_files)
            fail(at, fmt::format("more than {} included files. Fix: merge them", max_files));
        context_.total_bytes += file->text.size();
        if (context_.total_bytes > max_total_bytes)
            fail(at, fmt::format("included files exceed {} bytes. Fix: include less", max_total_bytes));
        context_.stack.push_back(file->path);
        Lexer lexer(file->text);
        DocumentReader(lexer, context_, file->path).read_included();
        context_.stack.pop_back();
    }

    std::vector<std::string> includes_;
};

}  // namespace

Document parse(std::string_view text, const std::string& path, const FileLoader& loader,
               Diagnostics& diagnostics) {
    Context context{loader, diagnostics, {}, {path}, {}, {}, {}, text.size(), 0};
    context.document.module.origin = path;
    if (text.size() > max_total_bytes) {
        diagnostics.error(
            {path, 0, 0},
            fmt::format("the text has more than {} bytes. Fix: use a container (.kpu)", max_total_bytes));
        return std::move(context.document);
    }
    Lexer lexer(text);
    DocumentReader reader(lexer, context, path);
    try {
        reader.read_main();
    } catch (const TooManyErrors&) {
        diagnostics.info({path, 0, 0}, fmt::format("stopped after {} errors", max_errors));
    }
    return std::move(context.document);
}

}  // namespace kpu::nem
