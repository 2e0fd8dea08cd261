#include "platforms/linked_text.hpp"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <set>

#include "platforms/parameters.hpp"
#include "platforms/platform.pb.h"

namespace kpu::platforms {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::io::Tokenizer;

/// The parser of protobuf text says what is wrong with the tokens.
class SilentCollector : public google::protobuf::io::ErrorCollector {
  public:
    void AddError(int /*line*/, int /*column*/, const std::string& /*message*/) override {}
    void AddWarning(int /*line*/, int /*column*/, const std::string& /*message*/) override {}
};

bool holds_number(const FieldDescriptor* field) {
    switch (field->cpp_type()) {
        case FieldDescriptor::CPPTYPE_UINT32:
        case FieldDescriptor::CPPTYPE_UINT64:
        case FieldDescriptor::CPPTYPE_INT64:
        case FieldDescriptor::CPPTYPE_DOUBLE:
            return !field->is_repeated();
        default:
            return false;
    }
}

/// Lines and columns of protobuf's tokenizer, in which a tab goes to the next multiple of 8, as offsets.
class Offsets {
  public:
    explicit Offsets(std::string_view text) : text_(text), lines_{0} {
        for (size_t i = 0; i < text.size(); ++i)
            if (text[i] == '\n') lines_.push_back(i + 1);
    }
    size_t of(int line, int column) const {
        size_t at = lines_.at(static_cast<size_t>(line));
        for (int now = 0; now < column && at < text_.size(); ++at) now += text_[at] == '\t' ? 8 - now % 8 : 1;
        return at;
    }

  private:
    std::string_view text_;
    std::vector<size_t> lines_;
};

class LinkedReader {
  public:
    LinkedReader(std::string_view text, std::string origin, Diagnostics& diagnostics)
        : offsets_(text),
          origin_(std::move(origin)),
          diagnostics_(diagnostics),
          input_(text.data(), static_cast<int>(text.size())),
          tokens_(&input_, &silent_) {
        tokens_.set_comment_style(Tokenizer::SH_COMMENT_STYLE);
        found_.plain = text;
        levels_.push_back({proto::Platform::descriptor(), "", {}});
    }

    LinkedText read() {
        tokens_.Next();
        while (!at_end()) step();
        return std::move(found_);
    }

  private:
    struct Level {
        const Descriptor* type;  ///< null: of a field that there is not
        std::string path;        ///< ends in a dot; empty at the top
        std::map<std::string, int> entries;
    };
    const Tokenizer::Token& token() { return tokens_.current(); }
    bool at_end() { return token().type == Tokenizer::TYPE_END; }
    bool is(std::string_view mark) { return token().type == Tokenizer::TYPE_SYMBOL && token().text == mark; }
    bool accept(std::string_view mark) {
        if (!is(mark)) return false;
        tokens_.Next();
        return true;
    }

    void step() {
        if (token().type == Tokenizer::TYPE_IDENTIFIER) return name();
        if (is("{") || is("<")) {
            descend();
        } else if ((is("}") || is(">")) && levels_.size() > 1) {
            levels_.pop_back();
            field_ = nullptr;
        }
        tokens_.Next();
    }

    void name() {
        const Tokenizer::Token start = token();
        const Level& level = levels_.back();
        if (levels_.size() == 1 && start.text == "scale") return scale_block(start);
        field_ = level.type == nullptr ? nullptr : level.type->FindFieldByName(start.text);
        tokens_.Next();
        if (field_ == nullptr || !holds_number(field_) || !accept(":")) return;
        if (token().type == Tokenizer::TYPE_STRING) keep_formula(start, level.path + start.text);
    }

    void keep_formula(const Tokenizer::Token& start, const std::string& path) {
        std::string text;
        Tokenizer::ParseString(token().text, &text);
        const SourcePos pos = place(token());
        if (path.find("[]") != std::string::npos)
            diagnostics_.error(pos, fmt::format("`{}` is a formula, and rows of lists take plain numbers. "
                                                "Fix: write the number, without quotes.",
                                                start.text));
        else
            found_.formulas.push_back({path, text, pos});
        blank(start, token());
        tokens_.Next();
    }

