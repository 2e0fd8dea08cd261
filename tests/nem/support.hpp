#pragma once

#include <gmock/gmock.h>

#include <map>
#include <string>

#include "isa/nem/nem.hpp"

namespace kpu::nem {

/// Returns a loader over texts in memory; paths are names.
inline FileLoader memory_loader(std::map<std::string, std::string> files) {
    return
        [files = std::move(files)](const std::string& name, const std::string&) -> std::optional<SourceFile> {
            const auto file = files.find(name);
            if (file == files.end()) return std::nullopt;
            return SourceFile{name, file->second};
        };
}

struct Parsed {
    Document document;
    Diagnostics diagnostics;
    const KPUProgram& program() const { return document.module.program; }
    std::string errors() const { return diagnostics.to_string(); }
};

inline Parsed parse_text(std::string_view text, std::map<std::string, std::string> files = {}) {
    Parsed parsed;
    parsed.document = parse(text, "t.nem", memory_loader(std::move(files)), parsed.diagnostics);
    return parsed;
}

/// Parses text that must have no errors.
inline KPUProgram parse_good(std::string_view text) {
    Parsed parsed = parse_text(text);
    EXPECT_FALSE(parsed.diagnostics.has_errors()) << parsed.errors();
    return std::move(parsed.document.module.program);
}

}  // namespace kpu::nem
