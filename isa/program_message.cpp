#include "isa/program_message.hpp"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/gzip_stream.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <filesystem>

#include "base/text.hpp"
#include "isa/container.hpp"
#include "isa/message_text.hpp"
#include "isa/structure.hpp"
#include "isa/wire_fault.hpp"

namespace kpu {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::io::CodedInputStream;
using Wire = google::protobuf::internal::WireFormatLite;

/// Programs are never denser packed than this: what claims to be is no program.
constexpr uint64_t max_packing = 200;
constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

[[noreturn]] void refuse_message(const std::string& origin, const std::string& text) {
    Diagnostics found;
    found.error({origin, 0, 0}, text);
    throw UserError(std::move(found));
}

/// True for control characters but those that `but` has.
bool has_controls(std::string_view text, std::string_view but) {
    return std::any_of(text.begin(), text.end(), [&](char c) {
        return (static_cast<uint8_t>(c) < ' ' || c == '\x7f') && but.find(c) == std::string_view::npos;
    });
}

/// The first field is one of the program's; those of its strings that can be seen are names, without control characters,
/// of which the parts of other messages are full. A serialized program is no text: each expression has such bytes.
bool begins_serialized(std::string_view head) {
    if (!has_controls(head, "\t\n\v\f\r") || is_pickle(head)) return false;
    CodedInputStream stream(reinterpret_cast<const uint8_t*>(head.data()), static_cast<int>(head.size()));
    bool known = false;
    while (const uint32_t tag = stream.ReadTag()) {
        const FieldDescriptor* field =
            KPUProgram::descriptor()->FindFieldByNumber(Wire::GetTagFieldNumber(tag));
        if (field == nullptr || Wire::GetTagWireType(tag) !=
                                    Wire::WireTypeForFieldType(static_cast<Wire::FieldType>(field->type())))
            return known;
        known = true;
        if (field->type() == FieldDescriptor::TYPE_STRING) {
            uint32_t size = 0;
            if (!stream.ReadVarint32(&size)) return true;
            if (has_controls(head.substr(static_cast<size_t>(stream.CurrentPosition()), size), ""))
                return false;
            if (!stream.Skip(static_cast<int>(std::min<uint32_t>(size, INT32_MAX)))) return true;
        } else if (!Wire::SkipField(&stream, tag)) {
            return true;
        }
    }
    return known;
}

std::string_view without_mark(std::string_view text) {
    return starts_with(text, byte_order_mark) ? text.substr(byte_order_mark.size()) : text;
}

bool begins_text(std::string_view head) {
    head = without_mark(head);
    while (!head.empty()) {
        const std::string_view line = take_line(head);
        if (line.empty() || line[0] == '#') continue;
        const size_t end = std::min(line.find_first_of(" \t:{<"), line.size());
        const std::string_view rest = trimmed(line.substr(end));
        return !rest.empty() && std::string_view(":{<").find(rest[0]) != std::string_view::npos &&
               KPUProgram::descriptor()->FindFieldByName(std::string(line.substr(0, end))) != nullptr;
    }
    return false;
}

class NoErrors final : public google::protobuf::io::ErrorCollector {
    void AddError(int /*line*/, int /*column*/, const std::string& /*message*/) override {
        throw InternalError("a text that was parsed has no tokens");
    }
};

/// Finds the places of the parts of a program in its text, which has been parsed.
SourceMap places_in(std::string_view text, const KPUProgram& program, const std::string& origin) {
    using google::protobuf::io::Tokenizer;
    SourceMap map;
    map.files = {origin};
    google::protobuf::io::ArrayInputStream stream(text.data(), static_cast<int>(text.size()));
    NoErrors none;
    Tokenizer tokens(&stream, &none);
    tokens.set_comment_style(Tokenizer::SH_COMMENT_STYLE);
    tokens.set_require_space_after_number(false);
    tokens.set_allow_multiline_strings(true);
    std::string field;
    SourceMap::Place place;  // of the field's name; of all but the first in a list, the brace
    for (int depth = 0; tokens.Next();) {
        const Tokenizer::Token& token = tokens.current();
        const SourceMap::Place here{0, static_cast<uint32_t>(token.line + 1),
                                    static_cast<uint32_t>(token.column + 1)};
        if (token.text == "}" || token.text == ">") {
            --depth;
        } else if (token.text == "{" || token.text == "<") {
            if (depth++ > 0) continue;
            if (place.line == 0) place = here;
            if (field == "statement") map.statements.push_back(place);
            if (field == "region") map.regions.push_back(place);
            if (field == "buffer") map.buffers.push_back(place);
            if (field == "constant") map.constants.push_back(place);
            if (field == "device") map.device = place;
            place = {};
        } else if (depth == 0 && token.type == Tokenizer::TYPE_IDENTIFIER) {
            field = token.text;
            place = here;
        }
    }
    const auto all = [](const std::vector<SourceMap::Place>& places, int count) {
        return places.size() == static_cast<size_t>(count);
    };
    if (!all(map.statements, program.statement_size()) || !all(map.regions, program.region_size()) ||
        !all(map.buffers, program.buffer_size()) || !all(map.constants, program.constant_size()))
        throw InternalError("the parts of a text are not those of its program");
    return map;
}

void read_text(std::string_view text, Module& module) {
    Diagnostics diagnostics;
    parse_message_text(text, module.origin, module.program, diagnostics);
    if (diagnostics.has_errors()) {  // after the first one, the parser is lost
        Diagnostics first;
        first.add(diagnostics.all().front());
        throw UserError(std::move(first));
    }
    // an escape can write what no reader of messages takes
    if (const auto fault = find_wire_fault(module.program.SerializeAsString(), *KPUProgram::descriptor()))
        refuse_message(module.origin,
                       fmt::format("{}: {}. Fix: correct the text.", fault->path, fault->what));
}

void read_serialized(std::string_view bytes, Module& module) {
    if (const auto fault = find_wire_fault(bytes, *KPUProgram::descriptor())) {
        const std::string_view rest = bytes.substr(fault->offset);
        const bool container = starts_with(rest, container_magic);
        if (container || begins_text(rest))
            refuse_message(
                module.origin,
                fmt::format(
                    "at byte {} the serialized program ends and {} begins. Fix: give each a file of its own.",
                    fault->offset, container ? "a container" : "a text"));
        refuse_message(
            module.origin,
            fmt::format("no valid KPUProgram message{}. Fix: write it again, with the version that reads it.",
                        fault_text(bytes)));
    }
    if (!parse_message(bytes, Packing::none, module.program))
        refuse_message(module.origin, "no valid KPUProgram message. Fix: write it again.");
}

}  // namespace

