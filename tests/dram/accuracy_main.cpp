// Prints docs/accuracy_dram.md. Run: build/release/bin/dram_accuracy > docs/accuracy_dram.md
#include <cstdio>

#include "tests/dram/accuracy.hpp"

int main() {
    const std::string page = kpu::dram::accuracy_page();
    return std::fwrite(page.data(), 1, page.size(), stdout) == page.size() ? 0 : 1;
}
