// Reports in JUnit XML, the form of test results that CI systems read.
#include "runtime/cli/junit.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/xml_text.hpp"

namespace kpu::cli {
namespace {

size_t count(const std::vector<TestCase>& cases, TestCase::Outcome outcome) {
    return static_cast<size_t>(std::count_if(cases.begin(), cases.end(),
                                             [=](const TestCase& test) { return test.outcome == outcome; }));
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// Returns the findings of one kind; of the verifier, those without kind.
TestCase case_of(std::string_view kind, const Diagnostics& diagnostics,
                 const analysis::FindingOrigins& origins) {
    TestCase test;
    for (size_t i = 0; i < diagnostics.all().size(); ++i) {
        const auto origin = origins.find(i);
        if ((origin == origins.end() ? std::string_view(verifier_rule) : origin->second.kind) != kind)
            continue;
        const Diagnostic& finding = diagnostics.all()[i];
        const bool failed = finding.severity == Severity::error;
        if (failed && test.outcome == TestCase::Outcome::passed) {
            test.outcome = TestCase::Outcome::failed;
            test.message = first_line(to_string(finding));
        }
        test.text += to_string(finding) + "\n";
    }
    test.name = kind;
    return test;
}

}  // namespace

std::string junit_text(const std::string& suite, const std::string& subject,
                       const std::vector<TestCase>& cases) {
    using Outcome = TestCase::Outcome;
    const size_t failures = count(cases, Outcome::failed);
    std::string text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
    text += fmt::format("<testsuites name=\"kpusim\" tests=\"{}\" failures=\"{}\" errors=\"0\">\n",
                        cases.size(), failures);
    text +=
        fmt::format("  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\">\n",
                    xml_text(suite), cases.size(), failures, count(cases, Outcome::skipped));
    for (const TestCase& test : cases) {
        text +=
            fmt::format("    <testcase classname=\"{}\" name=\"{}\"", xml_text(subject), xml_text(test.name));
        if (test.outcome == Outcome::passed && test.text.empty()) {
            text += "/>\n";
            continue;
        }
        const std::string message = xml_text(test.message), body = xml_text(test.text);
        if (test.outcome == Outcome::passed)
            text += fmt::format("><system-out>{}</system-out></testcase>\n", body);
        else if (test.outcome == Outcome::failed)
            text += fmt::format("><failure message=\"{}\" type=\"{}\">{}</failure></testcase>\n", message,
                                xml_text(test.name), body);
        else
            text += fmt::format("><skipped message=\"{}\"/></testcase>\n", message);
    }
    return text + "  </testsuite>\n</testsuites>\n";
}

std::vector<TestCase> check_cases(const Diagnostics& diagnostics, const analysis::FindingOrigins& origins) {
    std::vector<TestCase> cases = {case_of(verifier_rule, diagnostics, origins)};
    const bool refused = cases.front().outcome == TestCase::Outcome::failed;
    for (int kind = 0; kind < analysis::finding_kind_count; ++kind) {
        TestCase test = case_of(name_of(static_cast<analysis::FindingKind>(kind)), diagnostics, origins);
        if (refused && test.text.empty()) {
            test.outcome = TestCase::Outcome::skipped;
            test.message = "the verifier refused the program";
        }
        cases.push_back(std::move(test));
    }
    return cases;
}

}  // namespace kpu::cli
