#include "runtime/save_run.hpp"

#include "base/digest.hpp"
#include "base/npy.hpp"
#include "base/text_output.hpp"
#include "isa/container.hpp"
#include "isa/nem/nem.hpp"
#include "runtime/host_boundary.hpp"

namespace kpu::runtime {

namespace {

/// Returns every parameter of the program with the value of this run.
std::vector<std::pair<std::string, int64_t>> bound_parameters(const Module& module,
                                                              const ParamBindings& given) {
    std::vector<std::pair<std::string, int64_t>> parameters;
    for (const auto& param : module.program.param()) {
        parameters.emplace_back(param.name(), param.default_value());
        for (const auto& [name, value] : given) {
            if (name == param.name()) parameters.back().second = value;
        }
    }
    return parameters;
}

struct ProgramText {
    std::string program, kernels;
};

/// Returns the text, with kernels in one file, whatever files they came from.
ProgramText text_of(const Module& module) {
    if (module.program.kernel_file_size() == 0) return {nem::print_checked(module), ""};
    proto::KernelFile kernels;
    kernels.set_path(traces::program_kernels_file_name);
    for (const proto::KernelFile& file : module.program.kernel_file())
        kernels.mutable_kernel()->MergeFrom(file.kernel());
    ProgramText text{"", nem::print_kernels(kernels)};
    Module merged;
    merged.program = module.program;
    merged.origin = module.origin;
    merged.program.clear_kernel_file();
    *merged.program.add_kernel_file() = std::move(kernels);
    text.program = nem::print_checked(merged);
    return text;
}

/// Completes a manifest with what the caller does not know.
traces::Manifest completed(traces::Manifest manifest, Simulation& simulation,
                           const std::vector<traces::OpRow>& ops, std::string_view platform_text) {
    const Module& module = *simulation.program().module;
    if (const platforms::Platform* platform = simulation.platform())
        manifest.platform.name = platform->name();
    manifest.host = boundary_lines(simulation.program());
    const traces::EnergyPrices prices = simulation.energy_prices();
    if (prices.not_modelled.empty()) {
        manifest.energy_table = prices.table;
        manifest.energy_corner = prices.corner;
        manifest.node_nm = prices.node_nm, manifest.vdd = prices.vdd, manifest.temp_c = prices.temp_c;
    }
    manifest.tool_version = KPUSIM_VERSION;
    manifest.seed = simulation.options().seed;
    manifest.mode = simulation.mode_name();
    manifest.parameters = bound_parameters(module, simulation.options().params);
    manifest.time = traces::utc_now();
    for (const traces::OpRow& row : ops) {
        if (!row.precision.empty()) manifest.precisions.emplace_back(row.id, row.precision);
    }
    manifest.program.name = module.program.name();
    manifest.program.sha256 = program_digest(module);
    manifest.platform.sha256 = sha256_hex(platform_text);
    return manifest;
}

}  // namespace

void save_run(traces::RunFolder& files, Simulation& simulation, const std::vector<traces::OpRow>& ops,
              traces::Manifest manifest) {
    std::string ops_csv;
    auto output = Output::to_string(ops_csv);
    traces::write_ops_csv(ops, output);
    output.finish();

    files.begin();
    files.write_stats(simulation.stats().to_json(false));
    files.write_ops(ops_csv);
    if (const auto rows = simulation.kernel_rows(); !rows.empty()) {
        std::string kernels_csv;
        auto kernels = Output::to_string(kernels_csv);
        traces::write_kernel_rows(rows, kernels);
        kernels.finish();
        files.write_kernels(kernels_csv);
    }
    std::string platform_text;
    if (const platforms::Platform* platform = simulation.platform()) {
        platform_text = platforms::to_textproto(*platform);
        files.write_platform(platform_text);
    }
    const ProgramText text = text_of(*simulation.program().module);
    if (!text.kernels.empty()) files.write_program_kernels(text.kernels);
    files.write_program(text.program);
    if (simulation.options().mode != Mode::timing) {
        for (const auto& spec : simulation.output_specs()) {
            const auto array = simulation.output(spec.name);
            files.write_output(spec.name, array.dtype, array.shape, array.data);
        }
    }
    files.write_manifest(completed(std::move(manifest), simulation, ops, platform_text));
}

traces::RunResults results_of(Simulation& simulation, traces::Manifest manifest, std::string name) {
    traces::RunResults run;
    run.path = std::move(name);
    run.complete = simulation.complete();
    run.stats = simulation.stats();
    run.ops = simulation.op_rows();
    if (simulation.platform() != nullptr) run.platform = platforms::to_textproto(*simulation.platform());
    ProgramText text = text_of(*simulation.program().module);
    run.program = std::move(text.program);
    run.program_kernels = std::move(text.kernels);
    if (simulation.options().mode != Mode::timing) {
        for (const auto& spec : simulation.output_specs()) {
            const NpyArray array = simulation.output(spec.name);
            run.outputs.emplace_back(traces::output_file_of(spec.name), sha256_hex(format_npy(array)));
        }
    }
    run.manifest = completed(std::move(manifest), simulation, run.ops, run.platform);
    return run;
}

void finish_saved_run(const traces::RunFolder& files, Simulation& simulation) {
    files.write_stats(simulation.stats().to_json(simulation.complete()));
}

}  // namespace kpu::runtime
