// Feeds the output-stationary array: a word of both operands a cycle. A fold ends no sooner than ROWS cycles after the one
// before, for a column needs that long to drain; a shorter one starts later.
module feeder_os #(
    parameter int ROWS = 4
) (
    input  logic        clk,
    input  logic        rst,
    input  logic        go,          // the half has a job
    output logic        half,
    output logic        done,        // last word of the job leaves now
    input  logic [15:0] folds,
    input  logic [15:0] len,
    input  logic        x_available,
    input  logic        y_available,
    output logic        fire,
    output logic        first,
    output logic        last,
    output logic [15:0] fold
);
    logic [15:0] n, since;  // since: cycles from the last word of the fold before
    assign first = n == 0;
    assign last = n == len - 1;
    assign fire = go && x_available && y_available && (!first || 32'(since) + 32'(len) > ROWS);
    assign done = fire && last && fold == folds - 1;

    always_ff @(posedge clk) begin
        if (rst) begin
            {n, fold, half} <= '0;
            since <= '1;
        end else begin
            if (fire && last) since <= 16'd1;
            else if (since != '1) since <= since + 1;
            if (fire) begin
                n <= last ? '0 : n + 1;
                if (last) fold <= done ? '0 : fold + 1;
                if (done) half <= !half;
            end
        end
    end
endmodule
