#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/types.hpp"

namespace kpu::traces {

/// Origin of a result; manifest.json.
struct Manifest {
    struct File {
        std::string name, path, sha256;  ///< path empty: not a file (a fill, a shipped platform)
    };
    std::string tool_version;
    std::vector<std::string> command_line;
    uint64_t seed = 0;
    std::string mode;  ///< values+timing, timing, functional
    /// Parameters of the program: every one, as bound.
    std::vector<std::pair<std::string, int64_t>> parameters;
    std::string time;  ///< UTC, ISO 8601: utc_now()
    File program, platform;
    std::vector<std::pair<std::string, std::string>>
        precisions;  ///< precisions of operations, where a compiler told them
    std::vector<File> inputs;
    std::string events;  ///< event file in the folder of the run, by its path there; empty: none
    std::string energy_table, energy_corner;  ///< empty: energy is not modelled
    double node_nm = 0, vdd = 0, temp_c = 0;
    std::vector<std::string> host;  ///< conversions between host arrays and the device's tensors, a line each
};
std::string utc_now();

/// The file of an output in the folder of a run; characters that file names do not allow are written as %XX.
std::string output_file_of(const std::string& name);

constexpr const char* stats_file_name = "stats.json";
constexpr const char* program_file_name = "program.nem";
constexpr const char* program_kernels_file_name = "program.kern";

/// The folder that `run -o DIR` leaves: stats.json, ops.csv, manifest.json, platform.textproto, program.nem
/// (without its data) and program.kern if it has kernels, outputs/NAME.npy. Every file is written under a temporary name and renamed.
class RunFolder {
  public:
    /// Creates the folder, or takes an empty one. A folder with content is refused unless `force`, which
    /// replaces only files that this class writes: the names above, and the outputs that the old manifest
    /// lists. The folder is locked: another run that wants it meanwhile is refused. Throws UserError.
    RunFolder(const std::string& path, bool force);
    RunFolder(const RunFolder&) = delete;
    RunFolder& operator=(const RunFolder&) = delete;
    /// A folder that was made and got nothing goes.
    ~RunFolder();
    /// Removes the files of the run that was there before. Only then they are written.
    void begin();
    /// Refuses what could not be written after the run, and changes nothing: for checks before it starts.
    /// `outputs`: names of write_output().
    static void check(const std::string& path, bool force, const std::vector<std::string>& outputs);

    /// First with `"complete": false`, and again when everything that belongs to the run is written.
    void write_stats(std::string_view json) const;
    void write_ops(std::string_view csv) const;
    void write_kernels(std::string_view csv) const;  ///< writes what their statements cost
    void write_platform(std::string_view textproto) const;
    void write_program(std::string_view nem) const;
    void write_program_kernels(std::string_view kern) const;
    /// output_file_of(name).
    void write_output(const std::string& name, std::string_view dtype, const std::vector<int64_t>& shape,
                      std::string_view data);
    /// Last: lists the files of the run with their hashes.
    void write_manifest(const Manifest& manifest) const;
    const std::string& path() const { return path_; }

  private:
    std::string path_;
    bool made_ = false;                 ///< true if this run made it
    int lock_ = -1;                     ///< descriptor of the folder; -1: it cannot be locked
    std::vector<std::string> outputs_;  ///< file names below path_
};

}  // namespace kpu::traces
