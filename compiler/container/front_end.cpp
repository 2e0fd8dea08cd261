// Front end: program containers (.kpu). A file is mapped, not read.
#include "compiler/front_end.hpp"

#include "base/text.hpp"
#include "isa/container.hpp"

namespace kpu::compiler {
extern const FrontEnd container_front_end;
namespace {

/// A Python pickle too, of which the reader of containers says that nobody will unpickle it.
bool recognise_container(std::string_view head, std::string_view /*file_name*/) {
    const bool pickle = head.size() >= 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5;
    return pickle || starts_with(head, std::string_view("KPUPROG\0", 8));
}

Loaded load_container(const Source& source, const LoadRequest& /*request*/, Diagnostics& /*notes*/) {
    Module module =
        source.is_file() ? read_container(source.origin()) : parse_container(source.bytes(), source.origin());
    return {std::make_shared<Module>(std::move(module)), {}};
}

}  // namespace

const FrontEnd container_front_end{".kpu program",
                                   "the program container, as `kpusim asm` writes it",
                                   {},
                                   false,
                                   "",
                                   true,
                                   recognise_container,
                                   load_container};

}  // namespace kpu::compiler
