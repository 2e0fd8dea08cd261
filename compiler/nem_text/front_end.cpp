// Front end: NEM text. A text of devices or of kernels instead of a program is checked, and gives no module.
#include "compiler/front_end.hpp"

#include <algorithm>
#include <cctype>

#include "base/text.hpp"
#include "compiler/nem_text/write_text.hpp"
#include "isa/kernel/code.hpp"
#include "isa/kernel/text.hpp"
#include "isa/nem/nem.hpp"
#include "platforms/variants.hpp"

namespace kpu::compiler {
extern const FrontEnd nem_text_front_end;
namespace {

bool has_topology(const nem::Document& document, std::string name) {
    for (size_t steps = 0; steps <= document.devices.size() && !name.empty(); ++steps) {
        const auto device = std::find_if(document.devices.begin(), document.devices.end(),
                                         [&](const nem::DeviceDecl& d) { return d.name == name; });
        if (device == document.devices.end()) return true;  // unknown: resolving it says so
        if (device->has_topology) return true;
        name = device->parent;
    }
    return !name.empty();  // in a circle: resolving it says so
}

/// Checks every device that a file itself declares: abstract ones in their variants, the others as platforms.
void check_devices(const nem::Document& document, const std::string& origin, Diagnostics& diagnostics) {
    const auto families = platforms::families_with(document.families);
    for (const nem::DeviceDecl& device : document.devices) {
        if (device.pos.file != origin) continue;
        if (!has_topology(document, device.name)) {
            for (const auto* list : {&device.mandatory, &device.extended}) {
                for (const nem::VariantRef& ref : *list) nem::resolve_variant(ref, families, diagnostics);
            }
            continue;
        }
        Diagnostics found;
        try {
            platforms::from_nem(document, device.name, found);
        } catch (const UserError& error) {
            if (error.diagnostics().all().empty()) found.error(device.pos, error.what());
            for (const Diagnostic& item : error.diagnostics().all()) found.add(item);
        }
        for (const Diagnostic& item : found.all()) diagnostics.add(item);
    }
}

/// Recognises any text that begins with a word or an annotation: what else is wrong with it, the reader says
/// with its place.
bool recognise_text(std::string_view head, std::string_view /*file_name*/) {
    if (starts_with(head, "\xEF\xBB\xBF")) head.remove_prefix(3);
    while (!head.empty()) {
        std::string_view line = take_line(head);
        line.remove_prefix(std::min(line.find_first_not_of("; \t"), line.size()));  // empty statements
        if (line.empty() || line[0] == '#') continue;
        const auto first = static_cast<unsigned char>(line[0]);
        const std::string_view word = line.substr(0, line.find_first_of(" \t"));
        return is_printable(word) && (std::isalpha(first) != 0 || first == '_' || first == '@');
    }
    return true;  // comments alone
}

void check_kernels(const Source& source, Diagnostics& notes) {
    const auto kernels = kernel::parse(source.bytes(), source.origin(), notes);
    if (!notes.has_errors())
        for (const kernel::Source& one : kernels) kernel::analyse(one, notes);
    if (notes.has_errors()) throw UserError(notes);
}

Loaded load_text(const Source& source, const LoadRequest& request, Diagnostics& notes) {
    if (kernel::is_kernel_text(source.bytes())) {
        check_kernels(source, notes);
        return {};
    }
    auto document =
        nem::parse(source.bytes(), source.origin(), platforms::file_loader(request.search_paths), notes);
    if (notes.has_errors()) throw UserError(notes);
    if (!document.is_program) {
        check_devices(document, source.origin(), notes);
        return {};
    }
    document.module.origin = source.origin();
    load_data(document.module);
    return {std::make_shared<Module>(std::move(document.module)), {}};
}

}  // namespace

const FrontEnd nem_text_front_end{
    "NEM text", "the tile-program language (docs/nem)", {}, false, "", true, recognise_text, load_text};

}  // namespace kpu::compiler