std::optional<MessageForm> message_form(std::string_view head) {
    if (begins_text(head)) return MessageForm::text;
    if (begins_serialized(head)) return MessageForm::serialized;
    return std::nullopt;
}

Module read_message(std::string_view bytes, const std::string& origin) {
    if (bytes.size() > max_program_bytes)
        refuse_message(origin, fmt::format("the program has {} bytes, {} are allowed. Fix: use loops.",
                                           bytes.size(), max_program_bytes));
    Module module;
    module.origin = origin;
    const google::protobuf::LogSilencer silence;  // its complaint about UTF-8 would go to stderr
    const bool text = begins_text(bytes);
    if (text) bytes = without_mark(bytes);
    text ? read_text(bytes, module) : read_serialized(bytes, module);
    check_structure(module.program, origin);
    if (text) module.source = places_in(bytes, module.program, origin);
    use_places(module);
    for (int i = 0; i < module.program.data_size(); ++i) {
        const proto::Data& data = module.program.data(i);
        if (data.path().empty())
            refuse_message(
                origin,
                fmt::format("data[{}] (`{}`, {} bytes) has no path, and a program without a container has no "
                            "sections. Fix: name a side file with its SHA-256, or write a container.",
                            i, escaped(data.name()), data.size()));
        module.data.push_back(load_side_file(data, std::filesystem::path(origin).parent_path().string()));
    }
    return module;
}

bool parse_message(std::string_view bytes, Packing packing, KPUProgram& program) {
    const google::protobuf::LogSilencer silence;
    google::protobuf::io::ArrayInputStream plain(bytes.data(), static_cast<int>(bytes.size()));
    std::optional<google::protobuf::io::GzipInputStream> unpacked;
    uint64_t limit = bytes.size();
    if (packing == Packing::zlib) {
        unpacked.emplace(&plain, google::protobuf::io::GzipInputStream::ZLIB);
        limit = std::min(max_program_bytes, bytes.size() * max_packing);
    }
    google::protobuf::io::ZeroCopyInputStream* stream = &plain;
    if (unpacked) stream = &*unpacked;
    CodedInputStream coded(stream);
    coded.SetTotalBytesLimit(static_cast<int>(limit));
    const bool parsed = program.ParseFromCodedStream(&coded) && coded.ConsumedEntireMessage();
    constexpr int stream_end =
        1;  // Z_STREAM_END: no error of zlib, which protobuf takes for the end of its bytes
    return parsed && (!unpacked || (!bytes.empty() && unpacked->ZlibErrorCode() == stream_end));
}

std::string fault_text(std::string_view bytes) {
    const auto fault = find_wire_fault(bytes, *KPUProgram::descriptor());
    return fault ? fmt::format(" at byte {} ({}): {}", fault->offset, fault->path, fault->what) : "";
}

}  // namespace kpu
