// Front end: Pallas calls that kpusim.pallas exported.
#include "compiler/front_end.hpp"

#include "base/text.hpp"
#include "compiler/pallas/lower.hpp"

namespace kpu::compiler {
extern const FrontEnd pallas_front_end;
namespace {

bool recognise_export(std::string_view head, std::string_view /*file_name*/) {
    return starts_with(head, R"({"format": "kpusim-pallas")");
}

Loaded load_export(const Source& source, const LoadRequest& /*request*/, Diagnostics& /*notes*/) {
    return {std::make_shared<Module>(
                pallas::lower(pallas::read_export(source.bytes(), source.origin()), source.origin())),
            {}};
}

}  // namespace

const FrontEnd pallas_front_end{"Pallas export",
                                "kernels of JAX Pallas, as `kpusim.pallas.export` writes them",
                                {},
                                false,
                                "",
                                true,
                                recognise_export,
                                load_export};

}  // namespace kpu::compiler
