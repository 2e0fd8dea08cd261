// @resource whose instance depends on loops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "isa/nem/nem.hpp"
#include "runtime/simulation.hpp"

namespace kpu::runtime {
namespace {

using testing::HasSubstr;

std::shared_ptr<const Module> program(const std::string& resource) {
    Diagnostics diagnostics;
    nem::Document document = nem::parse(R"(
buffer m : L1[0] (size = 65536, align = 64)
loop i in [0..7] @max_in_flight(8):
    let a = region(m, i * 8192, 8192) elem=f16, shape=[64, 64], layout=MN
    t = relu.async in a out a )" + resource +
                                            "\nendloop\n",
                                        "test.nem", nem::default_loader({}), diagnostics);
    if (diagnostics.has_errors()) throw UserError(diagnostics);
    return std::make_shared<Module>(std::move(document.module));
}

Simulation run(const std::string& resource) {
    const auto platform = platforms::load("npm_quad_cstl");
    SimulationOptions options;
    options.mode = Mode::timing;
    options.hazards = false;
    Simulation simulation(program(resource), &platform, options);
    simulation.run();
    return simulation;
}

uint64_t busy(Simulation& simulation, int cstl) {
    return simulation.stats().integer(fmt::format("units.e0_cstl{}.busy.useful", cstl));
}

/// Each iteration goes to the instance that the expression gives; the text keeps the expression.
TEST(Resource, FollowsTheLoop) {
    Simulation two = run("@resource(CSTL[i mod 2])"), four = run("@resource(CSTL[i mod 4])");
    for (const int cstl : {0, 1}) EXPECT_EQ(busy(two, cstl), 2 * busy(four, cstl));
    for (const int cstl : {2, 3}) EXPECT_EQ(busy(two, cstl), 0u);
    EXPECT_EQ(busy(four, 0), busy(four, 3));
    EXPECT_GT(two.stats().integer("cycles.total"), four.stats().integer("cycles.total"));
    EXPECT_THAT(nem::print(*program("@resource(CSTL[i mod 4])")), HasSubstr("@resource(CSTL[i mod 4])"));
}

/// An instance that is not there: any may take the task.
TEST(Resource, BeyondTheLastIsAny) {
    Simulation any = run(""), beyond = run("@resource(CSTL[i + 4])");
    EXPECT_EQ(any.stats().integer("cycles.total"), beyond.stats().integer("cycles.total"));
}

/// A negative instance is an error that names the iteration.
TEST(Resource, NegativeIsAnError) {
    try {
        run("@resource(CSTL[2 - i])");
        ADD_FAILURE() << "no error";
    } catch (const SimulationError& error) {
        EXPECT_THAT(error.what(), HasSubstr("negative"));
        EXPECT_THAT(error.what(), HasSubstr("i=3"));
    }
}

}  // namespace
}  // namespace kpu::runtime
