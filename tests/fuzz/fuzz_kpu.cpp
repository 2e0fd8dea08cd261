// libFuzzer target: container, or message of a program alone -> verifier, binder and printer. Checksums would stop every mutation
// at the door, so most mutations change the program inside and wrap it anew; the others change the raw bytes.
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>

#include "tests/fuzz/container_parts.hpp"
#include "tests/fuzz/message_mutator.hpp"
#include "tests/fuzz/properties.hpp"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using kpu::fuzz::ContainerParts;

std::string mutate_bytes(std::string bytes, size_t max_size) {
    const size_t size = bytes.size();
    bytes.resize(std::max(size, max_size));
    bytes.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(bytes.data()), size, bytes.size()));
    return bytes;
}

std::string mutate_program(const std::string& bytes, std::mt19937& random, size_t max_size) {
    const google::protobuf::LogSilencer silence;  // bad UTF-8 is expected here
    kpu::proto::KPUProgram program;
    if (random() % 4 == 0 || !program.ParseFromString(bytes)) return mutate_bytes(bytes, max_size);
    for (uint32_t rounds = 1 + random() % 4; rounds > 0; --rounds) kpu::fuzz::mutate_message(program, random);
    return program.SerializeAsString();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    kpu::fuzz::check_container({reinterpret_cast<const char*>(data), size});
    return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
    std::mt19937 random(seed);
    auto parts = kpu::fuzz::split_container({reinterpret_cast<const char*>(data), size});
    if (!parts) {
        const std::string bytes =
            mutate_program({reinterpret_cast<const char*>(data), size}, random, max_size);
        if (bytes.size() > max_size) return size;
        std::memcpy(data, bytes.data(), bytes.size());
        return bytes.size();
    }
    if (random() % 8 == 0) return LLVMFuzzerMutate(data, size, max_size);
    parts->program = mutate_program(parts->program, random, max_size);
    if (!parts->data.empty() && random() % 8 == 0) {
        std::string& section = parts->data[random() % parts->data.size()];
        section = mutate_bytes(section, section.size() + 64);
    }
    const std::string bytes = kpu::fuzz::join_container(*parts);
    if (bytes.size() > max_size) return size;
    std::memcpy(data, bytes.data(), bytes.size());
    return bytes.size();
}
