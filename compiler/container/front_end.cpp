// Front end: program containers (.kpu), of which a file is mapped, not read, and the message of a program alone.
#include "compiler/front_end.hpp"

#include "base/text.hpp"
#include "isa/container.hpp"
#include "isa/program_message.hpp"

namespace kpu::compiler {
extern const FrontEnd container_front_end;
namespace {

/// Recognises a Python pickle too, of which the reader of containers says that nobody will unpickle it.
bool recognise_container(std::string_view head, std::string_view /*file_name*/) {
    return is_pickle(head) || starts_with(head, container_magic) || message_form(head);
}

Loaded load_container(const Source& source, const LoadRequest& /*request*/, Diagnostics& /*notes*/) {
    if (message_form(source.head()))
        return {std::make_shared<Module>(read_message(source.bytes(), source.origin())), {}};
    Module module =
        source.is_file() ? read_container(source.origin()) : parse_container(source.bytes(), source.origin());
    return {std::make_shared<Module>(std::move(module)), {}};
}

}  // namespace

const FrontEnd container_front_end{
    ".kpu program",
    "the program container, as `kpusim asm` writes it, or its KPUProgram message, serialized or as text",
    {},
    false,
    "",
    true,
    recognise_container,
    load_container};

}  // namespace kpu::compiler
