// The opcode of docs/adding_an_opcode.md, known to everything from its row: text, verifier, values, time,
// energy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "isa/nem/nem.hpp"
#include "isa/shapes.hpp"
#include "runtime/simulation.hpp"

namespace kpu {
namespace {

using ::testing::HasSubstr;

/// Builds 512 elements from DDR through softsign and back.
std::shared_ptr<const Module> module_of(const std::string& operands) {
    const std::string text = R"(buffer X : DDR (size = 1024)
buffer Y : DDR (size = 1024)
buffer x : L1[0] (size = 1024)
let X0 = region(X, 0, 1024) elem=f16, shape=[512], layout=C
let Y0 = region(Y, 0, 1024) elem=f16, shape=[512], layout=C
let x0 = region(x, 0, 1024) elem=f16, shape=[512], layout=C
load = transfer.async(dst=x0, src=X0)
f = softsign.async in )" + operands +
                             R"( out x0 deps=[load]
save = transfer.async(dst=Y0, src=x0, deps=[f])
)";
    Diagnostics diagnostics;
    nem::Document document = nem::parse(text, "softsign.nem", platforms::file_loader({}), diagnostics);
    EXPECT_FALSE(diagnostics.has_errors()) << diagnostics.to_string();
    return std::make_shared<Module>(std::move(document.module));
}

uint64_t stat(runtime::Simulation& simulation, const std::string& key) {
    return std::get<uint64_t>(simulation.stats().all().at(key).value);
}

// 512 elements on 32 lanes at 4 cycles each, and the pipeline's latency.
TEST(Softsign, RunsInAProgram) {
    const platforms::Platform platform = platforms::load("tile32");
    runtime::Simulation simulation(module_of("x0"), &platform, {});
    simulation.fill_inputs_zero();
    ASSERT_EQ(simulation.run(), runtime::RunStatus::finished);
    uint64_t busy = 0;
    for (const char* cause : {"useful", "fill_drain", "padding"})
        busy += stat(simulation, std::string("units.e0_cstl0.busy.") + cause);
    EXPECT_EQ(busy, 512u / 32 * 4 + 8);
}

// Inputs that are missing are refused with the opcode's name.
TEST(Softsign, IsVerified) {
    EXPECT_EQ(
        infer_shapes(opcode(find_opcode("softsign").value()), {{ElemType::f16, {{2, 3}, 2}}}, {})[0].rank, 2);
    try {
        const platforms::Platform platform = platforms::load("tile32");
        runtime::Simulation simulation(module_of("x0, x0"), &platform, {});
        FAIL() << "two operands are accepted";
    } catch (const UserError& error) {
        EXPECT_THAT(error.diagnostics().to_string(), HasSubstr("softsign takes 1 input"));
    }
}

}  // namespace
}  // namespace kpu
