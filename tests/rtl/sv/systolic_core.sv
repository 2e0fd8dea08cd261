// A systolic array with double-buffered operand SRAM and a DMA front. A job is a product of M x K by K x N; jobs follow each other
// without a gap as far as their operands are there. `hold` keeps loaded jobs from starting.
module systolic_core #(
    parameter int WEIGHT_STATIONARY = 0,
    parameter int ROWS = 4,
    parameter int COLS = 4,
    parameter int A_W = 8,
    parameter int B_W = 8,
    parameter int ACC_W = 32,
    parameter int OPERAND_DEPTH = 2048,
    parameter int RESULT_DEPTH = 4096,
    parameter int OA_W = $clog2(OPERAND_DEPTH),
    parameter int RA_W = $clog2(RESULT_DEPTH)
) (
    input  logic                  clk,
    input  logic                  rst,
    input  logic                  hold,
    // jobs
    input  logic                  job_valid,
    output logic                  job_ready,
    input  logic [          15:0] m,
    input  logic [          15:0] n,
    input  logic [          15:0] k,
    input  logic [      RA_W-1:0] result_base,
    output logic                  loaded,          // every job taken so far has its operands
    // memory outside
    input  logic [           7:0] dma_cycles_per_x,
    input  logic [           7:0] dma_cycles_per_y,
    output logic                  request,
    output logic                  request_y,
    output logic [          15:0] request_addr,
    input  logic                  answer,
    input  logic [  ROWS*A_W-1:0] memory_x,
    input  logic [  COLS*B_W-1:0] memory_y,
    // operand SRAM
    input  logic [           7:0] sram_elements_per_cycle,  // of each of its two ports
    // what the test watches
    output logic                  enters,          // an operand or weight word at the array's edge
    output logic [      COLS-1:0] leaves,          // a result at the foot of a column
    output logic                  starving,        // the array could take a word that is not there
    // results
    input  logic [      RA_W-1:0] look_addr,
    output logic [COLS*ACC_W-1:0] look_data
);
    typedef struct packed {
        logic [15:0] outer, inner, folds, k_folds;
        logic [15:0] x_len, x_outer_stride, x_inner_stride, x_words, x_last_outer, x_last_inner;
        logic [15:0] y_len, y_outer_stride, y_inner_stride, y_words, y_last_outer, y_last_inner, y_skip;
        logic [RA_W-1:0] result_base;
    } job_t;

    // a job's walks over its operands
    job_t fresh_job;
    logic [15:0] m_tiles, n_tiles, k_tiles, m_edge, n_edge, k_edge;  // tiles; elements of the last one
    assign m_tiles = (m + 16'(ROWS - 1)) / 16'(ROWS);
    assign n_tiles = (n + 16'(COLS - 1)) / 16'(COLS);
    assign k_tiles = (k + 16'(ROWS - 1)) / 16'(ROWS);
    assign m_edge = m - (m_tiles - 1) * 16'(ROWS);
    assign n_edge = n - (n_tiles - 1) * 16'(COLS);
    assign k_edge = k - (k_tiles - 1) * 16'(ROWS);
    always_comb begin
        fresh_job.result_base = result_base;
        if (WEIGHT_STATIONARY != 0) begin
            fresh_job.outer = n_tiles;
            fresh_job.inner = k_tiles;
            fresh_job.k_folds = k_tiles;
            {fresh_job.x_len, fresh_job.x_outer_stride, fresh_job.x_inner_stride} = {m, 16'd0, m};
            fresh_job.x_words = k_tiles * m;
            fresh_job.y_len = 16'(ROWS);
            fresh_job.y_outer_stride = k_tiles * 16'(ROWS);
            fresh_job.y_inner_stride = 16'(ROWS);
            fresh_job.y_words = n_tiles * k_tiles * 16'(ROWS);
            {fresh_job.x_last_outer, fresh_job.x_last_inner} = {16'(ROWS), k_edge};
            // weights of rows beyond K are no elements; the bottom rows' words come first
            {fresh_job.y_last_outer, fresh_job.y_last_inner, fresh_job.y_skip} = {
                n_edge, 16'(COLS), 16'(ROWS) - k_edge};
        end else begin
            fresh_job.outer = m_tiles;
            fresh_job.inner = n_tiles;
            fresh_job.k_folds = 16'd1;
            {fresh_job.x_len, fresh_job.x_outer_stride, fresh_job.x_inner_stride} = {k, k, 16'd0};
            fresh_job.x_words = m_tiles * k;
            {fresh_job.y_len, fresh_job.y_outer_stride, fresh_job.y_inner_stride} = {k, 16'd0, k};
            fresh_job.y_words = n_tiles * k;
            {fresh_job.x_last_outer, fresh_job.x_last_inner} = {m_edge, 16'(ROWS)};
            {fresh_job.y_last_outer, fresh_job.y_last_inner, fresh_job.y_skip} = {16'(COLS), n_edge, 16'd0};
        end
        fresh_job.folds = fresh_job.outer * fresh_job.inner;
    end

    // one job per half of the operand buffers
    job_t job[2];
    logic [1:0] loading, full;
    logic take_half, load_half, load_done, feed_half, feed_done, job_done, done_half;
    assign job_ready = !loading[take_half] && !full[take_half];
    assign loaded = loading == '0;
    always_ff @(posedge clk) begin
        if (rst) begin
            {loading, full, take_half} <= '0;
        end else begin
            if (job_valid && job_ready) begin
                job[take_half] <= fresh_job;
                loading[take_half] <= 1'b1;
                take_half <= !take_half;
            end
            if (load_done) begin
                loading[load_half] <= 1'b0;
                full[load_half] <= 1'b1;
            end
            if (job_done) full[done_half] <= 1'b0;
        end
    end

    // a job's operands may be replaced when its last result has left
    localparam int WAY_OUT = (WEIGHT_STATIONARY != 0) ? ROWS + COLS - 1 : 2 * ROWS + COLS - 2;
    delay_line #(.WIDTH(2), .DEPTH(WAY_OUT)) way_out (
        .clk, .rst, .d({feed_done, feed_half}), .q({job_done, done_half})
    );

    logic write_x, write_y, write_half;
    logic [15:0] write_addr;
    dma_front dma (
        .clk, .rst, .go(loading[load_half]), .half(load_half), .done(load_done),
        .x_words(job[load_half].x_words), .y_words(job[load_half].y_words),
        .cycles_per_x(dma_cycles_per_x), .cycles_per_y(dma_cycles_per_y),
        .request, .request_y, .address(request_addr), .answer, .write_x, .write_y, .write_half, .write_addr
    );

    logic x_half, x_available, x_pop, y_half, y_available, y_pop;
    logic [ROWS*A_W-1:0] x_word;
    logic [COLS*B_W-1:0] y_word;
    operand_buffer #(.WORD_W(ROWS*A_W), .ELEMENTS(ROWS), .DEPTH(OPERAND_DEPTH)) x_buffer (
        .clk, .rst, .elements_per_cycle(sram_elements_per_cycle),
        .write(write_x), .write_half, .write_addr(OA_W'(write_addr)), .write_data(memory_x),
        .go(full[x_half] && !hold), .half(x_half), .release_(job_done),
        .release_half(done_half), .outer(job[x_half].outer), .inner(job[x_half].inner),
        .len(job[x_half].x_len), .outer_stride(job[x_half].x_outer_stride),
        .inner_stride(job[x_half].x_inner_stride), .last_outer(job[x_half].x_last_outer),
        .last_inner(job[x_half].x_last_inner), .last_inner_skip(16'd0), .available(x_available), .word(x_word), .pop(x_pop)
    );
    operand_buffer #(.WORD_W(COLS*B_W), .ELEMENTS(COLS), .DEPTH(OPERAND_DEPTH)) y_buffer (
        .clk, .rst, .elements_per_cycle(sram_elements_per_cycle),
        .write(write_y), .write_half, .write_addr(OA_W'(write_addr)), .write_data(memory_y),
        .go(full[y_half] && !hold), .half(y_half), .release_(job_done),
        .release_half(done_half), .outer(job[y_half].outer), .inner(job[y_half].inner),
        .len(job[y_half].y_len), .outer_stride(job[y_half].y_outer_stride),
        .inner_stride(job[y_half].y_inner_stride), .last_outer(job[y_half].y_last_outer),
        .last_inner(job[y_half].y_last_inner), .last_inner_skip(job[y_half].y_skip), .available(y_available), .word(y_word), .pop(y_pop)
    );

    // Where a result goes travels beside the array, ROWS cycles to the foot of column 0 and one more per column.
    typedef struct packed {
        logic valid, add;
        logic [RA_W-1:0] addr;
    } place_t;
    place_t place, place_at[COLS];
    for (genvar c = 0; c < COLS; c++) begin : g_place
        if (c == 0) begin : g_first
            delay_line #(.WIDTH($bits(place_t)), .DEPTH(ROWS)) way (.clk, .rst, .d(place), .q(place_at[0]));
        end else begin : g_next
            delay_line #(.WIDTH($bits(place_t)), .DEPTH(1)) way (.clk, .rst, .d(place_at[c-1]), .q(place_at[c]));
        end
    end

    logic [COLS-1:0] out_valid;
    logic [COLS*ACC_W-1:0] out_data;
    logic [COLS*RA_W-1:0] out_addr;
    logic [COLS-1:0] out_add;

    if (WEIGHT_STATIONARY != 0) begin : g_ws
        localparam int DEST_W = $clog2(ROWS + 1);
        logic weight_half, weight_fire, fire, first;
        logic [DEST_W-1:0] dest;
        logic [15:0] fold, at, k_fold, n_base;
        feeder_ws #(.ROWS(ROWS)) feeder (
            .clk, .rst, .weight_go(full[weight_half]), .weight_half, .weight_folds(job[weight_half].folds),
            .weight_available(y_available), .weight_fire, .dest,
            .go(full[feed_half]), .half(feed_half), .done(feed_done), .folds(job[feed_half].folds),
            .len(job[feed_half].x_len), .x_available, .fire, .first, .fold, .n(at)
        );
        assign {x_pop, y_pop} = {fire, weight_fire};
        array_ws #(.ROWS(ROWS), .COLS(COLS), .A_W(A_W), .B_W(B_W), .ACC_W(ACC_W)) cells (
            .clk, .rst, .fresh(weight_fire), .dest, .weights(y_word), .valid(fire), .first, .x(x_word),
            .out_valid, .out_data
        );
        // folds over K come one after the other and add to the same results
        assign k_fold = fold % job[feed_half].k_folds;
        assign n_base = (fold / job[feed_half].k_folds) * job[feed_half].x_len;
        assign place = '{valid: fire, add: k_fold != 0, addr: job[feed_half].result_base + RA_W'(n_base + at)};
        for (genvar c = 0; c < COLS; c++) begin : g_out
            assign out_addr[c*RA_W+:RA_W] = place_at[c].addr;
            assign out_add[c] = place_at[c].add;
        end
        assign enters = fire || weight_fire;
        assign starving = full[feed_half] && !hold && (!x_available || !y_available);
    end else begin : g_os
        localparam int ROW_W = $clog2(ROWS + 1);
        logic fire, first, last;
        logic [15:0] fold;
        logic [COLS*ROW_W-1:0] out_row;
        feeder_os #(.ROWS(ROWS)) feeder (
            .clk, .rst, .go(full[feed_half]), .half(feed_half), .done(feed_done), .folds(job[feed_half].folds),
            .len(job[feed_half].x_len), .x_available, .y_available, .fire, .first, .last, .fold
        );
        assign {x_pop, y_pop} = {fire, fire};
        array_os #(.ROWS(ROWS), .COLS(COLS), .A_W(A_W), .B_W(B_W), .ACC_W(ACC_W)) cells (
            .clk, .rst, .valid(fire), .first, .last, .x(x_word), .y(y_word), .out_valid, .out_row, .out_data
        );
        assign place = '{
            valid: fire && last, add: 1'b0, addr: job[feed_half].result_base + RA_W'(fold * 16'(ROWS))};
        for (genvar c = 0; c < COLS; c++) begin : g_out
            logic [RA_W-1:0] base;
            always_ff @(posedge clk) if (place_at[c].valid) base <= place_at[c].addr;
            assign out_addr[c*RA_W+:RA_W] =
                (place_at[c].valid ? place_at[c].addr : base) + RA_W'(out_row[c*ROW_W+:ROW_W]);
        end
        assign out_add = '0;
        assign enters = fire;
        assign starving = full[feed_half] && !hold && !(x_available && y_available);
    end
    assign leaves = out_valid;

    for (genvar c = 0; c < COLS; c++) begin : g_result
        result_buffer #(.ACC_W(ACC_W), .DEPTH(RESULT_DEPTH)) results (
            .clk, .write(out_valid[c]), .add(out_add[c]), .addr(out_addr[c*RA_W+:RA_W]),
            .data(out_data[c*ACC_W+:ACC_W]), .look_addr, .look_data(look_data[c*ACC_W+:ACC_W])
        );
    end
endmodule
