// The text that the benchmark reads is what its figures claim.
#include "isa/verify.hpp"
#include "tests/bench/nem_text.hpp"
#include "tests/nem/support.hpp"

namespace kpu::nem {
namespace {

TEST(BenchmarkText, IsCorrectAndHasEveryDecorator) {
    // A benchmark of a program with errors would measure their reporting: it has none.
    const std::string text = bench::network_text(3);
    const Parsed parsed = parse_text(text);
    EXPECT_EQ(parsed.errors(), "");
    Diagnostics findings;
    verify(std::make_shared<Module>(parsed.document.module), {}, {}, findings);
    EXPECT_EQ(findings.to_string(), "");
    for (const char* decorator : {"max_in_flight", "resource", "seq_engine", "memmove", "readonly",
                                  "writeonly", "materialized", "deterministic", "debug", "profile"}) {
        EXPECT_NE(text.find(std::string("@") + decorator), std::string::npos) << decorator;
    }
}

}  // namespace
}  // namespace kpu::nem
