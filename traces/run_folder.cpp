#include "traces/run_folder.hpp"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/diagnostics.hpp"
#include "base/digest.hpp"
#include "base/json.hpp"
#include "base/npy.hpp"
#include "base/read_file.hpp"
#include "base/text_output.hpp"
#include "traces/kernel_rows.hpp"

namespace kpu::traces {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr const char* outputs_folder = "outputs";
constexpr std::string_view array_suffix = ".npy";

std::string safe_file_name(std::string_view name) {
    std::string out;
    for (const char c : name) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                           c == '_' || c == '-' || (c == '.' && !out.empty());
        out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
    return out;
}

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
    throw UserError(fmt::format("{}: {}", path, what));
}

[[noreturn]] void unusable(const std::string& path, const char* what, const std::string& reason) {
    refuse(path, fmt::format("{}: {}. Fix: choose another one.", what, reason));
}

std::string output_file(const std::string& name) { return safe_file_name(name).append(array_suffix); }

/// Output files that the run which wrote this folder listed; nothing when its manifest cannot be read.
std::vector<std::string> old_outputs(const std::string& path) {
    std::vector<std::string> names;
    const std::string manifest = path + "/manifest.json";
    std::error_code error;
    if (!fs::exists(manifest, error)) return names;
    const std::string text = read_file(manifest);
    json content;
    try {
        content = parse_json(text);
    } catch (const UserError&) {  // not ours, then
    }
    if (!content.is_object() || !content.contains("outputs") || !content["outputs"].is_array()) return names;
    for (const json& row : content["outputs"]) {
        if (!row.is_object() || !row.contains("file") || !row["file"].is_string()) continue;
        const auto name = row["file"].get<std::string>();
        const fs::path file(name);
        // a manifest is untrusted: only plain names in outputs/ are ours
        const bool ours = file.parent_path() == outputs_folder && file.extension() == array_suffix &&
                          safe_file_name(file.stem().string()).find("%2F") == std::string::npos;
        if (ours) names.push_back(name);
    }
    return names;
}

json to_json(const Manifest::File& file) {
    return {{"name", file.name}, {"path", file.path}, {"sha256", file.sha256}};
}

/// An existing folder, empty or to be replaced; or a place where one can be made.
void check_folder(const std::string& path, bool force) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (status.type() == fs::file_type::none) unusable(path, "cannot use the folder", error.message());
    if (status.type() == fs::file_type::not_found) {
        fs::path above = fs::absolute(path, error).lexically_normal();
        while (above.has_relative_path() && !fs::exists(above, error)) above = above.parent_path();
        if (!fs::is_directory(above, error))
            unusable(path, "cannot create the folder", fmt::format("{} is not a folder", above.string()));
        if (::access(above.c_str(), W_OK | X_OK) != 0)
            unusable(path, "cannot create the folder", std::strerror(errno));
        return;
    }
    if (!fs::is_directory(status)) refuse(path, "is not a folder. Fix: choose another output folder.");
    const fs::path outputs = fs::path(path) / outputs_folder;
    const fs::file_type there = fs::symlink_status(outputs, error).type();
    if (there == fs::file_type::symlink)
        refuse(outputs.string(), "is a link: outputs would be written elsewhere. Fix: remove the link.");
    if (there != fs::file_type::not_found && there != fs::file_type::directory)
        refuse(outputs.string(), "is not a folder, which the outputs need. Fix: remove it.");
    const bool empty = fs::is_empty(path, error);
    if (error) unusable(path, "cannot read the folder", error.message());
    if (!empty && !force) {
        refuse(path,
               "the output folder is not empty. Fix: choose another one, or --force to replace a run's files "
               "in it.");
    }
}

}  // namespace

std::string utc_now() { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))); }

std::string output_file_of(const std::string& name) {
    return fmt::format("{}/{}", outputs_folder, output_file(name));
}

void RunFolder::check(const std::string& path, bool force, const std::vector<std::string>& outputs) {
    check_folder(path, force);
    const std::string folder = fmt::format("{}/{}/", path, outputs_folder);
    for (const std::string& name : outputs) {
        const std::string file = output_file(name);
        if (file.size() <= NAME_MAX && folder.size() + file.size() < PATH_MAX) continue;
        throw UserError(fmt::format(
            "{}: the name of output `{}...` is too long for a file: {} characters. Fix: give the buffer or "
            "tensor a shorter one.",
            path, name.substr(0, 40), file.size()));
    }
}

