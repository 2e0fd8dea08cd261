// Every opcode on every type variant: the cases of execute/, whose expected outputs an independent NumPy
// implementation made (generate.py), in functional and timed mode, with both value engines, bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "compiler/device_directive.hpp"
#include "compiler/front_ends.hpp"
#include "isa/opcodes.hpp"
#include "runtime/simulation.hpp"

namespace kpu {
namespace {

namespace fs = std::filesystem;
using Folders = std::vector<fs::path>;

const fs::path& root() {
    static const fs::path path = fs::path(KPUSIM_BINARY_DIR) / "tests/conformance/nem/execute";
    return path;
}

/// Returns the opcode of a program: the one task that is neither transfer nor store.
std::string opcode_of(const Module& module) {
    for (const proto::Statement& statement : module.program.statement()) {
        if (statement.has_task() && statement.task().kind() == proto::Task::COMPUTE)
            return statement.task().opcode();
    }
    return "transfer";
}

std::shared_ptr<const Module> load(const fs::path& folder) {
    Diagnostics diagnostics;
    return compiler::load_program((folder / "program.nem").string(), {}, diagnostics);
}

/// Folders by opcode.
const std::map<std::string, Folders>& cases() {
    static const std::map<std::string, Folders> found = [] {
        std::map<std::string, Folders> result;
        for (const auto& entry : fs::directory_iterator(root()))
            result[opcode_of(*load(entry.path()))].push_back(entry.path());
        for (auto& [opcode, folders] : result) std::sort(folders.begin(), folders.end());
        return result;
    }();
    return found;
}

void expect_outputs(const fs::path& folder, const runtime::Simulation& simulation) {
    size_t files = 0;
    for (const auto& entry : fs::directory_iterator(folder / "expected")) {
        const NpyArray want = read_npy(entry.path().string());
        const NpyArray got = simulation.output(entry.path().stem().string());
        EXPECT_EQ(got.dtype, want.dtype);
        ASSERT_EQ(got.data.size(), want.data.size());
        const size_t width = want.data.size() / std::max<uint64_t>(want.elements(), 1);
        for (size_t at = 0; at < want.data.size(); at += width) {
            EXPECT_EQ(got.data.substr(at, width), want.data.substr(at, width)) << "element " << at / width;
        }
        ++files;
    }
    EXPECT_EQ(files, simulation.output_specs().size());
}

void run_case(const fs::path& folder, runtime::Mode mode, bool reference) {
    SCOPED_TRACE(folder.filename().string() + (mode == runtime::Mode::functional ? " functional" : " timed") +
                 (reference ? " reference" : " fast"));
    Diagnostics diagnostics;
    const auto module = load(folder);
    const auto platform = compiler::resolve_platform(*module, "", {}, {}, diagnostics);
    ASSERT_TRUE(platform.has_value());
    runtime::SimulationOptions options;
    options.mode = mode;
    options.reference_values = reference;
    options.strict = true;
    runtime::Simulation simulation(module, &*platform, options);
    for (const TensorSpec& spec : simulation.input_specs()) {
        const std::string path = (folder / "inputs" / (spec.name + ".npy")).string();
        simulation.set_input(spec.name, read_npy(path), path);
    }
    ASSERT_EQ(simulation.run(), runtime::RunStatus::finished);
    expect_outputs(folder, simulation);
    if (mode == runtime::Mode::functional) return;
    EXPECT_GT(simulation.stats().integer("cycles.total"), 0u);
}

class Execution : public ::testing::TestWithParam<std::string> {};

// The device of a case takes its types without a warning (strict), and every element is NumPy's, bit for bit.
TEST_P(Execution, ValuesAreNumPys) {
    for (const fs::path& folder : cases().at(GetParam())) {
        for (const bool reference : {false, true}) {
            for (const runtime::Mode mode : {runtime::Mode::functional, runtime::Mode::values_timing}) {
                try {
                    run_case(folder, mode, reference);
                } catch (const std::exception& error) {
                    ADD_FAILURE() << folder.filename() << ": " << error.what();
                }
                if (HasFatalFailure()) return;
            }
        }
    }
}

std::vector<std::string> covered() {
    std::vector<std::string> names;
    for (const auto& [opcode, folders] : cases()) names.push_back(opcode);
    return names;
}

INSTANTIATE_TEST_SUITE_P(Opcodes, Execution, ::testing::ValuesIn(covered()), [](const auto& test) {
    std::string name = test.param;
    std::replace(name.begin(), name.end(), '.', '_');
    return name;
});

// An index outside its dimension ends the run with an error that names index, position and task, in both
// modes.
TEST(ExecutionCases, GatherIndexOutsideEndsTheRun) {
    const fs::path folder = root() / "gather_f16";
    const auto module = load(folder);
    Diagnostics diagnostics;
    const auto platform = compiler::resolve_platform(*module, "", {}, {}, diagnostics);
    for (const runtime::Mode mode : {runtime::Mode::functional, runtime::Mode::values_timing}) {
        runtime::SimulationOptions options;
        options.mode = mode;
        runtime::Simulation simulation(module, &*platform, options);
        simulation.set_input("in0", read_npy((folder / "inputs/in0.npy").string()));
        NpyArray indices = read_npy((folder / "inputs/in1.npy").string());
        indices.data.replace(8, 4,
                             std::string("\x04\0\0\0", 4));  // the third one; the dimension has 4 elements
        simulation.set_input("in1", indices);
        try {
            simulation.run();
            ADD_FAILURE() << "index 4 of 4 was accepted";
        } catch (const UserError& error) {
            EXPECT_THAT(error.what(), ::testing::HasSubstr("index 4 at position 2 is outside dimension 1"));
            EXPECT_THAT(error.what(), ::testing::HasSubstr("task `work`"));
            EXPECT_THAT(error.what(), ::testing::HasSubstr("Fix: use indices from -4 to 3"));
        }
    }
}

// No opcode without a case, but movement (every case moves) and what the language cannot execute.
TEST(ExecutionCases, CoverTheOpcodeTable) {
    for (const OpcodeSpec& spec : opcode_table()) {
        if (spec.movement || spec.refused) continue;
        EXPECT_EQ(cases().count(std::string(spec.name)), 1u) << spec.name;
    }
}

}  // namespace
}  // namespace kpu
