// libFuzzer target: NEM text -> document -> verifier, binder and printer.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/properties.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    kpu::fuzz::check_text({reinterpret_cast<const char*>(data), size});
    return 0;
}
