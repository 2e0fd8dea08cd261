#pragma once

#include <google/protobuf/message.h>

#include <random>

namespace kpu::fuzz {

/// Changes one field somewhere in a message: a value to an interesting one, an item of a list added, doubled,
/// swapped or removed, a message field set or cleared. Debian packages no protobuf mutator.
void mutate_message(google::protobuf::Message& message, std::mt19937& random);

}  // namespace kpu::fuzz
