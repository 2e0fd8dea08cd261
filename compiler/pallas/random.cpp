// Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
#include <array>

#include "compiler/pallas/body.hpp"

namespace kpu::compiler::pallas {

/// Writes two words of random bits for a key of two words and a counter of two.
bool Body::random(const Equation& e) {
    if (e.op != "threefry2x32") return false;
    constexpr std::array<std::array<int, 4>, 2> rotations = {{{13, 15, 26, 6}, {17, 29, 16, 24}}};
    constexpr int groups = 5;
    const std::string first = in(e, 0), second = in(e, 1);
    const std::array<std::string, 3> keys = {
        first, second, out_.let(fmt::format("{} ^ {} ^ {}", first, second, 0x1BD11BDA))};
    std::string a = out_.let(fmt::format("{} + {}", in(e, 2), keys[0]));
    std::string b = out_.let(fmt::format("{} + {}", in(e, 3), keys[1]));
    for (int group = 0; group < groups; ++group) {
        for (const int amount : rotations[group % 2]) {
            a = out_.let(fmt::format("{} + {}", a, b));
            b = out_.let(
                fmt::format("({0} << {1} | shr_logical({0}, {2})) ^ {3}", b, amount, 32 - amount, a));
        }
        a = out_.let(fmt::format("{} + {}", a, keys[(group + 1) % 3]));
        b = out_.let(fmt::format("{} + ({} + {})", b, keys[(group + 2) % 3], group + 1));
    }
    result(e, a, 0);
    result(e, b, 1);
    return true;
}

}  // namespace kpu::compiler::pallas
