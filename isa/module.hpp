#pragma once

#include <google/protobuf/arena.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostics.hpp"
#include "isa/data_section.hpp"
#include "isa/kernel/text.hpp"
#include "isa/kpu_program.pb.h"

namespace kpu {

using proto::KPUProgram;

/// Places of the parts of a program in its source text. Empty for programs from the builder, and from
/// containers without places.
struct SourceMap {
    struct Place {
        uint32_t file = 0;  ///< index into `files`
        uint32_t line = 0;
        uint32_t column = 0;
    };
    std::vector<std::string> files;
    std::vector<Place> statements;        ///< parallel to KPUProgram.statement
    std::vector<Place> regions;           ///< parallel to KPUProgram.region
    std::vector<Place> buffers;           ///< parallel to KPUProgram.buffer
    std::vector<Place> constants;         ///< parallel to KPUProgram.constant
    std::vector<kernel::Source> kernels;  ///< texts with their places, all files together
    Place device;  ///< place of the device directive, or of the declarations with the inline device
};

/// A program with what stands beside it: source places and data sections (parallel to KPUProgram.data).
/// The program's messages live in an arena, because a megabyte of text makes a quarter of a million of them.
/// A moved-from Module may only be destroyed; assigning it, or to it, throws InternalError.
struct Module {
    Module();
    Module(const Module& other);
    Module(Module&& other) = default;
    Module& operator=(const Module& other);  ///< copies rvalues too: the messages belong to the other arena

  private:
    std::shared_ptr<google::protobuf::Arena> arena_;

  public:
    KPUProgram& program;
    SourceMap source;
    std::vector<DataSection> data;
    std::string origin;  ///< file name for messages, "<stdin>" for standard input

    SourcePos pos_of_statement(size_t index) const;
    SourcePos pos_of_region(size_t index) const;
    SourcePos pos_of_buffer(size_t index) const;
    SourcePos pos_of_constant(size_t index) const;
    SourcePos pos_of_device() const { return {origin, source.device.line, source.device.column}; }
    /// Returns a part of `program`, which keeps the messages alive.
    template <typename Part>
    std::shared_ptr<Part> shared(Part& part) const {
        return {arena_, &part};
    }
};

/// The places that the program itself carries become those of its source map, before those of its text: as
/// with `#line` in C, the line of the compiler that wrote the text counts. Its structure has been checked.
void use_places(Module& module);

}  // namespace kpu
