#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/dram/config.hpp"

namespace kpu::dram {

/// A burst of a trace.
struct TraceRequest {
    uint64_t time = 0;     ///< nCK: from clock 0, or `relative`
    uint64_t address = 0;  ///< byte
    bool is_write = false;
    uint64_t line = 0;      ///< where it stands, from 1
    bool relative = false;  ///< time counts from when the request before it was taken
    uint32_t source = 0;    ///< who asks: one of TraceSource::sources()
};

/// A source of requests, in the order in which they are to be served.
class TraceSource {
  public:
    virtual ~TraceSource() = default;
    virtual std::optional<TraceRequest> next() = 0;
    virtual const std::string& name() const = 0;
    /// Sources that asked so far; traces that do not say have one.
    struct Source {
        std::string unit, task;
    };
    const std::vector<Source>& sources() const { return sources_; }

  protected:
    std::vector<Source> sources_{{}};
};

/// Forms of trace files:
///
///     number,R|W,0xADDRESS,NANOSECONDS        csv
///     CYCLE: [(BYTES)] read|write 0xADDRESS [0xDATA]     stl, of DRAMSys: hexadecimal addresses; data are not used
///     the same, CYCLE since the line before   rstl
///     LD|ST ADDRESS                           ramulator, its LoadStoreTrace: as fast as the memory takes them
///     R|W CHANNEL,[RANK],[GROUP],BANK,ROW,COLUMN         ramulator, its ReadWriteTrace: a number for each level
///                                             that the device has in Ramulator 2; COLUMN counts bursts
///     cycle,access,level,address,bytes,...    run: what `kpusim run --memory-trace` writes: its accesses to DRAM
enum class TraceForm : uint8_t { unknown, csv, stl, rstl, ramulator, run };
/// Returns the names of the forms, for options; `auto` is the unknown one.
const std::vector<std::string>& trace_form_names();
/// Returns the form with this name, which the list has.
TraceForm trace_form_of(std::string_view name);

struct TraceOptions {
    TraceForm form = TraceForm::unknown;  ///< the file's first line and the end of its name tell
    /// Clock of the cycles of stl, rstl and run. Without it a line `# clock_mhz: F` above the first request
    /// tells, else it is 1000 for run, and the DRAM's own clock for the others.
    std::optional<double> clock_mhz;
};

/// A trace file, read line by line. Empty lines and lines that begin with # are skipped. What is longer than a
/// burst is several requests. Throws UserError as file:line: for anything else, and for times that go back.
class TraceFile final : public TraceSource {
  public:
    /// "-" is standard input. Throws UserError when the file cannot be read. `system` must outlive it.
    TraceFile(const std::string& path, const ReplayConfig& system, TraceOptions options = {});
    std::optional<TraceRequest> next() override;
    const std::string& name() const override { return name_; }

  private:
    bool read_line(std::string_view& line);
    bool fill();
    void read_comment(std::string_view line);
    void find_form(std::string_view text);
    /// A request as its line has it.
    struct Line {
        uint64_t cycle = 0;  ///< cycle of the trace's clock; csv: nCK
        uint64_t address = 0;
        bool is_write = false;
        uint64_t bytes = 1;           ///< 1: the burst that has it
        std::string_view unit, task;  ///< run only
    };
    /// Parses a line; nothing for one that holds no request to DRAM.
    std::optional<Line> parse(std::string_view text) const;
    std::optional<Line> parse_run(std::string_view text) const;
    Line parse_csv(std::string_view text) const;
    Line parse_stl(std::string_view text) const;
    Line parse_ramulator(std::string_view text) const;
    uint64_t parse_address(std::string_view text, int base = 10) const;
    uint64_t parse_vector(std::string_view text) const;
    uint64_t parse_bytes(std::string_view text) const;
    void begin(const Line& line);
    uint64_t clocks_of(uint64_t cycles) const;
    uint32_t source_of(const Line& line);
    TraceRequest next_burst();
    [[noreturn]] void fail(const std::string& what, const std::string& fix) const;

    struct Close {
        void operator()(std::FILE* file) const {
            if (file != stdin) std::fclose(file);
        }
    };
    std::string name_;
    const ReplayConfig& system_;
    TraceOptions options_;
    std::unique_ptr<std::FILE, Close> file_;
    std::string buffer_;
    size_t position_ = 0;
    bool ended_ = false;
    TraceForm form_;
    uint64_t line_ = 0;
    uint64_t cycle_ = 0;  ///< cycle of the last line; rstl: the sum of all
    std::map<std::pair<std::string, std::string>, uint32_t> known_sources_;
    TraceRequest access_;      ///< its access: what its next burst continues
    uint64_t bytes_left_ = 0;  ///< its bytes left
};

}  // namespace kpu::dram
