#pragma once

#include <google/protobuf/io/coded_stream.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace kpu::traces::perfetto {

/// Field numbers of the public trace format (protos/perfetto/trace/*.proto), as far as this writer uses it.
namespace field {
constexpr uint32_t trace_packet = 1;
// TracePacket
constexpr uint32_t timestamp = 8, sequence_id = 10, track_event = 11, interned_data = 12, sequence_flags = 13,
                   track_descriptor = 60;
// TrackDescriptor
constexpr uint32_t track_uuid = 1, track_name = 2, track_process = 3, track_parent = 5, track_counter = 8,
                   track_child_ordering = 11, track_rank = 12;
// ProcessDescriptor, CounterDescriptor
constexpr uint32_t process_pid = 1, process_name = 6, counter_unit_name = 6;
// TrackEvent
constexpr uint32_t event_annotation = 4, event_type = 9, event_name_iid = 10, event_track = 11,
                   event_counter = 30, event_double_counter = 44, event_flow = 47, event_last_flow = 48;
// InternedData; EventName, DebugAnnotationName and InternedString: iid, text
constexpr uint32_t event_names = 2, annotation_names = 3, annotation_strings = 29, iid = 1, text = 2;
// DebugAnnotation
constexpr uint32_t annotation_name_iid = 1, annotation_uint = 3, annotation_string = 6,
                   annotation_string_iid = 17;
}  // namespace field

enum EventType : uint32_t { slice_begin = 1, slice_end = 2, counter = 4 };
constexpr uint32_t explicit_order = 3;  ///< TrackDescriptor.child_ordering: by sibling_order_rank
constexpr uint32_t state_cleared = 1, needs_state = 2;

/// A protobuf message under construction: fields in the order of the calls. Cleared, it keeps its memory.
class Message {
  public:
    void clear() { bytes_.clear(); }
    std::string_view bytes() const { return bytes_; }

    void uint(uint32_t number, uint64_t value) {
        tag(number, 0);
        varint(value);
    }
    void real(uint32_t number, double value) {
        uint64_t bits = 0;
        std::memcpy(&bits, &value, sizeof bits);
        fixed(number, bits);
    }
    void fixed(uint32_t number, uint64_t value) {
        tag(number, 1);
        uint8_t buffer[8];
        append(buffer, Coded::WriteLittleEndian64ToArray(value, buffer));
    }
    void bytes(uint32_t number, std::string_view value) {
        length(number, value.size());
        bytes_.append(value);
    }
    /// The start of a field of so many bytes, which the caller writes.
    void length(uint32_t number, size_t size) {
        tag(number, 2);
        varint(size);
    }
    void append(const Message& other) { bytes_.append(other.bytes_); }
    void message(uint32_t number, const Message& value) { bytes(number, value.bytes()); }

  private:
    using Coded = google::protobuf::io::CodedOutputStream;
    void tag(uint32_t number, uint32_t wire_type) { varint(number << 3 | wire_type); }
    void varint(uint64_t value) {
        uint8_t buffer[10];
        append(buffer, Coded::WriteVarint64ToArray(value, buffer));
    }
    void append(const uint8_t* from, const uint8_t* to) {
        bytes_.append(reinterpret_cast<const char*>(from), static_cast<size_t>(to - from));
    }
    std::string bytes_;
};

}  // namespace kpu::traces::perfetto
