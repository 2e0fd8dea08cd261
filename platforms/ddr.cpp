#include "platforms/ddr.hpp"

#include <algorithm>
#include <cmath>

#include "platforms/library.hpp"
#include "platforms/platform.hpp"
#include "platforms/schema.hpp"

namespace kpu::platforms {
namespace {

const proto::DdrDevices& devices() {
    static const proto::DdrDevices table = [] {
        Diagnostics diagnostics;
        proto::DdrDevices parsed;
        const auto text = embedded_text("ddr_devices.textproto");
        if (!text) throw InternalError("ddr_devices.textproto is not embedded");
        schema::parse_text(*text, "<ddr_devices.textproto>", parsed, diagnostics);
        if (diagnostics.has_errors()) throw InternalError(diagnostics.to_string());
        return parsed;
    }();
    return table;
}

}  // namespace

std::vector<std::string> ddr_device_names() {
    std::vector<std::string> names;
    for (const proto::DdrDevice& device : devices().device()) names.push_back(device.name());
    return names;
}

const proto::DdrDevice* find_ddr_device(const std::string& name) {
    for (const proto::DdrDevice& device : devices().device()) {
        if (device.name() == name) return &device;
    }
    return nullptr;
}

const proto::DdrController& default_ddr_controller() { return devices().controller(); }

const google::protobuf::RepeatedPtrField<proto::DdrMapping>& ddr_mappings() { return devices().mapping(); }

uint64_t channel_bytes(const proto::DdrDevice& device) {
    return uint64_t{device.rows()} * device.row_bytes() * device.bank_groups() * device.banks_per_group();
}

uint64_t ddr_capacity(const proto::Ddr& ddr, const proto::DdrDevice& device) {
    return channel_bytes(device) * ddr.channels() * ddr.ranks();
}

proto::DdrDevice at_data_rate(const proto::DdrDevice& device, uint32_t data_rate_mtps) {
    proto::DdrDevice scaled = device;
    if (data_rate_mtps == device.data_rate_mtps()) return scaled;
    const double ratio = static_cast<double>(data_rate_mtps) / device.data_rate_mtps();
    scaled.set_data_rate_mtps(data_rate_mtps);
    scaled.set_tck_ns(device.tck_ns() / ratio);
    // minimum times become whole clocks, rounded up; the small slack absorbs rounding of ratio * clocks
    const auto clocks = [ratio](uint32_t rated) {
        return static_cast<uint32_t>(std::ceil(rated * ratio - 1e-9));
    };
    scaled.set_cl(clocks(device.cl()));
    scaled.set_cwl(clocks(device.cwl()));
    scaled.set_trcd(clocks(device.trcd()));
    scaled.set_trp(clocks(device.trp()));
    if (device.has_trcd_wr()) scaled.set_trcd_wr(clocks(device.trcd_wr()));
    if (device.has_trp_ab()) scaled.set_trp_ab(clocks(device.trp_ab()));
    scaled.set_txp(clocks(device.txp()));
    scaled.set_txs(clocks(device.txs()));
    scaled.set_tcke(clocks(device.tcke()));
    scaled.set_tras(clocks(device.tras()));
    // rounded up one by one, the parts may exceed the whole
    scaled.set_trc(std::max(clocks(device.trc()), scaled.tras() + scaled.trp()));
    scaled.set_trrd_s(clocks(device.trrd_s()));
    scaled.set_trrd_l(clocks(device.trrd_l()));
    scaled.set_tccd_l(std::max(device.tccd_s(), clocks(device.tccd_l())));
    scaled.set_tfaw(clocks(device.tfaw()));
    scaled.set_twr(clocks(device.twr()));
    scaled.set_twtr_s(clocks(device.twtr_s()));
    scaled.set_twtr_l(clocks(device.twtr_l()));
    scaled.set_trtp(clocks(device.trtp()));
    scaled.set_trfc(clocks(device.trfc()));
    if (device.has_trfc_sb()) scaled.set_trfc_sb(clocks(device.trfc_sb()));
    if (device.has_trefsb_to_act()) scaled.set_trefsb_to_act(clocks(device.trefsb_to_act()));
    if (device.has_tccd_l_wr()) scaled.set_tccd_l_wr(clocks(device.tccd_l_wr()));
    // the refresh interval is a maximum: rounded down
    scaled.set_trefi(static_cast<uint32_t>(std::floor(device.trefi() * ratio + 1e-9)));
    // turn-around = CL - CWL + a gap of burst and bus clocks, and the gap stays in clocks
    const int64_t gap = int64_t{device.rd_to_wr()} - device.cl() + device.cwl();
    const int64_t turn_around = gap + scaled.cl() - scaled.cwl();
    scaled.set_rd_to_wr(static_cast<uint32_t>(std::max<int64_t>(device.burst_nck(), turn_around)));
    return scaled;
}

const proto::DdrDevice& rated_ddr_device(const std::string& name) {
    const proto::DdrDevice* device = find_ddr_device(name);
    if (device == nullptr) throw InternalError("unknown DRAM device after validation: " + name);
    return *device;
}

proto::DdrDevice ddr_device(const Platform& platform) {
    return at_data_rate(rated_ddr_device(platform.ddr().device()), platform.ddr().data_rate_mtps());
}

}  // namespace kpu::platforms