RunFolder::RunFolder(const std::string& path, bool force) : path_(path) {
    check_folder(path, force);
    std::error_code error;
    made_ = fs::create_directories(path, error);
    if (error) unusable(path, "cannot create the folder", error.message());
    lock_ = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool locked = lock_ >= 0 && ::flock(lock_, LOCK_EX | LOCK_NB) == 0;
    if (lock_ >= 0 && !locked && errno == EWOULDBLOCK) {
        ::close(lock_);
        refuse(path, "another run writes to the folder. Fix: wait for its end, or choose another folder.");
    }
}

RunFolder::~RunFolder() {
    if (made_) ::rmdir(path_.c_str());  // fails where something is in it
    if (lock_ >= 0) ::close(lock_);
}

void RunFolder::begin() {
    std::error_code error;
    fs::create_directories(fs::path(path_) / outputs_folder, error);
    if (error) unusable(path_, "cannot create the folder", error.message());
    const std::string& path = path_;
    fs::remove(fs::path(path) / stats_file_name, error);  // first: what is left is no run
    for (const std::string& name : old_outputs(path)) fs::remove(fs::path(path) / name, error);
    for (const char* name : {"manifest.json", "ops.csv", kernels_file_name, "platform.textproto",
                             program_file_name, program_kernels_file_name}) {
        fs::remove(fs::path(path) / name, error);
    }
}

void RunFolder::write_stats(std::string_view json_text) const {
    write_file(fmt::format("{}/{}", path_, stats_file_name), json_text);
}
void RunFolder::write_ops(std::string_view csv) const { write_file(path_ + "/ops.csv", csv); }
void RunFolder::write_kernels(std::string_view csv) const {
    write_file(fmt::format("{}/{}", path_, kernels_file_name), csv);
}
void RunFolder::write_platform(std::string_view textproto) const {
    write_file(path_ + "/platform.textproto", textproto);
}
void RunFolder::write_program(std::string_view nem) const {
    write_file(fmt::format("{}/{}", path_, program_file_name), nem);
}
void RunFolder::write_program_kernels(std::string_view kern) const {
    write_file(fmt::format("{}/{}", path_, program_kernels_file_name), kern);
}

void RunFolder::write_output(const std::string& name, std::string_view dtype,
                             const std::vector<int64_t>& shape, std::string_view data) {
    const std::string file = output_file_of(name);
    write_npy(path_ + "/" + file, dtype, shape, data);
    outputs_.push_back(file);
}

void RunFolder::write_manifest(const Manifest& manifest) const {
    json out{{"schema", 1},
             {"tool", "kpusim"},
             {"version", manifest.tool_version},
             {"command_line", manifest.command_line},
             {"seed", manifest.seed},
             {"mode", manifest.mode},
             {"parameters", json::object()},
             {"time", manifest.time},
             {"program", to_json(manifest.program)},
             {"platform", to_json(manifest.platform)},
             {"inputs", json::array()},
             {"outputs", json::array()}};
    for (const auto& [name, value] : manifest.parameters) out["parameters"][name] = value;
    for (const Manifest::File& file : manifest.inputs) out["inputs"].push_back(to_json(file));
    for (const auto& [op, type] : manifest.precisions) out["precisions"][op] = type;
    if (!manifest.events.empty()) out["events"] = manifest.events;
    if (!manifest.host.empty()) out["host"] = manifest.host;
    if (!manifest.energy_table.empty())
        out["energy"] = {{"table", manifest.energy_table},
                         {"corner", manifest.energy_corner},
                         {"node_nm", manifest.node_nm},
                         {"vdd_v", manifest.vdd},
                         {"temp_c", manifest.temp_c}};
    for (const std::string& file : outputs_) {
        out["outputs"].push_back({{"file", file}, {"sha256", sha256_hex_of_file(path_ + "/" + file)}});
    }
    // command lines may hold bytes that are not UTF-8
    write_file(path_ + "/manifest.json", json_text(out, 2) + "\n");
}

}  // namespace kpu::traces
