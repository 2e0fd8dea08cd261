#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostics.hpp"
#include "base/embedded_file.hpp"
#include "isa/device_limits.hpp"
#include "isa/module.hpp"
#include "isa/unit_kind.hpp"

namespace kpu::nem {

/// Loads the text of an included or named file. `from` is the including file. Returns the resolved path and
/// the text, or nothing when it cannot be found. Embedded files have paths like "<kpusim_ext.nem>".
struct SourceFile {
    std::string path;
    std::string text;
};
using FileLoader = std::function<std::optional<SourceFile>(const std::string& name, const std::string& from)>;

/// Looks beside `from`, then in the -I paths, then among the embedded files. Reads regular files only.
FileLoader default_loader(std::vector<std::string> search_paths);

/// Makes text files of the executable known to every default_loader, under their names. `files` must live for
/// ever; a name that is already known keeps its first text. families.nem is always known.
void register_embedded(const EmbeddedFile* files, size_t count);

struct UnitCount {
    UnitKind kind;
    int64_t count;
    SourcePos pos;
};

struct VariantRef {  ///< gemm.float<f16>.no_bias
    std::string family;
    std::vector<ElemType> types;
    std::string variant;
    SourcePos pos;
    std::string text() const;
};

struct Characteristic {
    std::string key;
    int64_t value;
    SourcePos pos;
};

/// A `device` block as written; nothing resolved.
struct DeviceDecl {
    std::string name;
    std::string parent;  ///< extends; empty = base
    std::optional<std::string> spec_version;
    bool has_topology = false;
    int64_t num_engines = 0, l2_size_bytes = 0, l1_size_bytes = 0;
    std::vector<UnitCount> device_units, per_engine;
    std::vector<std::pair<std::string, std::vector<Characteristic>>> characteristics;  ///< per unit name
    bool has_mandatory = false;
    std::vector<VariantRef> mandatory, extended;
    SourcePos pos;
};

/// A `type_family` block; its binds and conformance lists are checked against its parameters.
struct TypeFamily {
    struct Bind {
        std::string operand;
        enum class Kind : uint8_t { type, parameter, absent, any } kind = Kind::type;
        ElemType type = ElemType::none;
        std::string parameter;
    };
    struct Attr {
        std::string name, value, on;  ///< accum = i32; quant = required on dst
    };
    struct Variant {
        std::string name;
        std::vector<Bind> binds;
        std::vector<std::pair<bool, std::vector<ElemType>>> conformance;  ///< (MUST?, types)
        SourcePos pos;
    };
    std::string name;  ///< gemm.int8
    std::vector<std::pair<std::string, std::vector<ElemType>>> parameters;
    std::vector<Bind> binds;
    std::vector<Attr> attrs;
    std::vector<Variant> variants;
    SourcePos pos;
    std::string text;  ///< the declaration's own source text
};

/// Everything that a file and what it includes declare.
struct Document {
    Module module;  ///< empty program for a config document
    bool is_program = false;
    std::vector<DeviceDecl>
        devices;  ///< in order of declaration, includes first; a program's inline device last
    std::vector<TypeFamily> families;
};

/// Parses a program or config document with its includes. Errors go to `diagnostics`; the document then holds
/// what could be parsed. Never throws on bad text, never recurses on input depth without a bound.
Document parse(std::string_view text, const std::string& path, const FileLoader& loader,
               Diagnostics& diagnostics);

/// Fills in a variant reference from its family. Diagnoses unknown families, variants and type arguments.
std::optional<TypeVariant> resolve_variant(const VariantRef& ref, const std::vector<TypeFamily>& families,
                                           Diagnostics& diagnostics);
/// Returns every variant of every family with all its declared instantiations: what a device-agnostic check
/// matches against. `must_only`: those that every device must have.
std::vector<TypeVariant> all_variants(const std::vector<TypeFamily>& families, bool must_only = false);

/// Returns the 13 type families of the language (families.nem).
const std::vector<TypeFamily>& standard_families();

/// Returns the text of a file of kernels, which stands beside the program's text.
std::string print_kernels(const proto::KernelFile& file);

/// Prints NEM text of a program such that assembling it gives the same program. Data sections are named, not
/// written.
std::string print(const Module& module);
/// Returns the same of a program that has passed check_structure(), as a bound one has, or was made of one.
std::string print_checked(const Module& module);

}  // namespace kpu::nem
