#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kpu {

class JsonValue;

/// A JSON text as one array of its values: for what machines write. Read by the same library as a tree that owns its parts
/// (base/json.hpp), so that both accept the same texts, without the memory of its own that each part takes there.
class JsonDocument {
  public:
    /// Parses a text; null where it is no JSON, or has a number beyond double.
    static std::shared_ptr<const JsonDocument> parse(std::string_view text);
    JsonValue root() const;

  private:
    friend class JsonValue;
    friend class JsonBuilder;
    enum class Kind : uint8_t { null, boolean, integer, real, string, array, object };
    /// A value before its parts. Of an object: each key, as a string, before its value. There are as many as a file has
    /// values, and memory that was never used costs more than all else: 16 bytes each.
    struct Node {
        Kind kind = Kind::null;
        uint32_t size = 0;  ///< members, or bytes of a string
        union {
            int64_t integer = 0;  ///< or the value of a boolean
            const char* text;     ///< bytes of a string
            uint32_t after;       ///< index of the first node after all parts of an array or object
        };
    };
    static const Node no_node;

    std::vector<Node> nodes_;
    std::string strings_;  ///< all strings, one after the other
};

/// A value of a document, which has to live as long; or none.
class JsonValue {
  public:
    JsonValue() = default;
    explicit operator bool() const { return document_ != nullptr; }  ///< whether it is one

    bool is_boolean() const { return is(Kind::boolean); }
    bool is_integer() const { return is(Kind::integer); }  ///< without point and exponent
    bool is_string() const { return is(Kind::string); }
    bool is_array() const { return is(Kind::array); }
    bool is_object() const { return is(Kind::object); }

    bool boolean() const { return node().integer != 0; }
    int64_t integer() const { return node().integer; }  ///< modulo 2^64
    std::string_view string() const { return {node().text, node().size}; }
    /// Members of an array or object.
    size_t size() const { return node().size; }

    /// Returns a member of an object; none without it. Of several with the key the last one counts.
    JsonValue find(std::string_view key) const;

    /// Iterates over the members of an array, or over those of an object with their keys.
    class Iterator {
      public:
        Iterator(const JsonDocument* document, uint32_t node, bool keyed)
            : document_(document), node_(node), keyed_(keyed) {}
        std::string_view key() const { return JsonValue(document_, node_).string(); }
        JsonValue value() const { return {document_, keyed_ ? node_ + 1 : node_}; }
        JsonValue operator*() const { return value(); }
        Iterator& operator++() {
            node_ = value().after();
            return *this;
        }
        bool operator!=(const Iterator& other) const { return node_ != other.node_; }

      private:
        const JsonDocument* document_;
        uint32_t node_;
        bool keyed_;
    };
    Iterator begin() const { return {document_, document_ == nullptr ? 0 : node_ + 1, is_object()}; }
    Iterator end() const { return {document_, document_ == nullptr ? 0 : after(), is_object()}; }

  private:
    friend class JsonDocument;
    using Kind = JsonDocument::Kind;
    JsonValue(const JsonDocument* document, uint32_t node) : document_(document), node_(node) {}
    const JsonDocument::Node& node() const {
        return document_ == nullptr ? JsonDocument::no_node : document_->nodes_[node_];
    }
    uint32_t after() const {
        return node().kind == Kind::array || node().kind == Kind::object ? node().after : node_ + 1;
    }
    bool is(Kind kind) const { return document_ != nullptr && node().kind == kind; }

    const JsonDocument* document_ = nullptr;
    uint32_t node_ = 0;
};

}  // namespace kpu
