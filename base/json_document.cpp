#include "base/json_document.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace kpu {

/// Receives each piece of a text from the library's parser: it recurses nowhere, checks all of it, and only
/// the tree is ours. False ends the parsing.
class JsonBuilder : public nlohmann::json_sax<nlohmann::json> {
  public:
    /// Reserves the text's length: no string is longer in memory than in the text, so that `strings_` never
    /// moves.
    JsonBuilder(JsonDocument& document, size_t bytes) : nodes_(document.nodes_), strings_(document.strings_) {
        strings_.reserve(bytes);
        nodes_.reserve(std::min<size_t>(bytes / 4, 1 << 16));  // numbers of a digit or two
    }

    bool null() override { return value(Kind::null); }
    bool boolean(bool value_of) override { return value(Kind::boolean, value_of ? 1 : 0); }
    bool number_integer(int64_t number) override { return value(Kind::integer, number); }
    bool number_unsigned(uint64_t number) override {
        return value(Kind::integer, static_cast<int64_t>(number));
    }
    bool number_float(double, const std::string&) override { return value(Kind::real); }
    bool string(std::string& text) override {
        count();
        return key(text);
    }
    bool binary(nlohmann::json::binary_t&) override { return false; }  // no JSON has it

    bool start_object(size_t) override { return start(Kind::object); }
    bool start_array(size_t) override { return start(Kind::array); }
    bool end_object() override { return end(); }
    bool end_array() override { return end(); }
    bool key(std::string& text) override {
        Node& node = nodes_.emplace_back();
        node.kind = Kind::string;
        node.text = strings_.data() + strings_.size();
        node.size = static_cast<uint32_t>(text.size());
        strings_ += text;
        return true;
    }
    bool parse_error(size_t, const std::string&, const nlohmann::json::exception&) override { return false; }

  private:
    using Node = JsonDocument::Node;
    using Kind = JsonDocument::Kind;

    void count() {
        if (!open_.empty()) ++nodes_[open_.back()].size;
    }
    bool value(Kind kind, int64_t integer = 0) {
        count();
        Node& node = nodes_.emplace_back();
        node.kind = kind;
        node.integer = integer;
        return true;
    }
    bool start(Kind kind) {
        value(kind);
        open_.push_back(static_cast<uint32_t>(nodes_.size() - 1));
        return true;
    }
    bool end() {
        nodes_[open_.back()].after = static_cast<uint32_t>(nodes_.size());
        open_.pop_back();
        return true;
    }

    std::vector<Node>& nodes_;
    std::string& strings_;
    std::vector<uint32_t> open_;  ///< nodes of the arrays and objects around the next value
};

std::shared_ptr<const JsonDocument> JsonDocument::parse(std::string_view text) {
    if (text.size() >= std::numeric_limits<uint32_t>::max()) return nullptr;
    const auto document = std::make_shared<JsonDocument>();
    JsonBuilder builder(*document, text.size());
    return nlohmann::json::sax_parse(text, &builder) ? document : nullptr;
}

const JsonDocument::Node JsonDocument::no_node{};

JsonValue JsonDocument::root() const { return {this, 0}; }

JsonValue JsonValue::find(std::string_view key) const {
    JsonValue found;
    if (!is_object()) return found;
    for (Iterator at = begin(), last = end(); at != last; ++at)
        if (at.key() == key) found = at.value();
    return found;
}

}  // namespace kpu
