#pragma once

#include <string>
#include <vector>

#include "runtime/cli/command.hpp"

namespace kpu::cli {

/// A line of a report for CI systems.
struct TestCase {
    enum class Outcome : uint8_t { passed, failed, skipped };
    std::string name;
    Outcome outcome = Outcome::passed;
    std::string message = {};  ///< reason of a failure, or why it was skipped: a line
    std::string text = {};     ///< all of it
};

/// Writes JUnit XML: one suite named `suite`, whose cases are of the class `subject`. The elements and
/// attributes are those that Jenkins, GitLab and others read; no times and dates, so that equal results are
/// equal bytes.
std::string junit_text(const std::string& suite, const std::string& subject,
                       const std::vector<TestCase>& cases);

/// Returns a case for the verifier and for each kind of finding, failed when there is an error of it. After
/// errors of the verifier the schedule was not looked at: those cases are skipped.
std::vector<TestCase> check_cases(const Diagnostics& diagnostics, const analysis::FindingOrigins& origins);

}  // namespace kpu::cli
