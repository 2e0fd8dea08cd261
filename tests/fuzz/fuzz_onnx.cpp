// libFuzzer target: an ONNX file -> reader, importer, and the checks of the graph. Most mutations change fields of
// the message, the others raw bytes.
#include <google/protobuf/stubs/logging.h>
#include <onnx/onnx_pb.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>

#include "base/diagnostics.hpp"
#include "compiler/onnx/import.hpp"
#include "tests/fuzz/message_mutator.hpp"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

/// The importer checks the graph itself, and ends in UserError or a graph.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    kpu::Diagnostics notes;
    try {
        kpu::onnx::import_bytes({reinterpret_cast<const char*>(data), size}, "<fuzz>", "", {}, notes);
    } catch (const kpu::UserError&) {  // a file may be wrong
    }
    return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
    std::mt19937 random(seed);
    const google::protobuf::LogSilencer silence;  // bad UTF-8 is expected here
    onnx::ModelProto model;
    if (random() % 8 == 0 || !model.ParseFromArray(data, static_cast<int>(size)))
        return LLVMFuzzerMutate(data, size, max_size);
    for (uint32_t rounds = 1 + random() % 4; rounds > 0; --rounds) kpu::fuzz::mutate_message(model, random);
    const std::string bytes = model.SerializeAsString();
    if (bytes.size() > max_size) return size;
    std::memcpy(data, bytes.data(), bytes.size());
    return bytes.size();
}
