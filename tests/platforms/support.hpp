#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "platforms/platform.hpp"

namespace kpu::platforms {

/// Returns the message of the UserError that `action` throws; fails the test when it throws none.
template <typename Action>
std::string error_of(Action&& action) {
    try {
        action();
    } catch (const UserError& error) {
        return error.what();
    }
    ADD_FAILURE() << "no UserError";
    return "";
}

inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

/// Returns the text of a valid platform to break in one place.
inline std::string valid_text() { return to_textproto(load("swkpu-v1")); }

}  // namespace kpu::platforms
