#include "platforms/extends.hpp"

#include <algorithm>
#include <utility>

#include "platforms/operating_points.hpp"

namespace kpu::platforms {
namespace {

/// Merges rows of which `same` says that they are about one thing; others are added.
template <typename Rows, typename Same>
void merge_rows(Rows& rows, const Rows& changes, Same same) {
    for (const auto& change : changes) {
        const auto known =
            std::find_if(rows.begin(), rows.end(), [&](const auto& row) { return same(row, change); });
        if (known != rows.end())
            known->MergeFrom(change);
        else
            *rows.Add() = change;
    }
}

void merge_engine(proto::Engine& engine, proto::Engine change) {
    using google::protobuf::RepeatedPtrField;
    RepeatedPtrField<proto::MacRate> rates;
    RepeatedPtrField<proto::OpcodeCost> costs;
    if (change.has_array()) rates.Swap(change.mutable_array()->mutable_rate());
    if (change.has_vector()) costs.Swap(change.mutable_vector()->mutable_cost());
    engine.MergeFrom(change);
    merge_rows(*engine.mutable_array()->mutable_rate(), rates,
               [](const auto& a, const auto& b) { return a.type() == b.type(); });
    merge_rows(*engine.mutable_vector()->mutable_cost(), costs,
               [](const auto& a, const auto& b) { return a.opcode() == b.opcode(); });
}

void merge_engines(proto::Platform& platform, const proto::Platform& changes) {
    for (int k = 0; k < changes.engine_size(); ++k) {
        if (k >= platform.engine_size()) {
            proto::Engine last;
            if (k > 0) last = platform.engine(k - 1);
            *platform.add_engine() = std::move(last);
        }
        merge_engine(*platform.mutable_engine(k), changes.engine(k));
    }
}

/// Adds what the list does not have yet.
void add_texts(google::protobuf::RepeatedPtrField<std::string>& list,
               const google::protobuf::RepeatedPtrField<std::string>& more) {
    for (const std::string& text : more) {
        if (std::find(list.begin(), list.end(), text) == list.end()) list.Add(std::string(text));
    }
}

}  // namespace

void apply_changes(proto::Platform& platform, proto::Platform changes) {
    platform.clear_name();
    platform.clear_description();
    // rate and size of the other device say nothing about this one
    if (changes.ddr().has_device() && changes.ddr().device() != platform.ddr().device()) {
        platform.mutable_ddr()->clear_data_rate_mtps();
        platform.mutable_ddr()->clear_size_bytes();
    }
    forget_replaced_pairs(*platform.mutable_clock(), changes.clock());
    merge_rows(*platform.mutable_clock()->mutable_point(), changes.clock().point(),
               [](const auto& a, const auto& b) { return a.name() == b.name() && a.domain() == b.domain(); });
    merge_engines(platform, changes);
    add_texts(*platform.mutable_variant(), changes.variant());
    add_texts(*platform.mutable_variant_set(), changes.variant_set());
    add_texts(*platform.mutable_type_family(), changes.type_family());
    merge_rows(*platform.mutable_characteristic(), changes.characteristic(),
               [](const auto& a, const auto& b) { return a.unit() == b.unit() && a.key() == b.key(); });
    if (changes.has_clock()) changes.mutable_clock()->clear_point();
    changes.clear_extends();
    changes.clear_engine();
    changes.clear_variant();
    changes.clear_variant_set();
    changes.clear_type_family();
    changes.clear_characteristic();
    platform.MergeFrom(changes);
}

}  // namespace kpu::platforms
