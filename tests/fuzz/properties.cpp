#include "tests/fuzz/properties.hpp"

#include <fmt/format.h>
#include <google/protobuf/text_format.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "analysis/schedule_check.hpp"
#include "isa/container.hpp"
#include "isa/nem/nem.hpp"
#include "isa/program_message.hpp"
#include "isa/verify.hpp"
#include "platforms/platform.hpp"

namespace kpu::fuzz {
namespace {

[[noreturn]] void broken(std::string_view property, std::string_view detail) {
    fmt::print(stderr, "property broken: {}\n{}\n", property, detail);
    std::abort();
}

/// Never reads the file system: the shipped files, and the document itself as "self".
nem::FileLoader closed_loader(std::string_view text) {
    return [text = std::string(text), shipped = platforms::file_loader({})](
               const std::string& name, const std::string& from) -> std::optional<nem::SourceFile> {
        if (name == "self") return nem::SourceFile{"<self>", text};
        const bool relative = !name.empty() && name.front() != '/';
        return relative && from.substr(0, 1) == "<" ? shipped(name, from) : std::nullopt;
    };
}

void verify_and_bind(const std::shared_ptr<const Module>& module, const DeviceLimits& limits, bool schedule) {
    Diagnostics diagnostics;
    const std::optional<BoundProgram> program = verify(module, limits, {}, diagnostics);
    try {
        bind(module, {}, limits);
    } catch (const UserError& error) {  // a program may be wrong
        if (program) broken("what the verifier accepts can be bound", error.what());
        return;
    }
    try {
        if (schedule && program) analysis::check_schedule(*program, limits);
    } catch (const UserError&) {  // offsets that only a run of the loops finds wrong
    }
}

/// Returns every file that a text includes is there, and empty.
std::optional<nem::SourceFile> empty_file(const std::string& name, const std::string&) {
    return nem::SourceFile{"included " + name, ""};
}

void check_text_round_trip(const Module& module) {
    const std::string text = nem::print(module);
    Diagnostics diagnostics;
    const nem::Document again = nem::parse(text, "<text>", empty_file, diagnostics);
    if (diagnostics.has_errors()) broken("printed text reads back", diagnostics.to_string() + text);
    if (again.module.program.SerializeAsString() != module.program.SerializeAsString())
        broken("printed text is the same program", text);
}

void check_container_round_trip(const Module& module) {
    const std::string bytes = serialize_container(module);
    if (serialize_container(parse_container(bytes, "<again>")) != bytes)
        broken("a container reads back as the same bytes", module.program.ShortDebugString());
}

/// Reads a program as the front end does.
Module read_program(std::string_view bytes, const std::string& origin) {
    return message_form(bytes) ? read_message(bytes, origin) : parse_container(bytes, origin);
}

/// Without data, which would need side files.
void check_message_round_trip(const Module& module) {
    if (module.program.data_size() > 0) return;
    std::string text;
    google::protobuf::TextFormat::PrintToString(module.program, &text);
    const std::string bytes = module.program.SerializeAsString();
    for (const std::string& form : {bytes, text}) {
        if (message_form(form) && read_message(form, "<again>").program.SerializeAsString() != bytes)
            broken("a message reads back as the same program", text);
    }
}

}  // namespace

void check_module(const Module& module) {
    static const DeviceLimits agnostic = platforms::agnostic_limits();
    static const DeviceLimits device = platforms::limits_of(platforms::load("npm_lite"));
    const auto shared = std::make_shared<const Module>(module);
    verify_and_bind(shared, agnostic, true);
    verify_and_bind(shared, device, false);
    check_text_round_trip(module);
    check_container_round_trip(module);
    check_message_round_trip(module);
}

void check_text(std::string_view text) {
    Diagnostics diagnostics;
    const nem::Document document = nem::parse(text, "<fuzz>", closed_loader(text), diagnostics);
    diagnostics.to_string();
    if (diagnostics.has_errors()) return;
    for (const nem::DeviceDecl& device : document.devices) {
        try {
            Diagnostics findings;
            platforms::from_nem(document, device.name, findings);
        } catch (const UserError&) {  // a device may be wrong
        }
    }
    // data stands in files beside the text, which there are none of here
    if (document.is_program && document.module.program.data_size() == 0) check_module(document.module);
}

void check_container(std::string_view bytes) {
    Module module;
    try {
        module = read_program(bytes, "<fuzz>");
    } catch (const UserError&) {
        return;
    }
    check_module(module);
}

}  // namespace kpu::fuzz