    /// scale { array: 2 links: 4 }
    void scale_block(const Tokenizer::Token& start) {
        tokens_.Next();
        accept(":");
        if (!accept("{")) return bad_scale();
        while (!at_end() && !is("}")) {
            if (token().type != Tokenizer::TYPE_IDENTIFIER) return bad_scale();
            const Tokenizer::Token group = token();
            tokens_.Next();
            if (!accept(":") ||
                (token().type != Tokenizer::TYPE_INTEGER && token().type != Tokenizer::TYPE_FLOAT))
                return bad_scale();
            found_.scales.push_back({"scale." + group.text, token().text, place(group)});
            tokens_.Next();
        }
        if (at_end()) return bad_scale();
        blank(start, token());
        tokens_.Next();
    }
    void bad_scale() {
        diagnostics_.error(
            place(token()),
            "`scale` holds groups and their factors. Fix: write such as `scale { array: 2 }`.");
        while (!at_end()) tokens_.Next();
    }

    void descend() {
        Level& parent = levels_.back();
        Level next{nullptr, "", {}};
        if (field_ != nullptr && field_->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
            next.type = field_->message_type();
            next.path = parent.path + field_->name();
            // engines are numbered; rows of other lists have no path of their own
            if (field_->is_repeated())
                next.path += levels_.size() == 1 && field_->name() == "engine"
                                 ? fmt::format("[{}]", parent.entries[field_->name()]++)
                                 : "[]";
            next.path += ".";
        }
        levels_.push_back(std::move(next));
        field_ = nullptr;
    }

    SourcePos place(const Tokenizer::Token& at) const {
        return {origin_, static_cast<uint32_t>(at.line + 1), static_cast<uint32_t>(at.column + 1)};
    }
    void blank(const Tokenizer::Token& first, const Tokenizer::Token& last) {
        const size_t end = offsets_.of(last.line, last.end_column);
        for (size_t i = offsets_.of(first.line, first.column); i < end; ++i)
            if (found_.plain[i] != '\n') found_.plain[i] = ' ';
    }

    Offsets offsets_;
    std::string origin_;
    Diagnostics& diagnostics_;
    SilentCollector silent_;
    google::protobuf::io::ArrayInputStream input_;
    Tokenizer tokens_;
    LinkedText found_;
    std::vector<Level> levels_;
    const FieldDescriptor* field_ = nullptr;  ///< the last one named in this level
};

/// Whether `name` is a number of some message of platforms.
bool names_number(std::string_view name) {
    static const std::set<std::string, std::less<>> names = [] {
        std::set<std::string, std::less<>> found;
        for (const ParameterInfo& row : parameters())
            if (row.type == "integer" || row.type == "real")
                found.insert(row.path.substr(row.path.rfind('.') + 1));
        return found;
    }();
    return names.find(name) != names.end();
}

/// Most platforms have numbers alone, and are read often: a look at what stands before each quote is far cheaper than
/// their tokens. True also where only the tokens can tell.
bool may_be_linked(std::string_view text) {
    constexpr std::string_view blanks = " \t\r\n";
    if (text.find("scale") != std::string_view::npos) return true;
    for (size_t quote = text.find_first_of("\"'"); quote != std::string_view::npos;
         quote = text.find_first_of("\"'", quote + 1)) {
        const size_t before = text.substr(0, quote).find_last_not_of(blanks);
        if (before == std::string_view::npos) continue;
        if (text[before] != ':') {  // a comment may stand between
            if (text.substr(before, quote - before).find('\n') != std::string_view::npos) return true;
            continue;
        }
        const size_t end = text.substr(0, before).find_last_not_of(blanks);
        if (end == std::string_view::npos) continue;
        size_t begin = end + 1;
        while (begin > 0 &&
               (std::isalnum(static_cast<unsigned char>(text[begin - 1])) != 0 || text[begin - 1] == '_'))
            --begin;
        if (names_number(text.substr(begin, end + 1 - begin))) return true;
    }
    return false;
}

}  // namespace

LinkedText take_linked(std::string_view text, const std::string& origin, Diagnostics& diagnostics) {
    if (!may_be_linked(text)) return {std::string(text), {}, {}};
    return LinkedReader(text, origin, diagnostics).read();
}

}  // namespace kpu::platforms
